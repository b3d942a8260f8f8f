"""Tickets: given out in order, durable in order, told in order; and the log's cores ask nothing of the world."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import storage
from storage.errors import DiskFailed
from storage.wal.group_commit import GroupCommit

CORES = ("wal/group_commit", "wal/log_core", "record", "segment_index", "names", "errors")
WORLD = {"asyncio", "os", "random", "socket", "threading", "time"}


def test_tickets_become_durable_one_by_one() -> None:
    commits = GroupCommit(5)
    told: list[tuple[str, int]] = []
    commits.when_durable(lambda ticket: told.append(("first", ticket)))
    commits.when_durable(lambda ticket: told.append(("second", ticket)))
    assert (commits.gathering, commits.durable) == (5, 4)
    assert commits.seal() == 5
    assert (commits.gathering, commits.durable, commits.in_flight) == (6, 4, range(5, 6))
    commits.done(5)
    commits.announce()
    assert (commits.durable, list(commits.in_flight)) == (5, [])
    assert told == [("first", 5), ("second", 5)]


def test_one_commit_is_on_its_way_and_one_may_follow() -> None:
    commits = GroupCommit(1)
    assert (commits.seal(), commits.seal()) == (1, 2)
    with pytest.raises(AssertionError, match="commit 3 sealed while"):
        commits.seal()
    with pytest.raises(AssertionError, match="commit 2 is done after 0"):
        commits.done(2)
    commits.done(1)
    assert (commits.durable, commits.in_flight) == (1, range(2, 3))
    commits.done(2)
    with pytest.raises(AssertionError, match="commit 3 is done, and was not sealed"):
        commits.done(3)


def test_a_failure_is_for_ever_and_keeps_its_first_reason() -> None:
    commits = GroupCommit(1)
    commits.seal()
    commits.fail("the device is gone")
    commits.fail("something later")
    for use in (commits.seal, commits.must_work):
        with pytest.raises(DiskFailed, match="the device is gone"):
            use()
    assert commits.durable == 0


@pytest.mark.parametrize("core", CORES)
def test_a_core_imports_nothing_that_acts(core: str) -> None:
    source = Path(storage.__path__[0], f"{core}.py").read_text()
    imported = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            imported.update(name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module or "")
    assert not imported & WORLD
    assert "storage.os_disk" not in imported
