"""The log when something runs out for a while: file descriptors, room for the next file, room for the facts of a release."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from storage.errors import DiskFull, NoDescriptors
from storage.names import LOG_FACTS, log_file
from storage.os_disk import OsDisk
from storage.wal.facts import load_or_create
from storage.wal.log_core import LogCore
from storage.wal.replay import Replay
from storage.wal.writer import LogWriter
from tests.sim.clock import SimLoop
from tests.sim.disk import OPENING, Call, Fault, SimDisk, SimFile, no_faults
from tests.unit.storage.log_world import KIND, LOG_ID, Log, log_files, open_log, recover


def fill(log: Log, count: int, first: int = 0) -> None:
    for index in range(first, first + count):
        log.append(index, bytes(400))
        log.loop.run_soon()


def tick(log: Log) -> None:
    log.writer.flush_lazy()
    log.loop.run_soon()


def no_descriptors(operations: frozenset[str] = OPENING) -> Callable[[Call], Fault | None]:
    return lambda call: Fault.EMFILE if call.operation in operations else None


@pytest.mark.parametrize("operation", sorted(OPENING))
def test_a_commit_that_lacks_a_descriptor_waits_and_is_confirmed_once_there_is_one(operation: str) -> None:
    log = open_log(file_bytes_max=1000)
    log.disk.faults = no_descriptors(frozenset((operation,)))
    entries = []
    for index in range(8):
        entries.append(log.append(index, bytes(400)))
        log.loop.run_soon()
        tick(log)
    assert log.failures == []
    log.disk.faults = no_faults
    tick(log)
    tick(log)
    assert log.writer.durable >= log.writer.gathering - 1
    log.disk.kill()
    assert recover(log.disk).entries == entries


def test_nothing_is_confirmed_while_its_commit_waits() -> None:
    log = open_log()
    log.disk.faults = no_descriptors()
    ticket = log.writer.gathering
    log.append(1, b"waits")
    log.loop.run_soon()
    tick(log)
    assert log.writer.durable < ticket and log.failures == []
    log.disk.faults = no_faults
    log.disk.kill()
    assert recover(log.disk).entries == []


def test_who_blocks_for_a_commit_without_descriptors_is_told_in_the_end() -> None:
    log = open_log()
    log.disk.faults = no_descriptors()
    log.append(1, b"waits")
    log.loop.run_soon()
    log.writer.close()
    assert ["descriptor" in failure for failure in log.failures] == [True]


def no_room_and_not_deleted(call: Call) -> Fault | None:
    if call.name != log_file(2):
        return None
    return {"write": Fault.ENOSPC, "delete": Fault.EIO}.get(call.operation)


def test_a_next_file_without_room_that_could_not_be_deleted_is_deleted_before_the_next_attempt() -> None:
    """Found by the simulated brokers (seed 17957528810766): the attempt met the file, and the node ended."""
    log = open_log(file_bytes_max=1000)
    log.disk.faults = no_room_and_not_deleted
    fill(log, 2)
    assert (log_files(log.disk), log.failures) == ([log_file(1), log_file(2)], [])
    log.disk.faults = no_faults
    try:
        tick(log)
    except FileExistsError as error:
        raise AssertionError(f"what was given up stands in the way: {error}") from error
    fill(log, 4, first=2)
    assert log.failures == []
    log.disk.kill()
    assert [index for _, index, _ in recover(log.disk).entries] == list(range(6))


def test_a_file_that_cannot_be_deleted_at_all_ends_the_log() -> None:
    log = open_log(file_bytes_max=1000)
    log.disk.faults = no_room_and_not_deleted
    fill(log, 2)
    tick(log)
    assert ["cannot delete" in failure for failure in log.failures] == [True]


class LeavesWhatHadNoRoom(SimDisk):
    """A file whose room cannot be reserved is there all the same, as where deleting it fails too. Once."""

    left = ""

    def create(self, name: str, preallocate: int = 0) -> SimFile:
        file = super().create(name, preallocate)
        if name == log_file(2) and not self.left:
            self.left = name
            raise DiskFull(f"cannot reserve {preallocate} bytes for {name}: simulated ENOSPC")
        return file


def test_a_file_whose_room_could_not_be_reserved_does_not_stand_in_the_way_of_the_next_attempt() -> None:
    disk = LeavesWhatHadNoRoom()
    log = open_log(disk, file_bytes_max=1000)
    fill(log, 6)
    assert (disk.left, log.failures) == (log_file(2), [])
    log.disk.kill()
    assert [index for _, index, _ in recover(log.disk).entries] == list(range(6))


def test_files_whose_release_found_no_room_are_deleted_on_a_later_tick() -> None:
    log = open_log(file_bytes_max=1000)
    fill(log, 12)
    assert len(log_files(log.disk)) > 4
    log.disk.faults = lambda call: Fault.ENOSPC if call.name.startswith(LOG_FACTS) else None
    log.writer.release(4)
    assert log_files(log.disk)[0] == log_file(1)
    tick(log)
    log.disk.faults = no_faults
    tick(log)
    assert log_files(log.disk)[0] == log_file(4)


def test_files_whose_release_found_no_room_go_with_the_next_release() -> None:
    log = open_log(file_bytes_max=1000)
    fill(log, 12)
    log.disk.faults = lambda call: Fault.ENOSPC if call.name.startswith(LOG_FACTS) else None
    log.writer.release(4)
    log.disk.faults = no_faults
    log.writer.release(5)
    assert log_files(log.disk)[0] == log_file(5)
    log.disk.kill()
    assert recover(log.disk).facts.first_file == 5


def test_where_no_file_can_be_reserved_the_log_goes_on_without_and_says_so() -> None:
    """Reserving a file takes all of its room at once. A node with less was ended by its first commit, at each start."""
    disk = SimDisk(capacity=6_000)
    disk.make_dir("ballast")
    ballast = disk.create("ballast/b")
    ballast.write_at(0, [bytes(3_500)])
    log = open_log(disk, file_bytes_max=4_000)
    entry = log.append(1, bytes(100))
    log.loop.run_soon()
    assert log.failures == [] and len(disk.content(log_file(1))) < 1_000
    tick(log)
    assert isinstance(log.writer.shortage, DiskFull)
    ballast.truncate(0)
    tick(log)
    assert log.writer.shortage is None
    assert len(disk.content(log_file(2))) == 4_000
    disk.kill()
    assert recover(disk).entries == [entry]


def test_the_next_file_that_found_no_room_is_reserved_later() -> None:
    log = open_log(file_bytes_max=1000)
    log.disk.faults = lambda call: Fault.ENOSPC if call.operation == "create" and call.name == log_file(2) else None
    log.append(1, bytes(600))
    log.loop.run_soon()
    assert isinstance(log.writer.shortage, DiskFull) and log.failures == []
    tick(log)
    assert log_files(log.disk) == [log_file(1)]
    log.disk.faults = no_faults
    tick(log)
    assert log.writer.shortage is None and log_files(log.disk) == [log_file(1), log_file(2)]


def test_the_next_file_that_found_no_descriptor_says_so_and_is_made_later() -> None:
    log = open_log(file_bytes_max=1000)
    log.disk.faults = lambda call: Fault.EMFILE if call.operation == "create" and call.name == log_file(2) else None
    log.append(1, bytes(600))
    log.loop.run_soon()
    assert isinstance(log.writer.shortage, NoDescriptors) and log.failures == []
    assert not log.writer.statistics()["short_of_room"]
    log.disk.faults = no_faults
    tick(log)
    assert log.writer.shortage is None and log_files(log.disk) == [log_file(1), log_file(2)]


def real_log(disk: OsDisk, failures: list[str]) -> LogWriter:
    facts = load_or_create(disk, LOG_ID)
    replay = Replay(disk, facts)
    list(replay.chunks())
    core = LogCore(facts.log_id, replay.finish(), 2_000)
    return LogWriter(core, disk, SimLoop(), facts, on_failed=failures.append, commit_inline_bytes_max=None)


def test_a_log_rolls_while_others_have_taken_all_descriptors(
    tmp_path: Path, all_descriptors: Callable[[], None]
) -> None:
    disk, failures = OsDisk(str(tmp_path)), list[str]()
    log = real_log(disk, failures)
    all_descriptors()
    for index in range(20):
        log.append(KIND, 1, index, [bytes(500)])
        log.commit_now()
    assert failures == [] and log.files().stop > 4
    log.release(3)
    assert not (tmp_path / log_file(1)).exists()
