"""docs/message-path.md and docs/quorum-message-path.md say which functions a published message passes. Here one is
published to a queue of each kind, and the pages are compared with what was called."""

from __future__ import annotations

import ast
import asyncio
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.tidy import published_message, published_to_quorum
from tests.tidy.published_message import Call
from tests.tidy.published_to_quorum import Passed
from tests.tidy.sources import ROOT, sources

CLASSIC = ROOT / "docs" / "message-path.md"
QUORUM = ROOT / "docs" / "quorum-message-path.md"
ROW = re.compile(r"^\| `([a-z0-9_/]+\.py)` \| `([\w.]+)` \|", re.MULTILINE)
FILE = re.compile(r"`([a-z0-9_/]+\.py)`")
SECTION = re.compile(r"^## ", re.MULTILINE)

# Files whose functions are small steps of a value within the function that the page names.
VALUES = {"classic/consumers.py", "classic/run_queue.py", "classic/stored_run.py"}
HELPERS = {"node/clock.py", "node/assemble.py"}  # the clock, and lambdas that tie parts together


@pytest.fixture(scope="module")
def classic_calls(tmp_path_factory: pytest.TempPathFactory) -> list[list[Call]]:
    return asyncio.run(published_message.calls_of_publishes(tmp_path_factory.mktemp("traced") / "data"))


@pytest.fixture(scope="module")
def quorum_calls(tmp_path_factory: pytest.TempPathFactory) -> list[Passed]:
    return asyncio.run(published_to_quorum.calls_of_publishes(tmp_path_factory.mktemp("traced")))


def first_missing(steps: Sequence[Call], calls: Sequence[Call]) -> str:
    """Which step was not passed after the ones before it; empty if all were."""
    position = 0
    for number, step in enumerate(steps, 1):
        later = calls[position:]
        if step not in later:
            seen = "\n".join(" ".join(call) for call in later)
            known = "it was called, but earlier" if step in calls else "it was not called at all"
            return f"step {number}, {' '.join(step)}: {known}. After the step before it these were called:\n{seen}"
        position += later.index(step) + 1
    return ""


def test_each_step_through_a_classic_queue_is_passed_in_its_order(classic_calls: list[list[Call]]) -> None:
    steps = ROW.findall(CLASSIC.read_text())
    assert len(steps) > 30, "the page's tables were not found"
    missing = [first_missing(steps, calls) for calls in classic_calls]
    assert "" in missing, missing[0]


def test_each_part_of_the_node_that_is_passed_is_on_the_page(classic_calls: list[list[Call]]) -> None:
    """A file that does real work for a message and is not mentioned would make the page a lie by leaving out."""
    mentioned = set(FILE.findall(CLASSIC.read_text()))
    counts = [Counter(file for file, _ in calls) for calls in classic_calls]
    busy = {file for file in counts[0] if all(one[file] > 3 for one in counts)}
    assert busy - mentioned - HELPERS - VALUES == set(), "say what these do, or name them among the values"


def test_what_is_left_out_by_name_exists() -> None:
    """A function that was renamed would be seen whenever its timer fires in the midst of the message."""
    methods = {
        f"{one.name}.{step.name}"
        for tree in sources().values()
        for one in ast.walk(tree)
        if isinstance(one, ast.ClassDef)
        for step in one.body
        if isinstance(step, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert published_message.BESIDE_CLASSIC - methods == set()


def steps_of(role: str) -> list[Call]:
    """What the quorum page says of the nodes of one role: the rows of its sections."""
    sections = (text for text in SECTION.split(QUORUM.read_text()) if text.startswith(f"{role}:"))
    return [step for section in sections for step in ROW.findall(section)]


def test_each_step_through_a_quorum_queue_is_passed_in_its_order(
    quorum_calls: list[Passed],
) -> None:
    leading, following = steps_of("Leader"), steps_of("Follower")
    assert len(leading) > 50, "the page's tables were not found"
    assert len(following) > 10, "the page's tables were not found"
    missing = [first_missing(leading, by_leader) for by_leader, _ in quorum_calls]
    assert "" in missing, missing[0]
    # The other one may still be on its way when a majority has the entry.
    missing = [first_missing(following, calls) for _, by_followers in quorum_calls for calls in by_followers]
    assert "" in missing, missing[0]


@pytest.mark.parametrize("page", [CLASSIC, QUORUM], ids=lambda page: page.stem)
def test_every_file_that_the_page_names_exists(page: Path) -> None:
    assert [file for file in FILE.findall(page.read_text()) if not Path(ROOT, file).is_file()] == []
