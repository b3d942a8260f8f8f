"""A past second of logs that are not as most are: clocks that go back, priorities, names that no summary has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from analytics.fold.lives import Life, LifeState, PublishedRun
from analytics.fold.queue_history import PUBLISHED_BEFORE
from analytics.inputs import log_files, snapshot_files
from analytics.past.past_fold import TimesOfLives
from analytics.past.queue_at import QueueAt
from classic.store.log_records import Checkpoint, DoneReason, encode_checkpoint, encode_published, encode_reasoned
from classic.stored_run import LEVEL_SHIFT
from native.sequence_set import SequenceSet
from quorum.fifo.commands import Upgrade, encode, encode_enqueue, entry_head
from quorum.fifo.versions import VERSION_NEWEST
from raft.core.messages import Membership
from raft.store.group_records import GroupIdentity, encode_identity
from storage.names import log_file
from storage.os_disk import OsDisk
from storage.record import Kind, Mark, Roll, encode_mark, encode_roll
from storage.record import encode as encode_record
from tests.unit.analytics.past_world import (
    CLASSIC_QUEUE,
    GROUP,
    LOG_ID,
    SESSION,
    START_MS,
    archive,
    entries_record,
    name_record,
)

Step = tuple[int, Sequence[bytes]]  # s after the begin, and a record
BEGIN = START_MS // 1_000
HIGH = 1 << LEVEL_SHIFT


def write(directory: Path, number: int, *steps: Step) -> None:
    """A file of a node's log: a mark with its time before each record, and one that says that all is durable."""
    written = bytearray(encode_roll(Roll(LOG_ID, number, 0, 0)))
    for commit, (at_s, record) in enumerate([*steps, (steps[-1][0], [])], 1):
        here = len(written)
        at_us = (START_MS + at_s * 1_000) * 1_000
        mark = Mark(LOG_ID, number, here, number, here, number << 20 | commit, begins_commit=True, time_us=at_us)
        written += encode_mark(mark) + b"".join(record)
    path = directory / log_file(number)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(written))


def classic(kind: Kind, data: bytes, content: bytes = b"") -> list[bytes]:
    return [bytes(part) for part in encode_record(kind, 0, CLASSIC_QUEUE, [data, content])]


def publish(first: int, count: int = 1) -> list[bytes]:
    head = encode_published([(CLASSIC_QUEUE, first)], 0, count, 10 * count, None, "", "c")
    return classic(Kind.CLASSIC_PUBLISH, head, b"content")


def done(first: int, end: int) -> list[bytes]:
    gone = SequenceSet()
    gone.add(first, end)
    return classic(Kind.CLASSIC_DONE, encode_reasoned(CLASSIC_QUEUE, 5, DoneReason.ACKNOWLEDGED, gone))


def checkpoint(next_ones: list[int], *ready: tuple[int, int]) -> list[bytes]:
    many = sum(end - first for first, end in ready)
    return classic(
        Kind.CLASSIC_CHECKPOINT, encode_checkpoint(Checkpoint(CLASSIC_QUEUE, many, 0, next_ones, list(ready), []))
    )


NAMED = name_record(CLASSIC_QUEUE)


def row_at(data: Path, second: int, name: str = "c") -> dict[str, Any]:
    paths = [str(data)]
    (row,) = QueueAt(log_files(paths), snapshot_files(paths), name, BEGIN + second).answer().said.rows
    return row


def test_what_a_clock_that_was_put_back_says_leaves_it_open_how_many_were_out(tmp_path: Path) -> None:
    """One came behind the second as the log has it, and before it as the clock has it."""
    behind = [(20, publish(2)), (8, publish(3)), (30, publish(4))]
    write(tmp_path / "n1", 1, (1, NAMED), (1, checkpoint([0])), (5, publish(0, 2)), *behind)
    row = row_at(tmp_path / "n1", 10)
    assert (row["messages"], row["ready"], row["unacknowledged"]) == (3, None, None)
    row = row_at(tmp_path / "n1", 6)
    assert (row["messages"], row["ready"], row["unacknowledged"]) == (2, 2, 0)


def test_behind_a_checkpoint_a_sequence_that_is_published_twice_is_said(tmp_path: Path) -> None:
    write(
        tmp_path / "n1", 1, (1, NAMED), (1, checkpoint([3], (1, 3))), (5, publish(3)), (6, publish(3)), (30, publish(4))
    )
    assert row_at(tmp_path / "n1", 10)["unknown"] == "sequence 3 was published twice"


def test_the_oldest_message_is_that_of_any_priority(tmp_path: Path) -> None:
    """What was before it in its run may be gone."""
    directory = tmp_path / "n1"
    write(
        directory, 1, (1, NAMED), (1, checkpoint([0, HIGH])), (2, publish(0)), (3, publish(1, 2)), (4, publish(HIGH, 2))
    )
    first = [(11, NAMED), (11, checkpoint([3, HIGH + 2], (0, 3), (HIGH, HIGH + 2)))]
    write(
        directory,
        2,
        *first,
        (12, publish(3)),
        (14, done(0, 2)),
        (16, done(2, 4)),
        (18, done(HIGH, HIGH + 1)),
        (60, NAMED),
    )
    ages = {13: 12_000, 15: 13_000, 17: 14_000, 19: 16_000}
    for second, age in ages.items():
        row = row_at(directory, second)
        assert (row["oldest_ms"], row["unknown"]) == (age, None), second


@pytest.mark.parametrize("levels", [[3], [3, HIGH, 2 * HIGH]])
def test_a_checkpoint_that_does_not_know_a_priority_is_no_begin_to_look_back_from(
    tmp_path: Path, levels: list[int]
) -> None:
    """The queue was told to have fewer priorities then: all of its log is folded."""
    directory = tmp_path / "n1"
    write(directory, 1, (1, NAMED), (1, checkpoint(levels)), (4, publish(HIGH, 2)), (5, publish(3)))
    write(directory, 2, (11, NAMED), (11, checkpoint([4, HIGH + 2], (3, 4), (HIGH, HIGH + 2))), (60, NAMED))
    row = row_at(directory, 13)
    assert (row["messages"], row["oldest_ms"]) == (3, 10_000)


@pytest.mark.parametrize(
    ("number", "steps", "why"),
    [
        (1, [(3, publish(0, 2))], None),
        (1, [(3, publish(5, 2))], PUBLISHED_BEFORE),
        (2, [(3, publish(0, 2))], None),
        (2, [(3, publish(5, 2))], PUBLISHED_BEFORE),
        (2, [(3, publish(0, 2)), (4, done(9, 10))], PUBLISHED_BEFORE),
    ],
)
def test_without_a_checkpoint_a_queue_is_known_from_its_first_sequence_on_or_where_nothing_was_before(
    tmp_path: Path, number: int, steps: list[Step], why: str | None
) -> None:
    write(tmp_path / "n1", number, (1, NAMED), *steps)
    write(tmp_path / "n1", number + 1, (60, NAMED))
    assert row_at(tmp_path / "n1", 10)["unknown"] == why


@pytest.mark.parametrize(("number", "why"), [(1, None), (2, PUBLISHED_BEFORE)])
def test_before_all_that_is_there_of_a_log_a_queue_is_known_if_that_is_its_first_file(
    tmp_path: Path, number: int, why: str | None
) -> None:
    write(tmp_path / "n1", number, (20, NAMED))
    assert row_at(tmp_path / "n1", 10)["unknown"] == why


def entries(index: int, *ops: bytes, at_s: int = 0) -> Sequence[bytes]:
    return entries_record(GROUP, index, entry_head(START_MS + at_s * 1_000) + b"".join(ops))


def test_a_quorum_queue_whose_name_only_its_members_say_is_found_beside_summaries(tmp_path: Path) -> None:
    """As files of old builds are. A summary has the names of NAME records alone."""
    directory = tmp_path / "n1"
    said = encode_identity(GroupIdentity(GROUP, 1, "//q", "quorum", Membership((1,))))
    identity = [bytes(part) for part in encode_record(Kind.RAFT_GROUP, GROUP, 0, [said])]
    enqueue = b"".join(encode_enqueue(SESSION, 1, 2, 20, "", "q", b"content"))
    write(
        directory,
        1,
        (1, identity),
        (2, entries(1, encode(Upgrade(VERSION_NEWEST)), at_s=2)),
        (3, entries(2, enqueue, at_s=3)),
    )
    write(directory, 2, (9, NAMED), (60, NAMED))
    (directory / "archive").mkdir()
    archive(OsDisk(str(directory)), 1)
    row = row_at(directory, 5, "q")
    assert (row["name"], row["messages"]) == ("//q", 2)


def test_before_a_quorum_queue_of_which_only_the_name_is_there_nothing_was_in_it(tmp_path: Path) -> None:
    write(tmp_path / "n1", 1, (1, NAMED), (2, NAMED))
    write(tmp_path / "n1", 2, (30, name_record(GROUP)), (31, NAMED))
    row = row_at(tmp_path / "n1", 5, "q")
    assert (row["messages"], row["unknown"]) == (0, None)


# lives at a second


def life(
    at_s: int | None, ended_s: int | None = None, *, partial: bool = False, entry: int = 0, first: int = 0
) -> Life:
    published = PublishedRun(None if at_s is None else START_MS + at_s * 1_000, 1, 1)
    state = LifeState.READY if ended_s is None else LifeState.ACKED
    ended = None if ended_s is None else START_MS + ended_s * 1_000
    return Life(entry, 0, first, 1, published, partial, state, ended_at=ended)


def test_lives_that_were_over_before_the_second_are_left_out_if_it_is_known_when_they_came() -> None:
    for from_state in (True, False):
        lives = TimesOfLives(BEGIN + 10)
        lives.take(
            [life(1, 9), life(1, 10), life(1, 11), life(1), life(None, 9), life(None, 9, partial=True)],
            from_state=from_state,
        )
        assert [one.ended_at and one.ended_at // 1_000 - BEGIN for one in lives.times] == (
            [10, 11, None, 9] if from_state else [10, 11, None, 9, 9]
        )
        assert lives.is_partial


def test_what_a_state_had_is_older_while_it_is_there_at_the_end_of_the_second() -> None:
    lives = TimesOfLives(BEGIN + 10)
    found = [life(None, ended, partial=True) for ended in (9, 10, 11, 12, None)]
    lives.take([*found, life(1)], from_state=True)
    assert lives.older == [found[2], found[3], found[4]]
    later = TimesOfLives(BEGIN + 10)
    later.take(found, from_state=False)
    assert later.older == []


def test_a_log_begins_late_where_the_first_sequence_of_a_priority_is_not_its_first() -> None:
    for lives, is_late in (
        ([life(1, entry=0), life(2, entry=5)], False),
        ([life(2, entry=5), life(1, entry=0)], False),
        ([life(2, entry=5)], True),
        ([life(1, entry=0, first=1)], True),
        ([life(1, entry=0), life(1, entry=HIGH)], False),
        ([life(1, entry=0), life(1, entry=HIGH + 1)], True),
        ([], False),
    ):
        times = TimesOfLives(BEGIN + 10)
        times.take(lives, from_state=False)
        assert times.begins_late() is is_late, lives
