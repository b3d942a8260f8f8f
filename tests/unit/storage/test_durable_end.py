"""Up to where the log is fsynced, while commits are on their way: what lies before never changes."""

from __future__ import annotations

from storage.wal.log_core import LogCore, LogEnd
from tests.unit.storage.log_world import KIND, LOG_ID


def test_a_commit_that_is_being_written_does_not_count_until_it_is_done() -> None:
    core = LogCore(LOG_ID, LogEnd(0, 0, 0), 1000)
    assert core.durable_end == (0, 0)
    core.append(KIND, 1, 1, [b"one"])
    first = core.seal()
    core.append(KIND, 1, 2, [b"two"])
    assert core.durable_end == (1, 0)
    core.done(first)
    assert core.durable_end == (1, first.end)
    second = core.seal()
    assert core.durable_end == (1, first.end)
    core.done(second)
    assert core.durable_end == (1, second.end)


def test_a_file_that_begins_counts_from_its_first_durable_commit_on() -> None:
    core = LogCore(LOG_ID, LogEnd(0, 0, 0), 100)
    core.append(KIND, 1, 1, [bytes(200)])
    core.done(core.seal())
    core.append(KIND, 1, 2, [b"in the second file"])
    second = core.seal()
    assert core.durable_end == (2, 0)
    core.done(second)
    assert core.durable_end == (2, second.end)


def test_a_commit_that_failed_never_counts() -> None:
    core = LogCore(LOG_ID, LogEnd(0, 0, 0), 1000)
    core.append(KIND, 1, 1, [b"one"])
    core.seal()
    core.fail("the disk failed")
    assert core.durable_end == (1, 0)


def test_after_a_start_the_log_is_durable_up_to_where_it_ended() -> None:
    assert LogCore(LOG_ID, LogEnd(7, 321, 9), 1000).durable_end == (7, 321)
