"""Files of the log that nothing needs any more go to the archive, and stay there within its limits. A start never reads it."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest

from classic.store.log_records import encode_published
from native.log_tally import LogTally
from storage import doctor, snapshot_file
from storage.archive.archive import Archive, ArchiveFigures
from storage.archive.archive_window import HOUR_MS, ArchivedFile, ArchiveLimits, oldest_first, to_delete
from storage.archive.roomy_disk import RoomyDisk
from storage.archive.summary import Summary, WriterSummary, summarise, summary_of
from storage.disk import Disk, File
from storage.errors import Corrupt, DiskFull
from storage.history.name_records import NameRow, encode_name
from storage.names import (
    ARCHIVE_DIRECTORY,
    LOG_SUFFIX,
    RAFT_DIRECTORY,
    archived,
    archived_summary,
    group_snapshot,
    log_file,
    numbers_in,
)
from storage.record import Kind, Mark, encode, encode_mark
from storage.wal.facts import load_or_create
from storage.wal.files import WalFiles
from tests.sim.clock import SimClock
from tests.sim.disk import Call, Fault, Faults, SimDisk, SimFile, fault_at, fault_on, no_faults
from tests.unit.storage.log_world import KIND, LOG_ID, Entry, Log, log_files, recover

ROOMY = ArchiveLimits(hours=24, bytes_max=1 << 30, free_min_bytes=0)
FILE_BYTES = 600


@dataclass
class ArchivedLog:
    """A log whose released files are archived, on a disk with a power switch."""

    disk: SimDisk = field(default_factory=SimDisk)
    limits: ArchiveLimits = ROOMY

    def __post_init__(self) -> None:
        self.clock = SimClock()
        self.archive = Archive(self.disk, self.limits, self.clock.wall_ms)
        self.entries: list[Entry] = []

    def open(self) -> Log:
        log = Log(self.disk, recover(self.disk, keeper=self.archive), FILE_BYTES, keeper=self.archive)
        log.loop.clock = self.clock
        log.core._wall_us = self.clock.wall_us
        return log

    def fill(self, log: Log, files: int) -> None:
        """Until so many files are full."""
        first = log.core.file_number
        while log.core.file_number < first + files:
            self.entries.append(log.append(len(self.entries), bytes([65 + len(self.entries) % 26]) * 100))
            log.loop.run_soon()
            self.clock.advance(1)

    @property
    def kept(self) -> list[int]:
        return numbers_in(self.disk.list(ARCHIVE_DIRECTORY), LOG_SUFFIX)


def test_a_released_file_is_in_the_archive_as_it_was_and_no_more_in_the_log() -> None:
    world = ArchivedLog()
    log = world.open()
    world.fill(log, 4)
    before = {number: world.disk.content(log_file(number)) for number in (1, 2, 3)}
    log.writer.release(4)
    assert world.kept == [1, 2, 3]
    assert {number: world.disk.content(archived(log_file(number))) for number in (1, 2, 3)} == before
    assert log_files(world.disk)[0] == log_file(4)


def test_a_start_never_reads_the_archive() -> None:
    world = ArchivedLog()
    log = world.open()
    world.fill(log, 4)
    log.writer.release(4)
    log.writer.close()
    for number in world.kept:
        world.disk.overwrite(archived(log_file(number)), b"garbage")
    opened: list[str] = []
    world.disk.faults = lambda call: opened.append(call.name) if call.operation in ("open", "read") else None
    found = recover(world.disk, keeper=world.archive)
    assert found.damage == [] and found.entries
    assert not [name for name in opened if name.startswith(ARCHIVE_DIRECTORY)]


def nothing_from(number: int) -> Faults:
    """No call is done from this one on: the power is gone."""
    return lambda call: Fault.EIO if call.number >= number else None


@pytest.mark.parametrize("links", [True, False], ids=["with links", "without links"])
def test_power_cut_at_every_call_of_a_release_loses_nothing_and_leaves_nothing_behind(links: bool) -> None:
    """Between the facts, the name in the archive and the one in the log: afterwards each file is in one of both, and what
    is below the first file of the log is in the archive."""
    for seed in range(8):
        at = 1
        while True:
            world = ArchivedLog()
            world.disk.links = links
            log = world.open()
            world.fill(log, 4)
            wanted = {number: world.disk.content(log_file(number)) for number in (1, 2, 3)}
            world.disk.faults = nothing_from(world.disk.calls + at)
            log.writer.release(4)
            if not log.failures:
                world.disk.faults = no_faults
                assert world.kept == [1, 2, 3]
                break
            world.disk.faults = fault_at(0, Fault.EIO)
            world.disk.crash(Random(seed * 1000 + at))
            found = recover(world.disk, keeper=world.archive)
            assert found.entries == world.entries[-len(found.entries) :] and found.damage == []
            first = load_or_create(world.disk, LOG_ID).first_file
            assert first in (1, 4)
            in_log = numbers_in([name.rpartition("/")[2] for name in log_files(world.disk)], LOG_SUFFIX)
            assert min(in_log) == first
            for number in range(1, first):
                assert number in world.kept or not links, f"file {number} is lost, cut at call {at}"
            for number in world.kept:
                assert world.disk.content(archived(log_file(number))) == wanted[number]
            at += 1
        assert at > 5


def test_what_a_killed_process_had_released_is_archived_by_the_next_start() -> None:
    """It died between the facts and the names."""
    world = ArchivedLog()
    log = world.open()
    world.fill(log, 4)
    facts = load_or_create(world.disk, LOG_ID)
    type(facts)(facts.log_id, 3).save(world.disk)
    world.disk.kill()
    recover(world.disk, keeper=world.archive)
    assert world.kept == [1, 2]
    assert log_file(1) not in log_files(world.disk) and log_file(3) in log_files(world.disk)


@pytest.mark.parametrize("fault", [Fault.ENOSPC, Fault.EIO])
@pytest.mark.parametrize("operation", ["link", "make_dir"])
def test_a_file_that_cannot_be_archived_is_deleted_as_without_an_archive(operation: str, fault: Fault) -> None:
    """Where the archive was on another file system, or a read-only one, the log failed, and failed again after each start."""
    world = ArchivedLog()
    log = world.open()
    world.fill(log, 2)
    world.disk.faults = fault_on(operation, fault)
    log.writer.release(2)
    assert world.kept == [] and not log.failures and log_file(1) not in log_files(world.disk)


def test_a_file_for_which_no_descriptor_is_left_is_archived_on_a_later_tick() -> None:
    world = ArchivedLog()
    log = world.open()
    world.fill(log, 2)
    world.disk.make_dir(ARCHIVE_DIRECTORY)
    world.disk.faults = lambda call: Fault.EMFILE if call.name == ARCHIVE_DIRECTORY else None
    log.writer.release(2)
    assert log_file(1) in log_files(world.disk)
    world.disk.faults = fault_at(0, Fault.EIO)
    log.writer.flush_lazy()
    assert world.kept == [1] and log_file(1) not in log_files(world.disk)


# Summaries


def archived_files(count: int, limits: ArchiveLimits = ROOMY) -> ArchivedLog:
    world = ArchivedLog(limits=limits)
    log = world.open()
    world.fill(log, count + 1)
    log.writer.release(count + 1)
    return world


def test_a_summary_says_what_the_file_holds_and_when() -> None:
    world = archived_files(2)
    world.archive.tidy()
    beside = archived_summary(log_file(1))
    summary = Summary.decode(beside, snapshot_file.load(world.disk, beside))
    rows = list(doctor.dump_records(world.disk, archived(log_file(1))))
    times = [row["time_us"] for row in rows if row["kind"] == "MARK"]
    mine = [row for row in rows if row.get("writer") == 7]
    assert summary.whole and (summary.first_us, summary.last_us, summary.commits) == (times[0], times[-1], len(times))
    assert summary.end == len(world.disk.content(archived(log_file(1))))
    indexes = [row["index"] for row in mine]
    size = sum(32 + row["size"] for row in mine)
    assert summary.writers == (WriterSummary(7, len(mine), size, min(indexes), max(indexes)),)
    assert list(doctor._dump_summary(world.disk, beside))[1] == summary.writers[0]._asdict()


def test_zeros_behind_the_last_record_are_cut_off() -> None:
    world = archived_files(1)
    name = archived(log_file(1))
    content = world.disk.content(name)
    world.disk.overwrite(name, content + bytes(70_000))
    world.archive.tidy()
    assert world.disk.content(name) == content


def test_zeros_that_were_cut_off_stay_away_after_a_power_cut() -> None:
    """The summary says that the file was looked at: nobody would cut them off again."""
    for seed in range(4):
        world = archived_files(1)
        name = archived(log_file(1))
        content = world.disk.content(name)
        world.disk.overwrite(name, content + bytes(70_000))
        world.archive.tidy()
        world.disk.crash(Random(seed))
        assert world.disk.content(name) == content


def test_a_damaged_file_is_left_as_it_is_and_its_summary_says_so() -> None:
    world = archived_files(1)
    name = archived(log_file(1))
    world.disk.flip_bit(name, 400 * 8)
    content = world.disk.content(name)
    ArchivedLog(world.disk).archive.tidy()  # of another process, which has to read it
    summary = Summary.decode(name, snapshot_file.load(world.disk, archived_summary(name)))
    assert not summary.whole and summary.end < 400 and world.disk.content(name) == content


def test_records_larger_than_a_piece_are_counted() -> None:
    world = ArchivedLog()
    log = world.open()
    log.writer.append(KIND, 9, 5, [bytes(200_000)])
    log.loop.run_soon()
    file = world.disk.open(log_file(1))
    summary = summarise(file)
    assert summary.whole and summary.writers == (WriterSummary(9, 1, 200_032, 5, 5),)


def test_a_summary_that_is_none_is_written_anew() -> None:
    world = archived_files(1)
    world.archive.tidy()
    beside = archived_summary(log_file(1))
    good = world.disk.content(beside)
    world.disk.overwrite(beside, good[:-1])
    ArchivedLog(world.disk).archive.tidy()
    assert world.disk.content(beside) == good
    with pytest.raises(Corrupt):
        Summary.decode(beside, b"short")
    with pytest.raises(Corrupt, match="version 9"):
        Summary.decode(beside, b"\x09" + bytes(43))


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_a_file_that_ends_within_a_record_is_summarised_up_to_there(cut: int) -> None:
    world = archived_files(1)
    name = archived(log_file(1))
    whole = summarise(world.disk.open(name))
    world.disk.overwrite(name, world.disk.content(name)[:-cut])
    found = summarise(world.disk.open(name))
    assert not found.whole and found.end < len(world.disk.content(name)) < whole.end


def test_a_summary_with_bytes_behind_its_rows_is_none() -> None:
    good = Summary(True, 1, 2, 300, 1, (WriterSummary(7, 1, 132, 5, 5),)).encode()
    assert Summary.decode("", good).writers
    for wrong in (good + b"x", good[:-1]):
        with pytest.raises(Corrupt, match="that is no summary"):
            Summary.decode("", wrong)


def counted(data: bytes) -> Summary:
    """Written down and read again."""
    tally = LogTally()
    tally.take([data])
    return Summary.decode("", summary_of(tally, len(data), whole=True).encode())


def test_a_summary_names_the_queues_that_a_file_tells_of() -> None:
    """Records of classic queues have no writer, so the rows of writers do not say which queues they are of."""
    published = encode_published([(7, 0), (8, 5)], 4, 1, 1, None, "", "orders")
    named = encode_name(NameRow("classic", "/", "orders"))
    records = (encode(Kind.NAME, 0, 7, [named]), encode(Kind.CLASSIC_PUBLISH, 0, 1, [published, b"x"]))
    data = b"".join(bytes(part) for record in records for part in record)
    told = counted(data)
    assert told.queues == ((7, NameRow("classic", "/", "orders")), (8, None))


def test_a_summary_keeps_both_names_of_a_number() -> None:
    """The log of the catalog has the number 1, and so has the first classic queue, which a reader would have passed over."""
    rows = (NameRow("catalog", "", "metadata"), NameRow("classic", "/", "orders"))
    data = b"".join(bytes(part) for row in rows for part in encode(Kind.NAME, 0, 1, [encode_name(row)]))
    told = counted(data)
    assert told.queues == tuple((1, row) for row in rows)


def test_a_summary_of_an_earlier_build_does_not_say_which_queues_a_file_tells_of() -> None:
    of_now = Summary(True, 1, 2, 300, 1, (WriterSummary(7, 1, 132, 5, 5),), ())
    before = b"\x01" + of_now.encode()[1:-4]
    told = Summary.decode("", before)
    assert told.queues is None and told.writers == of_now.writers and told.encode() == before


def test_indexes_that_go_back_with_a_cut_log_widen_what_the_summary_says_of_them() -> None:
    data = b"".join(bytes(part) for index in (5, 6, 3, 4) for part in encode(KIND, 7, index, [bytes(10)]))
    assert counted(data).writers == (WriterSummary(7, 4, 4 * 42, 3, 6),)


def test_marks_without_a_time_leave_the_times_of_the_others() -> None:
    found = counted(b"".join(encode_mark(Mark(LOG_ID, 1, 0, 1, 0, 1, True, time_us)) for time_us in (0, 7, 9, 0)))
    assert (found.first_us, found.last_us, found.commits) == (7, 9, 4)


def test_what_was_summarised_is_not_read_again_not_even_by_another_process() -> None:
    world = archived_files(2)
    world.archive.tidy()
    calls: list[tuple[str, str]] = []
    world.disk.faults = lambda call: calls.append((call.operation, call.name))
    world.archive.tidy()
    assert {operation for operation, _ in calls} == {"list", "free_bytes"}
    ArchivedLog(world.disk).archive.tidy()
    logs = {archived(log_file(number)) for number in world.kept}
    assert not [call for call in calls if call[0] in ("read", "create") and call[1] in logs]


def test_files_are_closed_that_were_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    world = archived_files(2)
    opened: list[SimFile] = []
    opens = world.disk.open

    def noted(name: str) -> SimFile:
        opened.append(opens(name))
        return opened[-1]

    monkeypatch.setattr(world.disk, "open", noted)
    world.archive.tidy()
    assert len(opened) == 2 and all(file._closed for file in opened)


# Limits


def files(*sizes: int) -> list[ArchivedFile]:
    """One for each hour, the first at hour 0."""
    return [ArchivedFile(hour * HOUR_MS, f"{hour}", size) for hour, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("limits", "now_hours", "free", "gone"),
    [
        (ArchiveLimits(10, 100, 0), 4, 0, ""),
        (ArchiveLimits(2, 100, 0), 4, 0, "01"),
        (ArchiveLimits(2, 100, 0), 40, 0, "0123"),
        (ArchiveLimits(10, 25, 0), 4, 0, "01"),
        (ArchiveLimits(10, 0, 0), 4, 0, "0123"),
        (ArchiveLimits(10, 100, 50), 4, 35, "01"),
        (ArchiveLimits(2, 30, 50), 4, 45, "01"),
        (ArchiveLimits(10, 100, 1000), 4, 0, "0123"),
        (ArchiveLimits(4, 40, 50), 4, 50, ""),
        (ArchiveLimits(4, 39, 50), 4, 50, "0"),
        (ArchiveLimits(4, 40, 51), 4, 50, "0"),
        (ArchiveLimits(4, 40, 50), 5, 50, "0"),
    ],
)
def test_the_stricter_limit_wins_and_the_oldest_go_first(
    limits: ArchiveLimits, now_hours: int, free: int, gone: str
) -> None:
    found = to_delete(files(10, 10, 10, 10), limits, now_hours * HOUR_MS, free)
    assert "".join(file.name for file in found) == gone


def test_the_oldest_is_the_one_that_ends_first_and_of_two_the_one_that_the_log_has_first() -> None:
    found = [
        ArchivedFile(9, "1.log", 1),
        ArchivedFile(7, "3.log", 2),
        ArchivedFile(7, "2.log", 3),
        ArchivedFile(8, "a", 0),
    ]
    assert [file.name for file in oldest_first(found)] == ["2.log", "3.log", "a", "1.log"]


def test_files_go_by_the_last_time_in_them() -> None:
    world = archived_files(3, ArchiveLimits(1, 1 << 30, 0))
    world.archive.tidy()
    assert world.kept == [1, 2, 3] and world.archive.figures.files == 3
    ends = [
        Summary.decode(name, snapshot_file.load(world.disk, name)).last_us
        for name in (archived_summary(log_file(number)) for number in (1, 2, 3))
    ]
    world.clock.advance((ends[1] - world.clock.wall_us()) / 1e6 + 3600.001)
    world.archive.tidy()
    assert world.kept == [3]
    assert 3590 < world.archive.figures.oldest_s < 3600
    world.clock.advance(3600)
    world.archive.tidy()
    assert world.disk.list(ARCHIVE_DIRECTORY) == [] and world.archive.figures.size == 0


def test_a_file_that_tells_no_time_is_as_old_as_it_is_known() -> None:
    world = archived_files(1)
    world.disk.overwrite(archived(log_file(1)), b"garbage" * 10)
    world.archive.tidy()
    assert world.kept == [1] and world.archive.figures.oldest_s == 0
    world.clock.advance(25 * 3600)
    world.archive.tidy()
    assert world.kept == []


@pytest.mark.parametrize("seed", range(4))
def test_files_that_went_by_their_age_stay_away_after_a_power_cut(seed: int) -> None:
    world = archived_files(2)
    world.clock.advance(25 * 3600)
    world.archive.tidy()
    world.disk.crash(Random(seed))
    assert world.disk.list(ARCHIVE_DIRECTORY) == []


def test_files_go_by_size_also_those_of_an_earlier_process() -> None:
    world = archived_files(4)
    world.archive.tidy()
    one = len(world.disk.content(archived(log_file(4))))
    again = ArchivedLog(world.disk, ArchiveLimits(24, 2 * one + 10, 0))
    again.archive.tidy()
    assert again.kept == [3, 4] and again.archive.figures.size == 2 * one


def test_summaries_without_their_file_go() -> None:
    world = archived_files(2)
    world.archive.tidy()
    world.disk.delete(archived(log_file(1)))
    world.disk.overwrite(archived_summary(log_file(2)) + ".tmp", b"cut off")
    world.archive.tidy()
    assert world.disk.list(ARCHIVE_DIRECTORY) == [
        name.rpartition("/")[2] for name in (archived(log_file(2)), archived_summary(log_file(2)))
    ]


# Room


def test_the_oldest_give_way_until_there_is_room() -> None:
    world = archived_files(4)
    world.archive.tidy()
    world.disk.capacity = sum(len(world.disk.content(name)) for name in world.disk.files())
    assert world.disk.free_bytes() == 0
    assert world.archive.give_room(1000)
    assert world.kept == [3, 4] and world.disk.free_bytes() >= 1000
    assert world.archive.give_room(0) and world.kept == [4]
    assert world.archive.give_room(0) and not world.archive.give_room(0)


def test_whoever_finds_the_disk_full_has_as_much_made_free_as_the_limits_ask_for() -> None:
    world = archived_files(4, ArchiveLimits(24, 1 << 30, free_min_bytes=1000))
    world.disk.capacity = sum(len(world.disk.content(name)) for name in world.disk.files())
    assert world.archive.give_room()
    assert world.kept == [3, 4] and world.disk.free_bytes() >= 1000


def test_the_oldest_give_way_first_whatever_they_are_called() -> None:
    """Snapshots have other names than files of the log."""
    world = ArchivedLog()
    world.disk.make_dir(RAFT_DIRECTORY)
    snapshot = group_snapshot(5, 1)
    world.disk.create(snapshot).write_at(0, [bytes(50)])
    world.archive.keep_snapshot(5, snapshot)
    assert world.disk.exists(archived(snapshot)), "what is archived first may be a snapshot"
    later = group_snapshot(1, 1)
    world.archive.tidy()
    world.clock.advance(10)
    world.disk.create(later).write_at(0, [bytes(50)])
    world.archive.keep_snapshot(1, later)
    world.archive.tidy()
    assert world.archive.give_room()
    assert not world.disk.exists(archived(snapshot)) and world.disk.exists(archived(later))


def test_a_disk_counts_as_full_only_when_the_archive_is_empty() -> None:
    world = archived_files(3)
    world.disk.capacity = sum(len(world.disk.content(name)) for name in world.disk.files())
    disk = RoomyDisk(world.disk, world.archive.give_room)
    file = disk.create("queue", 500)
    assert world.kept == [2, 3]
    written = 0
    with pytest.raises(DiskFull):
        while True:
            file.write_at(500 + written, [b"x" * 200])
            written += 200
    assert world.kept == [] and written > 1000
    assert file.read_at(500, written) == b"x" * written, "what had to wait for room is written too"
    file.sync()
    assert file.size() >= 500 + written and disk.exists("queue")


def test_names_that_find_no_room_are_made_once_the_archive_gave_way() -> None:
    world = archived_files(4)
    disk = RoomyDisk(world.disk, world.archive.give_room)
    disk.create("a").close()
    makers = {"link", "rename", "make_dir", "begin_dir"}
    refused: list[str] = []

    def faults(call: Call) -> Fault | None:
        if call.operation in makers.difference(refused):
            refused.append(call.operation)
            return Fault.ENOSPC
        return None

    world.disk.faults = faults
    assert disk.link("a", "b")
    disk.rename("b", "c")
    disk.make_dir("made")
    disk.begin_dir("begun")
    disk.create("begun/d").close()
    assert set(refused) == makers and disk.exists("c") and world.kept == []
    assert disk.list("made") == [] and disk.list("begun") == ["d"]


def test_a_commit_on_a_full_disk_is_durable_where_the_archive_has_something_to_give() -> None:
    world = archived_files(3)
    disk = RoomyDisk(world.disk, world.archive.give_room)
    core = world.open().core
    world.disk.capacity = sum(len(world.disk.content(name)) for name in world.disk.files())
    files_of_log = WalFiles(disk, FILE_BYTES, lambda: 0.0)
    core.append(KIND, 7, 99, [bytes(300)])
    files_of_log.write(core.seal())
    assert len(world.kept) < 3 and not files_of_log.broken


# Snapshots


def test_of_each_group_one_snapshot_an_hour_is_kept() -> None:
    world = archived_files(1)
    world.disk.make_dir(RAFT_DIRECTORY)
    kept = []
    for minutes, (group, number) in enumerate([(5, 1), (6, 2), (5, 3), (5, 4)]):
        name = group_snapshot(group, number)
        world.disk.create(name).write_at(0, [b"state"])
        world.archive.keep_snapshot(group, name)
        world.disk.delete(name)
        kept.append(world.disk.exists(archived(name)))
        world.clock.advance(1800 * minutes)
    assert kept == [True, True, False, True]
    world.archive.tidy()
    summary = snapshot_file.load(world.disk, archived_summary(group_snapshot(5, 1)))
    assert Summary.decode("", summary).end == len(b"state")
    assert world.archive.figures.files == 4
    world.clock.advance(25 * 3600)
    world.archive.tidy()
    assert world.disk.list(ARCHIVE_DIRECTORY) == []


def test_an_archive_that_was_never_looked_at_has_no_figures_and_a_lone_summary_is_nothing_to_give() -> None:
    world = ArchivedLog()
    assert world.archive.figures == ArchiveFigures()
    world.disk.make_dir(ARCHIVE_DIRECTORY)
    world.disk.overwrite(archived_summary(log_file(1)), b"lone")
    assert not world.archive.give_room() and world.disk.list(ARCHIVE_DIRECTORY)


def test_with_as_much_free_as_is_wanted_no_more_than_one_goes() -> None:
    world = archived_files(3)
    world.archive.tidy()
    assert world.archive.give_room(world.disk.free_bytes()) and world.kept == [2, 3]


@pytest.mark.parametrize("call", ["make_dir", "create", "write"])
def test_a_disk_whose_archive_has_nothing_to_give_is_as_full_as_it_is(call: str) -> None:
    world = ArchivedLog()
    disk = RoomyDisk(world.disk, world.archive.give_room)
    file = disk.create("there")
    world.disk.faults = lambda one: Fault.ENOSPC
    with pytest.raises(DiskFull):
        if call == "write":
            file.write_at(0, [b"x"])
        elif call == "create":
            disk.create("more")
        else:
            disk.make_dir("more")


def test_such_a_disk_can_do_all_that_a_disk_can() -> None:
    world = ArchivedLog()
    disk = RoomyDisk(world.disk, world.archive.give_room)
    file = disk.create("there")
    for made, protocol in ((disk, Disk), (file, File)):
        missing = [name for name in vars(protocol) if not name.startswith("_") and not hasattr(made, name)]
        assert missing == []
