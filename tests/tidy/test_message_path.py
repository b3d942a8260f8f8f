"""docs/message-path.md says which functions a published message passes. Here one is published, and the two are compared."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from tests.tidy.published_message import ROOT, Call, calls_of_a_publish

PAGE = ROOT / "docs" / "message-path.md"
ROW = re.compile(r"^\| `([a-z0-9_/]+\.py)` \| `([\w.]+)` \|", re.MULTILINE)

# Files whose functions are small steps of a value within the function that the page names.
VALUES = {"classic/consumers.py", "classic/run_queue.py", "classic/stored_run.py"}
HELPERS = {"node/clock.py", "node/assemble.py"}  # the clock, and lambdas that tie parts together


@pytest.fixture(scope="module")
def steps() -> list[Call]:
    return [(file, function) for file, function in ROW.findall(PAGE.read_text())]


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> list[Call]:
    return asyncio.run(calls_of_a_publish(tmp_path_factory.mktemp("traced") / "data"))


def test_each_step_of_the_page_is_passed_in_its_order(steps: list[Call], calls: list[Call]) -> None:
    assert len(steps) > 30, "the page's tables were not found"
    position = 0
    for number, step in enumerate(steps, 1):
        later = calls[position:]
        if step not in later:
            seen = "\n".join(" ".join(call) for call in later)
            known = "it was called, but earlier" if step in calls else "it was not called at all"
            pytest.fail(
                f"step {number}, {' '.join(step)}: {known}. After the step before it these were called:\n{seen}"
            )
        position += later.index(step) + 1


def test_each_part_of_the_node_that_is_passed_is_on_the_page(steps: list[Call], calls: list[Call]) -> None:
    """A file that does real work for a message and is not mentioned would make the page a lie by leaving out."""
    mentioned = set(re.findall(r"`([a-z0-9_/]+\.py)`", PAGE.read_text()))
    counted = {file: sum(call[0] == file for call in calls) for file, _ in calls}
    busy = {file for file, count in counted.items() if count > 3}
    assert busy - mentioned - HELPERS - VALUES == set(), "say what these do, or name them among the values"


def test_every_file_that_the_page_names_exists() -> None:
    named = re.findall(r"`([a-z0-9_/]+\.py)`", PAGE.read_text())
    assert [file for file in named if not Path(ROOT, file).is_file()] == []
