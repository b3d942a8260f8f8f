"""A queue at a past second is what it was then, whatever is left unread for it.

With `--instants 1000` (make instants) that many random seconds are asked for, of each kind of queue.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest

from analytics.__main__ import main
from analytics.fold.lives import LifeState
from analytics.fold.queue_history import PUBLISHED_BEFORE, HistoryFold
from analytics.inputs import LogFile, log_files, snapshot_files
from analytics.jobs.answer import EXIT_HOLDS, EXIT_UNKNOWN, JobAnswer
from analytics.past import file_contents, past_classic, past_events, past_fold, past_group
from analytics.past.checkpoints import FoldBegin, newest_begin
from analytics.past.past_events import FilePast
from analytics.past.past_group import states_before
from analytics.past.queue_at import PastAnswer, QueueAt
from analytics.queue_events import QueueEvent
from classic.store.log_records import Checkpoint, DoneReason, encode_checkpoint, encode_reasoned
from native.log_tables import FILE_BITS
from raft.core.live_entries import LiveEntries
from raft.core.messages import Membership, SnapshotMeta
from raft.store.snapshots import write as write_snapshot
from storage.names import archived, log_file
from storage.os_disk import OsDisk
from storage.record import MARK_BYTES, Kind, Mark, Roll, encode_mark, encode_roll
from storage.record import encode as encode_record
from tests.unit.analytics.past_world import (
    CLASSIC_QUEUE,
    FILES_IN_LOG,
    GROUP,
    LOG_ID,
    START_MS,
    STREAM_GROUP,
    PastWorld,
    QuorumBook,
    archive,
    entries_record,
    name_record,
    set_of,
)

FILES = 30
ASKED = {"c": CLASSIC_QUEUE, "q": GROUP, "s": STREAM_GROUP}


@pytest.fixture(autouse=True)
def entries_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each entry of this log has a record of its own, so a summary says exactly which ones a file has."""
    monkeypatch.setattr(file_contents, "PACK_ENTRIES_MAX", 1)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> PastWorld:
    made = PastWorld(tmp_path_factory.mktemp("past") / "n1", seed=12)
    made.live(FILES)
    return made


def asked(world: PastWorld, name: str, second: int) -> PastAnswer:
    paths = [str(world.directory)]
    return QueueAt(log_files(paths), snapshot_files(paths), name, second).answer()


def row_of(world: PastWorld, name: str, second: int) -> dict[str, Any]:
    said = asked(world, name, second).said
    assert said.code == EXIT_HOLDS, said.rows
    (row,) = said.rows
    return {field: row[field] for field in (*world.figures(ASKED[name], second), "unknown")}


@pytest.fixture(scope="module")
def full_world(tmp_path_factory: pytest.TempPathFactory) -> PastWorld:
    made = PastWorld(tmp_path_factory.mktemp("full") / "n1", seed=11, is_full=True)
    made.live(FILES)
    return made


def test_all_that_can_happen_to_a_message_has_happened_in_what_is_asked_about(
    world: PastWorld, full_world: PastWorld
) -> None:
    """What this file is worth: once no message of a quorum queue was acknowledged or came back, and one was out at a time."""
    for one in (world, full_world):
        book = one.books[GROUP]
        assert isinstance(book, QuorumBook)
        assert max(noted.unacknowledged or 0 for noted in book.notes) >= 5
        assert {noted.consumers for noted in book.notes} == {0, 1}
        assert book.machine.counters.acknowledged > 15 and book.machine.counters.redelivered > 5
        assert one.snapshots > 5
    held = [noted.unacknowledged or 0 for noted in full_world.books[CLASSIC_QUEUE].notes]
    assert max(held) > 5 and held.count(0) > 5


@pytest.mark.parametrize("name", sorted(ASKED))
def test_each_instant_is_told_as_it_was(world: PastWorld, name: str, request: pytest.FixtureRequest) -> None:
    random = Random(name)
    for _ in range(request.config.getoption("--instants")):
        second = random.randrange(START_MS // 1_000, world.now // 1_000 + 2)
        assert row_of(world, name, second) == {**world.figures(ASKED[name], second), "unknown": None}, second


def test_from_a_checkpoint_on_each_instant_is_told_as_it_was(
    full_world: PastWorld, request: pytest.FixtureRequest
) -> None:
    """And of a classic queue what was ready and out, but before the first of all, and while some are out and a file has begun
    that does not tell of it: its node may have been killed before that."""
    random, not_known = Random(3), 0
    instants = request.config.getoption("--instants")
    for _ in range(instants):
        second = random.randrange(START_MS // 1_000, full_world.now // 1_000 + 2)
        row, noted = row_of(full_world, "c", second), full_world.figures(CLASSIC_QUEUE, second)
        if row["ready"] is None:
            not_known += full_world.files_without_word(CLASSIC_QUEUE, second) == 0 or not noted["unacknowledged"]
            noted |= {"ready": None, "unacknowledged": None}
        assert row == {**noted, "unknown": None}, second
    assert not_known < max(4, instants / 5)


@pytest.mark.parametrize("is_full", [False, True])
def test_what_happens_at_the_edge_of_two_seconds_is_told_of_the_later_one(tmp_path: Path, *, is_full: bool) -> None:
    """Of times drawn to the millisecond hardly any is one."""
    made = PastWorld(tmp_path / "n1", seed=8, is_full=is_full, tick_ms=500)
    made.live(3)
    for name in sorted(ASKED):
        seconds = range(START_MS // 1_000, made.now // 1_000 + 2)
        for second in (one for one in seconds if made.last_file_telling(ASKED[name], one)):
            row, noted = row_of(made, name, second), made.figures(ASKED[name], second)
            if row["ready"] is None:
                noted |= {"ready": None, "unacknowledged": None}
            assert row == {**noted, "unknown": None}, (name, second)


@pytest.mark.parametrize("ahead_ms", [-400_000, 90_000, 400_000])
def test_a_quorum_queue_is_told_by_the_clock_of_its_leader_whatever_that_of_its_node_says(
    tmp_path: Path, ahead_ms: int
) -> None:
    """Files that begin behind the second, as their node has it, have entries of before it."""
    made = PastWorld(tmp_path / "n1", seed=6, ahead_ms=ahead_ms)
    made.live(FILES)
    for second in range(START_MS // 1_000 + 1, made.now // 1_000 + 2, 53):
        assert row_of(made, "q", second) == {**made.figures(GROUP, second), "unknown": None}, second


@pytest.mark.parametrize("snapshots", [0, 1, 1_000])
def test_more_entries_than_memory_has_room_for_are_read_one_window_after_the_other(
    world: PastWorld, monkeypatch: pytest.MonkeyPatch, snapshots: int
) -> None:
    monkeypatch.setattr(past_group, "WINDOW_ENTRIES", 7)
    paths = [str(world.directory)]
    some = sorted(snapshot_files(paths), key=lambda one: one.number)[:snapshots]
    for second in range(START_MS // 1_000 + 5, world.now // 1_000 + 2, 167):
        (row,) = QueueAt(log_files(paths), some, "q", second).answer().said.rows
        noted = {**world.figures(GROUP, second), "unknown": None}
        assert {name: row[name] for name in noted} == noted, second


def test_of_a_classic_queue_files_are_read_from_its_checkpoint_on(full_world: PastWorld, tmp_path: Path) -> None:
    """And so it is known where those of before are gone, but for the age of messages that these tell of."""
    late = range(full_world.now // 1_000 - 60, 0, -1)
    second = next(one for one in late if not full_world.files_without_word(CLASSIC_QUEUE, one))
    whole = asked(full_world, "c", second)
    assert whole.coverage.files <= past_classic.FILES_FOR_A_CHECKPOINT + 1
    shutil.copytree(full_world.directory, tmp_path / "n1")
    for number in range(1, FILES // 2):
        (tmp_path / "n1" / archived(log_file(number))).unlink()
    answer = QueueAt(log_files([str(tmp_path)]), [], "c", second).answer()
    (row,) = answer.said.rows
    assert answer.said.code == EXIT_HOLDS and row["unknown"] is None
    assert row["ready"] is not None and {**row, "oldest_ms": 0} == {**whole.said.rows[0], "oldest_ms": 0}
    assert row["oldest_ms"] in (None, whole.said.rows[0]["oldest_ms"])


def test_a_checkpoint_that_cannot_be_read_or_says_no_ranges_is_passed_over() -> None:
    whole = Checkpoint(7, 2, 1, [9], [(3, 5)], [(6, 7)])
    said = [
        encode_checkpoint(whole),
        encode_checkpoint(whole._replace(ready_ranges=[], out_ranges=[])),
        encode_checkpoint(whole)[:-1],
        b"",
        encode_checkpoint(whole._replace(ready_ranges=[((1 << 64) - 1, 1 << 64)])),
    ]
    events = [QueueEvent(7, at, 0, Kind.CLASSIC_CHECKPOINT, at, 0, data) for at, data in enumerate(said)]
    begin = newest_begin(events, before=len(said))
    assert begin is not None and begin.behind == events[1:]
    begin.fold.end()
    assert sorted((life.entry, life.count, life.state) for life in begin.fold.history.lives) == [
        (3, 2, LifeState.READY),
        (6, 1, LifeState.OUT),
    ]
    assert newest_begin(events[1:], before=len(said)) is None
    assert newest_begin(events, before=0) is None


def test_who_is_out_is_known_where_each_file_up_to_then_begins_with_a_checkpoint() -> None:
    whole = Checkpoint(7, 2, 1, [9], [(3, 5)], [(6, 7)])

    def event(file: int, offset: int, kind: Kind, made: Checkpoint = whole) -> QueueEvent:
        return QueueEvent(7, file << FILE_BITS | offset, 0, kind, 10 * file + offset, 0, encode_checkpoint(made))

    begun = FoldBegin(HistoryFold(), [event(1, 5, Kind.CLASSIC_DONE), event(2, 1, Kind.CLASSIC_CHECKPOINT)], 1)
    assert begun.knows_who_is_out(100)
    basic = begun._replace(behind=[*begun.behind, event(3, 1, Kind.CLASSIC_DONE), event(3, 2, Kind.CLASSIC_CHECKPOINT)])
    assert not basic.knows_who_is_out(100) and basic.knows_who_is_out(31)
    counted = event(3, 1, Kind.CLASSIC_CHECKPOINT, whole._replace(ready_ranges=[], out_ranges=[]))
    assert not begun._replace(behind=[counted]).knows_who_is_out(100), (
        "which of them a start has found ready is not said"
    )
    assert (basic.last_file(100), basic.last_file(31), basic.last_file(20), begun.last_file(0)) == (3, 2, 1, 1)


def test_who_was_out_is_not_said_while_files_have_begun_that_may_not_tell_of_a_kill(full_world: PastWorld) -> None:
    """What a killed node had handed out is ready then, and the queue's next word says so."""
    seconds = range(START_MS // 1_000 + 100, full_world.now // 1_000)
    out = [one for one in seconds if full_world.figures(CLASSIC_QUEUE, one)["unacknowledged"]]
    for has_word in (True, False):
        second = next(one for one in out if bool(full_world.files_without_word(CLASSIC_QUEUE, one)) is not has_word)
        row = row_of(full_world, "c", second)
        assert (row["ready"] is not None, row["unacknowledged"] is not None) == (has_word, has_word)


def test_the_catalogs_log_which_has_the_number_of_a_queue_tells_nothing_of_it(world: PastWorld, tmp_path: Path) -> None:
    """Each node has it, and a file of it that is missing on another node is no matter."""
    shutil.copytree(world.directory, tmp_path / "n1")
    second = world.now // 1_000 - 100
    for number in (1, 3):
        mark = Mark(LOG_ID, number, 0, number, 0, number, begins_commit=True, time_us=START_MS * 1_000)
        path = tmp_path / "n2" / log_file(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode_mark(mark) + b"".join(entries_record(CLASSIC_QUEUE, number, b"catalog")))
    answer = QueueAt(log_files([str(tmp_path)]), [], "c", second, tail=True).answer()
    assert answer.said.rows == asked(world, "c", second).said.rows


def test_what_ended_is_of_before_where_nothing_tells_that_it_was_published(tmp_path: Path) -> None:
    """Also if it was the first of its queue, and the log seems to begin there."""
    mark = encode_mark(Mark(LOG_ID, 2, 0, 2, 0, 1, begins_commit=True, time_us=START_MS * 1_000))
    ended = encode_reasoned(CLASSIC_QUEUE, 5, DoneReason.ACKNOWLEDGED, set_of([0, 1]))
    done = b"".join(bytes(part) for part in encode_record(Kind.CLASSIC_DONE, 0, 7, [ended]))
    path = tmp_path / "n1" / log_file(2)
    path.parent.mkdir(parents=True)
    path.write_bytes(mark + b"".join(name_record(CLASSIC_QUEUE)) + done)
    answer = QueueAt(log_files([str(tmp_path)]), [], "c", START_MS // 1_000 + 5, tail=True).answer()
    assert (answer.said.rows[0]["unknown"], answer.said.code) == (PUBLISHED_BEFORE, EXIT_UNKNOWN)


def test_what_a_checkpoint_does_not_have_is_over_whatever_is_said_of_it_again() -> None:
    fold = HistoryFold()
    fold.begin_at(Checkpoint(7, 2, 1, [9], [(3, 5)], [(6, 7)]))
    for first in (0, 5, 8):
        data = encode_reasoned(7, 5, DoneReason.ACKNOWLEDGED, set_of([first]))
        fold.take(QueueEvent(7, first + 1, 0, Kind.CLASSIC_DONE, first, 0, data))
    fold.end()
    assert sorted((life.entry, life.state) for life in fold.history.lives) == [(3, LifeState.READY), (6, LifeState.OUT)]


def test_only_files_that_can_tell_of_it_are_read(world: PastWorld) -> None:
    """Of a quorum queue none behind the second, but the next one that has some of it, and none before the snapshot."""
    early = START_MS // 1_000 + 60
    assert asked(world, "c", early).coverage.files < FILES / 4
    late = world.now // 1_000 - 60
    assert asked(world, "q", late).coverage.files < FILES / 2 < asked(world, "c", late).coverage.files
    found = asked(world, "q", late)
    assert found.coverage.files + found.coverage.skipped == FILES


def test_without_summaries_and_snapshots_it_is_told_the_same(world: PastWorld, tmp_path: Path) -> None:
    shutil.copytree(world.directory, tmp_path / "n1", ignore=shutil.ignore_patterns("*.sum", "*.snap"))
    paths = [str(tmp_path)]
    for second in (START_MS // 1_000 + 100, world.now // 1_000 - 100):
        for name in ASKED:
            (row,) = QueueAt(log_files(paths), [], name, second).answer().said.rows
            assert row == asked(world, name, second).said.rows[0]


def test_where_the_log_begins_later_it_is_not_known(world: PastWorld, tmp_path: Path) -> None:
    shutil.copytree(world.directory, tmp_path / "n1", ignore=shutil.ignore_patterns("*.snap"))
    for number in range(1, FILES // 2):
        (tmp_path / "n1" / archived(log_file(number))).unlink()
    paths = [str(tmp_path)]
    for second in (START_MS // 1_000 + 100, world.now // 1_000 - 100):
        for name in ASKED:
            answer = QueueAt(log_files(paths), snapshot_files(paths), name, second).answer()
            assert answer.said.code == EXIT_UNKNOWN and answer.said.rows[0]["unknown"], (name, second)


@pytest.mark.parametrize("name", ["c", "q"])
def test_nothing_is_known_over_damaged_bytes_whatever_is_told_of_the_rest(
    world: PastWorld, tmp_path: Path, name: str
) -> None:
    """What stood in them may have been of the queue. Behind the second they are no matter."""
    shutil.copytree(world.directory, tmp_path / "n1")
    path = tmp_path / "n1" / log_file(FILES)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    files, snapshots = log_files([str(tmp_path)]), snapshot_files([str(tmp_path)])
    late = QueueAt(files, snapshots, name, world.now // 1_000 + 1, tail=True).answer()
    assert (late.said.code, late.coverage.is_damaged) == (EXIT_UNKNOWN, True)
    early = START_MS // 1_000 + 100
    known = QueueAt(files, snapshots, name, early).answer()
    assert (known.said.code, known.said.rows) == (EXIT_HOLDS, asked(world, name, early).said.rows)


def test_messages_whose_times_no_mark_tells_make_a_second_unknown(tmp_path: Path) -> None:
    made = PastWorld(tmp_path / "n1", seed=6)
    made.has_times = False
    made.live(3)
    answer = asked(made, "c", START_MS // 1_000 + 100)
    (row,) = answer.said.rows
    assert row["untimed"] and row["unknown"] is None and answer.said.code == EXIT_UNKNOWN


def test_a_gap_is_told_unless_a_snapshot_lies_behind_it(world: PastWorld, tmp_path: Path) -> None:
    second = world.now // 1_000 - 30
    shutil.copytree(world.directory, tmp_path / "n1")
    paths = [str(tmp_path)]
    for number in range(3, 7):
        (tmp_path / "n1" / archived(log_file(number))).unlink()
    (row,) = QueueAt(log_files(paths), snapshot_files(paths), "q", second).answer().said.rows
    assert row == {**asked(world, "q", second).said.rows[0], "oldest_ms": row["oldest_ms"]}
    oldest = min(snapshot_files(paths), key=lambda one: one.number)
    (row,) = QueueAt(log_files(paths), [oldest], "q", second).answer().said.rows
    assert "are missing" in row["unknown"]


def without(world: PastWorld, number: int, directory: Path) -> list[LogFile]:
    """Its log, of which one file is gone."""
    shutil.copytree(world.directory, directory / "n1")
    (directory / "n1" / archived(log_file(number))).unlink()
    return log_files([str(directory)])


def test_a_file_that_is_missing_may_have_told_of_a_classic_queue(world: PastWorld, tmp_path: Path) -> None:
    """Figures were told as if nothing had happened in it. What is missing behind the second is no matter."""
    late, early, gone = world.now // 1_000 - 100, START_MS // 1_000 + 100, FILES // 2
    files = without(world, gone, tmp_path)
    answer = QueueAt(files, [], "c", late).answer()
    (row,) = answer.said.rows
    assert (row["unknown"], answer.said.code) == (f"file {gone} of the log of n1 is missing", EXIT_UNKNOWN)
    known = QueueAt(files, [], "c", early).answer()
    assert (known.said.rows, known.said.code) == (asked(world, "c", early).said.rows, EXIT_HOLDS)


@pytest.mark.parametrize("name", ["c", "q"])
def test_a_file_of_which_nothing_can_be_read_may_have_told_of_any_queue(
    world: PastWorld, tmp_path: Path, name: str
) -> None:
    """It names no queue any more, so it was left out, and its damage with it: figures were told without it, with 0."""
    shutil.copytree(world.directory, tmp_path / "n1")
    paths = [str(tmp_path)]
    last = log_files(paths)[-1]
    (tmp_path / "n1" / last.name).write_bytes(bytes(last.size - 1) + b"x")
    second = world.now // 1_000 - 1
    answer = QueueAt(log_files(paths), snapshot_files(paths), name, second).answer()
    (row,) = answer.said.rows
    assert (row["unknown"], answer.said.code) == (f"file {last.number} of the log of n1 is damaged", EXIT_UNKNOWN)
    assert asked(world, name, second).said.code == EXIT_HOLDS


@pytest.mark.parametrize("name", sorted(ASKED))
def test_the_last_file_that_was_begun_may_have_told_of_any_queue_when_it_is_missing(
    world: PastWorld, tmp_path: Path, name: str
) -> None:
    """The file that was made behind it is still there. Of a second that a later file tells of nothing is missing."""
    shutil.copytree(world.directory, tmp_path / "n1")
    paths = [str(tmp_path)]
    (tmp_path / "n1" / log_file(FILES)).unlink()
    (tmp_path / "n1" / log_file(FILES + 1)).write_bytes(bytes(4096))
    late, early = world.now // 1_000 - 1, START_MS // 1_000 + 100
    answer = QueueAt(log_files(paths), snapshot_files(paths), name, late).answer()
    (row,) = answer.said.rows
    assert (row["unknown"], answer.said.code) == (f"file {FILES} of the log of n1 is missing", EXIT_UNKNOWN)
    known = QueueAt(log_files(paths), snapshot_files(paths), name, early).answer().said
    assert known.code == EXIT_HOLDS and {**known.rows[0], "ended": 0} == {
        **asked(world, name, early).said.rows[0],
        "ended": 0,
    }


@pytest.mark.parametrize("room", [0, 5_000])
@pytest.mark.parametrize("name", sorted(ASKED))
def test_what_a_log_says_that_does_not_end_in_order_is_not_known_behind_its_last_mark(
    world: PastWorld, tmp_path: Path, name: str, room: int
) -> None:
    """A copy that was cut off, or of which the end is zeros, told figures as if nothing had happened any more, with 0."""
    shutil.copytree(world.directory, tmp_path / "n1")
    path, paths = tmp_path / "n1" / log_file(FILES), [str(tmp_path)]
    path.write_bytes(path.read_bytes()[:-MARK_BYTES] + bytes(room))
    late, early = world.now // 1_000 + 1, START_MS // 1_000 + 100

    def answer(second: int, *, tail: bool = False) -> JobAnswer:
        return QueueAt(log_files(paths), snapshot_files(paths), name, second, tail).answer().said

    said = answer(late)
    assert said.code == EXIT_UNKNOWN
    assert said.rows[0]["unknown"].startswith(
        "the log of n1 does not end in order: not all that it has behind 2023-11-14T"
    )
    assert (answer(late, tail=True).rows, answer(late, tail=True).code) == (
        asked(world, name, late).said.rows,
        EXIT_HOLDS,
    )
    assert (answer(early).rows, answer(early).code) == (asked(world, name, early).said.rows, EXIT_HOLDS)


def test_where_another_nodes_log_ends_in_order_what_a_killed_node_may_have_had_is_no_matter(
    world: PastWorld, tmp_path: Path
) -> None:
    for node in ("n1", "n2"):
        shutil.copytree(world.directory, tmp_path / node)
    path = tmp_path / "n1" / log_file(FILES)
    path.write_bytes(path.read_bytes()[:-MARK_BYTES])
    second = world.now // 1_000 + 1
    said = QueueAt(log_files([str(tmp_path)]), [], "q", second).answer().said
    assert (said.rows, said.code) == (asked(world, "q", second).said.rows, EXIT_HOLDS)


def oldest_in_other_files(made: PastWorld, name: str) -> Iterator[tuple[int, int]]:
    """Seconds whose oldest message was published some files before, and the number of that file."""
    for second in range(made.now // 1_000 - 30, START_MS // 1_000, -20):
        age = made.figures(ASKED[name], second)["oldest_ms"]
        if age is not None:
            published = made.file_at((second + 1) * 1_000 - age)
            if published + 6 < made.file_at(second * 1_000) and published <= FILES - FILES_IN_LOG:
                yield second, published


@pytest.mark.parametrize("what", ["missing", "damaged"])
@pytest.mark.parametrize("name", ["c", "q"])
def test_why_the_age_of_the_oldest_message_is_not_known_is_said_where_its_file_is_not_whole(
    full_world: PastWorld, tmp_path: Path, name: str, what: str
) -> None:
    """It was null, and the command ended with 0. The figures are known from a checkpoint or snapshot on."""
    for second, published in oldest_in_other_files(full_world, name):
        path = tmp_path / str(second) / "n1" / archived(log_file(published))
        whole = (full_world.directory / archived(log_file(published))).read_bytes()
        files = without(full_world, published, tmp_path / str(second))
        if what == "damaged":
            kept = len(whole) // 8  # its checkpoint among it
            path.write_bytes(whole[:kept] + b"\xff" * (len(whole) - kept))
            files = log_files([str(tmp_path / str(second))])
        said = QueueAt(files, snapshot_files([str(tmp_path / str(second))]), name, second).answer().said
        (row,) = said.rows
        if row["messages"] == full_world.figures(ASKED[name], second)["messages"] and row["oldest_ms"] is None:
            assert (row["unknown"], said.code) == (f"file {published} of the log of n1 is {what}", EXIT_UNKNOWN)
            return
    pytest.fail("of no second the oldest message lay before the file or snapshot where reading began")


@pytest.mark.parametrize("files_behind", [0, 1])
def test_behind_a_checkpoint_a_missing_file_may_have_told_of_a_classic_queue_and_before_it_none(
    full_world: PastWorld, tmp_path: Path, files_behind: int
) -> None:
    late = range(full_world.now // 1_000 - 60, 0, -1)
    second = next(one for one in late if full_world.files_without_word(CLASSIC_QUEUE, one) == 2)
    told = full_world.last_file_telling(CLASSIC_QUEUE, second)
    answer = QueueAt(without(full_world, told - 1 + 2 * files_behind, tmp_path), [], "c", second).answer()
    (row,) = answer.said.rows
    why = f"file {told + 1} of the log of n1 is missing" if files_behind else None
    assert (row["unknown"], answer.said.code) == (why, EXIT_UNKNOWN if why else EXIT_HOLDS)


def test_a_snapshot_says_what_there_was_at_its_entry(world: PastWorld) -> None:
    """That is the answer where nothing happens between it and the second."""
    notes, states = (
        world.books[GROUP].notes,
        list(states_before(snapshot_files([str(world.directory)]), GROUP, 1 << 40)),
    )
    assert len(states) > 2
    for one in states:
        noted = notes[one.state.place - 1]
        figures = noted.ready, noted.unacknowledged, noted.consumers
        assert one.counted == (noted.at // 1_000, *figures, 0)


def test_snapshots_of_other_queues_are_no_begin_of_this_one(world: PastWorld, tmp_path: Path) -> None:
    shutil.copytree(world.directory, tmp_path / "n1")
    book = world.books[GROUP]
    assert isinstance(book, QuorumBook)
    meta = SnapshotMeta(5, 1, Membership((1,)), book.machine.version)
    write_snapshot(OsDisk(str(tmp_path / "n1")), GROUP + 1, 99, meta, LiveEntries(), book.machine.snapshot())
    second, paths = world.now // 1_000 + 1, [str(tmp_path)]
    answer = QueueAt(log_files(paths), snapshot_files(paths), "q", second).answer()
    assert (answer.said.rows, answer.said.code) == (asked(world, "q", second).said.rows, EXIT_HOLDS)


def test_a_member_that_was_removed_may_mean_that_the_queue_is_deleted(world: PastWorld, tmp_path: Path) -> None:
    shutil.copytree(world.directory, tmp_path / "n1")
    second = world.now // 1_000 + 1
    path = tmp_path / "n1" / log_file(FILES)
    removed = encode_record(Kind.RAFT_GROUP_REMOVED, GROUP, 0, [b""])
    path.write_bytes(path.read_bytes() + b"".join(bytes(part) for part in removed))
    paths = [str(tmp_path)]
    answer = QueueAt(log_files(paths), snapshot_files(paths), "q", second, tail=True).answer()
    assert answer.said.code == EXIT_UNKNOWN
    assert "the member on n1 was removed" in answer.said.rows[0]["unknown"]


@pytest.mark.parametrize("is_archived", [False, True])
def test_a_file_without_entries_behind_the_snapshot_may_say_that_the_member_was_removed(
    world: PastWorld, tmp_path: Path, *, is_archived: bool
) -> None:
    """It says nothing else of the queue, so it would not be read for it."""
    shutil.copytree(world.directory, tmp_path / "n1")
    number, paths = FILES + 1, [str(tmp_path)]
    written = encode_roll(Roll(LOG_ID, number, 0, 1))
    at = len(written)
    written += encode_mark(Mark(LOG_ID, number, at, number, at, 1, begins_commit=True, time_us=world.now * 1_000))
    removed = encode_record(Kind.RAFT_GROUP_REMOVED, GROUP, 0, [b""])
    written += b"".join(bytes(part) for part in (*name_record(GROUP), *removed))
    (tmp_path / "n1" / log_file(number)).write_bytes(written)
    if is_archived:
        archive(OsDisk(str(tmp_path / "n1")), number)
    answer = QueueAt(log_files(paths), snapshot_files(paths), "q", world.now // 1_000 + 1, tail=True).answer()
    assert answer.said.code == EXIT_UNKNOWN
    assert "the member on n1 was removed" in answer.said.rows[0]["unknown"]


def test_that_a_member_of_another_queue_was_removed_says_nothing_of_this_one(world: PastWorld, tmp_path: Path) -> None:
    shutil.copytree(world.directory, tmp_path / "n1")
    second, path, paths = world.now // 1_000 + 1, tmp_path / "n1" / log_file(FILES), [str(tmp_path)]
    removed = encode_record(Kind.RAFT_GROUP_REMOVED, GROUP + 1, 0, [b""])
    path.write_bytes(path.read_bytes() + b"".join(bytes(part) for part in removed))
    answer = QueueAt(log_files(paths), snapshot_files(paths), "q", second, tail=True).answer()
    assert (answer.said.rows, answer.said.code) == (asked(world, "q", second).said.rows, EXIT_HOLDS)


def test_a_queue_that_no_file_names_is_not_known(world: PastWorld, capsys: pytest.CaptureFixture[str]) -> None:
    found = asked(world, "nobody", START_MS // 1_000 + 100)
    assert (found.said.rows, found.said.code) == ([], EXIT_UNKNOWN)
    at = datetime.fromtimestamp(START_MS // 1_000 + 100, UTC).isoformat()
    for name, code, said in (("nobody", EXIT_UNKNOWN, "no file that was read names a queue 'nobody'\n"), ("c", 0, "")):
        assert main(["--data", str(world.directory), "queue", name, "--at", at]) == code
        assert capsys.readouterr().err == said


def test_a_fold_that_loses_a_record_is_noticed(world: PastWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the instants above are worth."""
    whole = past_events.past_of

    def without_one(*arguments: Any, **named: Any) -> FilePast:
        found = whole(*arguments, **named)
        found.events = found.events[:1] + found.events[2:]
        return found

    monkeypatch.setattr(past_fold, "past_of", without_one)
    wrong = 0
    for second in range(START_MS // 1_000 + 30, world.now // 1_000, 60):
        (row,) = asked(world, "c", second).said.rows
        wrong += any(row[field] != noted for field, noted in world.figures(CLASSIC_QUEUE, second).items())
    assert wrong


def test_the_command_says_how_many_files_it_skipped(world: PastWorld, capsys: pytest.CaptureFixture[str]) -> None:
    at = datetime.fromtimestamp(START_MS // 1_000 + 60, UTC).isoformat()
    words = ["--data", str(world.directory), "queue", "//c", "--at", at]
    assert main(["--json", *words]) == EXIT_HOLDS
    said = json.loads(capsys.readouterr().out)
    assert said["coverage"]["files"] + said["coverage"]["skipped"] == FILES
    assert [one["name"] for one in said["schema"]] == list(said["rows"][0])
    assert main(words) == EXIT_HOLDS
    assert f"{said['coverage']['skipped']} files that cannot tell of it skipped" in capsys.readouterr().out
