"""No import cycle between modules, imports for annotations included: what a reader must know to read a module lies below it.

`BACK` lists the imports that may close a cycle: of two classes that know each other and are one thing to their callers.
"""

from __future__ import annotations

import tomllib
from collections import deque

import grimp

from tests.tidy.sources import ROOT

Edge = tuple[str, str]  # who imports, what is imported
Imports = dict[str, set[str]]

BACK: dict[Edge, str] = {
    ("broker.queues.queue_type", "broker.queues.consumer"): "a queue and its consumers",
    ("front.amqp.channel", "front.amqp.connection"): "a connection and its channels",
}


def product() -> Imports:
    """Module -> the modules of ours that it imports, anywhere in its file."""
    roots = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["root_packages"]
    graph = grimp.build_graph(*roots, exclude_type_checking_imports=False, cache_dir=None)
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


def way(imports: Imports, start: str, end: str) -> list[str]:
    """The shortest way from one module to another along imports; empty if there is none."""
    came_from = {start: start}
    waiting = deque([start])
    while waiting and end not in came_from:
        module = waiting.popleft()
        for following in sorted(imports.get(module, set()) - came_from.keys()):
            came_from[following] = module
            waiting.append(following)
    if end not in came_from:
        return []
    steps = [end]
    while steps[-1] != start:
        steps.append(came_from[steps[-1]])
    return steps[::-1]


def without(imports: Imports, edges: set[Edge]) -> Imports:
    return {module: {other for other in below if (module, other) not in edges} for module, below in imports.items()}


def cycles(imports: Imports) -> list[str]:
    """A shortest cycle through every import that is part of one, each cycle once."""
    found = {}
    for module, below in sorted(imports.items()):
        for imported in sorted(below):
            if back := way(imports, imported, module):
                found.setdefault(frozenset(back), " -> ".join([module, *back]))
    return sorted(found.values())


def unneeded(imports: Imports, allowed: set[Edge]) -> list[Edge]:
    """Allowed edges that close no cycle: without them, what is left is no less free of cycles."""
    return [
        (importer, imported)
        for importer, imported in sorted(allowed)
        if imported not in imports.get(importer, set())
        or not way(without(imports, allowed - {(importer, imported)}), imported, importer)
    ]


def test_modules_import_each_other_in_one_direction() -> None:
    new = cycles(without(product(), set(BACK)))
    assert new == [], "\n".join(["new import cycles (move what both sides need to a module below):", *new])


def test_every_allowed_import_still_closes_a_cycle() -> None:
    assert unneeded(product(), set(BACK)) == [], "take these out of BACK"


def test_only_two_modules_that_import_each_other_may() -> None:
    imports = product()
    assert [edge for edge in BACK if edge[0] not in imports[edge[1]]] == [], "a cycle of more than two modules"


def test_a_cycle_is_named_by_its_imports() -> None:
    imports = {"a": {"b", "d"}, "b": {"c"}, "c": {"a"}, "d": set()}
    assert cycles(imports) == ["a -> b -> c -> a"]
    assert cycles(without(imports, {("c", "a")})) == []


def test_an_import_that_closes_nothing_is_unneeded() -> None:
    imports = {"a": {"b"}, "b": {"a"}, "c": {"a"}}
    assert unneeded(imports, {("b", "a"), ("c", "a"), ("c", "gone")}) == [("c", "a"), ("c", "gone")]
