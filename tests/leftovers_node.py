"""A node that tells what only its garbage collector would free: objects that ended as cycles.

    LEFTOVERS=FILE python -m tests.leftovers_node serve ...

SIGUSR1: what there is now does not count, and the collector stops. SIGUSR2: what is garbage since is written to FILE, as JSON:
how many of each type, and what holds them together. Everything else is as node/main.py does it.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from node import main, run
from node.watching.loop_watch import LoopWatch, SlowTurn

HELD_SHOWN = 200


def begin() -> None:
    gc.collect()
    gc.disable()


def tell() -> None:
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    gc.set_debug(0)
    found, gc.garbage[:] = list(gc.garbage), []
    told = {"count": len(found), "types": Counter(map(type_name, found)), "held": held_together(found)}
    target = Path(os.environ["LEFTOVERS"])
    new = target.with_suffix(".new")
    new.write_bytes(msgspec.json.encode(told))
    new.replace(target)


def type_name(one: Any) -> str:
    return f"{type(one).__module__}.{type(one).__qualname__}"


def held_together(found: list[Any]) -> list[str]:
    """Who refers to whom in their cycles, for whoever has to break them. What merely hangs on a cycle is left out."""
    named = {id(one): one for one in found}
    edges = {
        (id(one), id(other))
        for one in found
        for other in gc.get_referents(one)
        if id(other) in named and one is not other
    }
    before = -1
    while before != len(edges):
        before = len(edges)
        sources, targets = {one for one, _ in edges}, {other for _, other in edges}
        edges = {(one, other) for one, other in edges if one in targets and other in sources}
    return [f"{described(named[one])} -> {described(named[other])}" for one, other in sorted(edges)][:HELD_SHOWN]


def described(one: Any) -> str:
    name = getattr(one, "__qualname__", "") or getattr(getattr(one, "__func__", None), "__qualname__", "")
    return f"{type_name(one)}@{id(one) & 0xFFFFFF:x}{' ' + name if name else ''}"


class LeftoversWatch(LoopWatch):
    """Begun by a node that is ready."""

    def __init__(self, loop: asyncio.AbstractEventLoop, told: Callable[[SlowTurn], None]) -> None:
        super().__init__(loop, told)
        loop.add_signal_handler(signal.SIGUSR1, begin)
        loop.add_signal_handler(signal.SIGUSR2, tell)


if __name__ == "__main__":
    run.LoopWatch = LeftoversWatch  # type: ignore[misc]
    main.main()
