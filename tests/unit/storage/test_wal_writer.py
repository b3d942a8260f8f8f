"""The log's driver: what durable means, what shares a commit, what a failure does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest

from storage.disk import File
from storage.errors import Corrupt, DiskFailed
from storage.names import log_file
from storage.os_disk import OsDisk
from storage.record import HEADER_BYTES, MARK_BYTES
from storage.wal.facts import load_or_create
from storage.wal.fsync_times import COMMITS_LOOKED_AT, STALL_AVOIDED_S
from storage.wal.log_core import MARK_EVERY_BYTES, LogCore, LogEnd
from storage.wal.new_file import SLICE_BYTES
from storage.wal.replay import Replay
from storage.wal.writer import LONE_BYTES_MAX, LogWriter
from tests.sim.disk import Call, Fault, SimDisk, fault_on
from tests.unit.storage.log_world import KIND, LOG_ID, Log, log_files, open_log, recover


def test_what_is_appended_in_one_round_of_the_loop_shares_one_commit() -> None:
    log = open_log()
    told: list[int] = []
    log.writer.when_durable(told.append)
    ticket = log.writer.gathering
    for index in range(5):
        log.append(index, b"x")
    assert log.writer.gathering == ticket and log.writer.durable == ticket - 1
    log.loop.run_soon()
    assert log.writer.durable == ticket and told == [ticket]


def test_lazy_records_wait_for_the_tick_and_then_are_durable() -> None:
    log = open_log()
    ticket = log.writer.gathering
    log.writer.append_lazy(KIND, 1, 1, [b"acknowledged"])
    log.loop.run_soon()
    assert log.writer.durable < ticket
    log.writer.flush_lazy()
    log.loop.run_soon()
    assert log.writer.durable == ticket


def test_a_record_of_an_earlier_file_is_read_from_there_while_the_next_file_gathers() -> None:
    """It lies further on in its file than what gathers does in its own."""
    core = LogCore(LOG_ID, LogEnd(0, 0, 0), 1000)
    core.append(KIND, 1, 1, [bytes(900)])
    durable = core.append(KIND, 1, 2, [b"durable"])
    core.done(core.seal())
    waiting = core.append(KIND, 1, 3, [b"waiting"])
    assert waiting.file_number > durable.file_number and waiting.offset < durable.offset
    assert core.pending(durable) is None and core.pending(waiting) == b"waiting"


def test_empty_records_have_marks_between_them_as_often_as_others() -> None:
    """What the heads of records take counts, too: a mark bounds what one damaged byte costs."""
    core = LogCore(LOG_ID, LogEnd(0, 0, 0), 1 << 30)
    places = [core.append(KIND, 1, index, []).offset for index in range(3 * MARK_EVERY_BYTES // HEADER_BYTES)]
    marked = [at for before, at in pairwise(places) if at - before > HEADER_BYTES]
    assert len(marked) >= 2
    assert all(at - before <= MARK_EVERY_BYTES + HEADER_BYTES + MARK_BYTES for before, at in pairwise(marked))


def test_a_file_that_is_as_long_as_it_may_be_takes_no_further_commit() -> None:
    """And one that lacks a byte does."""
    for more, number in ((0, 2), (1, 1)):
        core = LogCore(LOG_ID, LogEnd(0, 0, 0), 10_000)
        core.append(KIND, 1, 1, [bytes(10)])
        core.file_bytes_max = core.position + more
        core.done(core.seal())
        assert core.file_number == number


def test_a_commit_that_holds_nothing_of_others_has_nobody_wait() -> None:
    core = LogCore(LOG_ID, LogEnd(0, 0, 0), 10_000)
    assert core.position > 0, "its first mark"
    assert (core.gathering_bytes, core.waiting_bytes, core.has_records) == (0, 0, False)
    core.append(KIND, 1, 1, [b"x"])
    assert core.gathering_bytes == core.waiting_bytes > HEADER_BYTES


def test_an_idle_log_gets_one_mark_that_vouches_for_its_last_commit_and_then_rests() -> None:
    log = open_log()
    log.append(1, b"x")
    log.loop.run_soon()
    for expected in (1, 0, 0):
        before = log.writer.durable
        log.writer.flush_lazy()
        log.loop.run_soon()
        assert log.writer.durable == before + expected


def rests_after(log: Log, ticks: int) -> bool:
    """Whether it commits something at each of these, and nothing at the next."""
    for expected in [1] * ticks + [0]:
        before = log.writer.durable
        log.writer.flush_lazy()
        log.loop.run_soon()
        if log.writer.durable != before + expected:
            return False
    return True


def test_a_log_that_rests_since_its_start_gets_a_mark_for_the_last_commit_of_the_run_before() -> None:
    """Simulator, seed 609246: that commit was acknowledged, one bit of it rotted a start later, and it was cut off as torn."""
    log = open_log()
    log.append(1, b"first")
    log.loop.run_soon()
    location = log.writer.append(KIND, 7, 2, [b"last, and acknowledged"])
    log.loop.run_soon()
    log.disk.kill()
    again = open_log(log.disk)
    assert rests_after(again, 1)
    again.disk.kill()
    again.disk.flip_bit(log_file(1), location.offset * 8)
    assert [damage.file_number for damage in recover(again.disk, salvage=True).damage] == [1]


def test_a_log_that_ends_with_a_mark_gets_no_other_one_at_each_start() -> None:
    log = open_log()
    log.append(1, b"x")
    log.loop.run_soon()
    log.writer.close()
    for _ in range(2):
        log.disk.kill()
        log = open_log(log.disk)
        assert rests_after(log, 0)
    assert rests_after(open_log(), 0)


def test_a_large_commit_of_which_a_start_finds_half_gets_a_mark_though_one_of_its_own_is_the_last_record() -> None:
    log = open_log(file_bytes_max=1 << 20)
    for index in range(3):
        location = log.writer.append(KIND, 7, index, [bytes(MARK_EVERY_BYTES)])
    log.loop.run_soon()
    log.disk.kill()
    content = log.disk.content(log_file(1))
    log.disk.overwrite(log_file(1), content[: location.offset - HEADER_BYTES])
    again = open_log(log.disk)
    assert again.recovered.end.offset == location.offset - HEADER_BYTES
    assert rests_after(again, 1)


def test_a_payload_is_read_while_gathering_when_durable_and_after_a_restart() -> None:
    log = open_log()
    location = log.writer.append(KIND, 1, 1, [b"hello ", b"world"])
    assert location.size == 11
    assert log.writer.read(location) == b"hello world"
    log.loop.run_soon()
    assert log.writer.read(location) == b"hello world"
    log.writer.close()
    log.disk.kill()
    assert open_log(log.disk).writer.read(location) == b"hello world"


def test_a_block_of_the_log_that_was_written_to_another_place_is_damage() -> None:
    log = open_log()
    one, other = (log.writer.append(KIND, 7, index, [b"hello %d" % index]) for index in (1, 2))
    log.writer.commit_now()
    assert log.writer.read_of(7, 1, one) == b"hello 1"
    content = log.disk.content(log_file(1))
    ends = [(place.offset - HEADER_BYTES, place.offset + place.size) for place in (one, other)]
    (start, end), (first, last) = ends
    log.disk.overwrite(log_file(1), content[:start] + content[first:last] + content[end:])
    with pytest.raises(Corrupt, match="index 2 of writer 7, and index 1 of writer 7 was written here"):
        log.writer.read_of(7, 1, one)
    with pytest.raises(Corrupt, match="was written here"):
        log.writer.read_of(8, 2, other)


def test_reading_damaged_bytes_is_an_error_and_not_an_answer() -> None:
    log = open_log()
    location = log.writer.append(KIND, 1, 1, [b"hello"])
    log.writer.commit_now()
    log.disk.flip_bit(log_file(1), location.offset * 8 + 3)
    with pytest.raises(Corrupt):
        log.writer.read(location)


def test_files_roll_at_their_size_and_released_ones_are_gone() -> None:
    log = open_log(file_bytes_max=1000)
    rolled: list[int] = []
    log.writer.when_rolled(rolled.append)
    for index in range(20):
        log.append(index, bytes(200))
        log.loop.run_soon()
    assert rolled == list(range(1, rolled[-1] + 1)) and rolled[-1] >= 3
    log.writer.release(3)
    assert log.writer.files()[0] == 3
    assert log_file(2) not in log_files(log.disk) and log_file(3) in log_files(log.disk)
    log.writer.close()
    log.disk.kill()
    assert recover(log.disk).damage == []


def test_a_release_of_less_than_was_released_changes_nothing() -> None:
    """The facts would say that files count which are gone: the next start would miss them."""
    log = open_log(file_bytes_max=1000)
    for index in range(20):
        log.append(index, bytes(200))
        log.loop.run_soon()
    log.writer.release(3)
    log.writer.release(2)
    assert log.writer.files()[0] == 3
    log.writer.close()
    log.disk.kill()
    assert recover(log.disk).damage == []


def test_release_never_deletes_the_last_file_that_was_written() -> None:
    log = open_log(file_bytes_max=100)
    log.append(1, bytes(200))
    log.loop.run_soon()
    assert log.core.file_number == 2
    log.writer.release(99)
    assert log_files(log.disk)[0] == log_file(1)


def test_a_commit_larger_than_a_file_is_written_whole() -> None:
    log = open_log(file_bytes_max=1000)
    entries = [log.append(index, bytes([index]) * 700) for index in range(10)]
    log.loop.run_soon()
    assert len(log.disk.content(log_file(1))) > 7000
    assert log.disk.content(log_file(2)) == bytes(1000), "the next file is prepared, and empty"
    log.append(10, b"next file")
    log.loop.run_soon()
    assert log_files(log.disk) == [log_file(1), log_file(2)]
    log.writer.close()
    log.disk.kill()
    assert recover(log.disk).entries[:10] == entries


def test_after_a_failed_fsync_nothing_more_is_written_and_nothing_is_promised() -> None:
    """fsyncgate: the pages are dropped, and the next fsync would say yes."""
    log = open_log()
    log.append(1, b"durable")
    log.loop.run_soon()
    durable = log.writer.durable
    log.disk.faults = fault_on("sync", Fault.EIO)
    log.append(2, b"lost")
    log.loop.run_soon()
    log.disk.faults = lambda call: pytest.fail(f"{call.operation} {call.name} after the log had failed")
    assert log.writer.durable == durable
    assert len(log.failures) == 1 and "fsync" in log.failures[0]
    with pytest.raises(DiskFailed):
        log.append(3, b"refused")
    with pytest.raises(DiskFailed):
        log.writer.commit_now()
    log.writer.flush_lazy()
    log.loop.run_soon()
    log.writer.close()
    log.disk.faults = lambda call: None
    log.disk.kill()
    assert [entry[1] for entry in recover(log.disk).entries] == [1]


@pytest.mark.parametrize("fault", [Fault.EIO, Fault.ENOSPC, Fault.ENOSPC_PARTIAL])
def test_a_failed_write_ends_the_log_too(fault: Fault) -> None:
    log = open_log()
    log.disk.faults = fault_on("write", fault)
    log.append(1, b"lost")
    log.loop.run_soon()
    assert log.failures and log.writer.failed
    with pytest.raises(DiskFailed, match="takes nothing any more"):
        log.append(2, b"refused")


def test_no_room_for_the_next_file_is_found_early_and_forgiven_if_room_is_made() -> None:
    log = open_log(file_bytes_max=1000)
    log.disk.faults = fault_on("create", Fault.ENOSPC)
    log.append(1, bytes(100))
    log.loop.run_soon()
    assert log.failures != []  # the first file itself could not be made
    log = open_log(file_bytes_max=1000)
    log.append(1, bytes(600))
    log.disk.faults = lambda call: Fault.ENOSPC if call.operation == "create" and call.name == log_file(2) else None
    log.loop.run_soon()
    assert log.failures == []
    log.disk.faults = lambda call: None
    log.append(2, bytes(600))
    log.loop.run_soon()
    log.append(3, bytes(600))
    log.loop.run_soon()
    assert log.failures == [] and log.core.commits.durable == 3


@pytest.mark.parametrize("inline_bytes_max", [0, 65_536])
def test_on_a_real_disk_with_a_real_loop_records_come_back_in_order(tmp_path: Path, inline_bytes_max: int) -> None:
    async def run() -> list[int]:
        disk = OsDisk(str(tmp_path))
        core = LogCore(LOG_ID, LogEnd(0, 0, 0), 100_000)
        failures: list[str] = []
        writer = LogWriter(
            core,
            disk,
            asyncio.get_running_loop(),
            load_or_create(disk, LOG_ID),
            on_failed=failures.append,
            commit_inline_bytes_max=inline_bytes_max,
        )
        told: list[int] = []
        durable = asyncio.Event()

        def on_durable(ticket: int) -> None:
            assert threading.current_thread() is threading.main_thread()
            told.append(ticket)
            durable.set()

        writer.when_durable(on_durable)
        for index in range(200):
            ticket = writer.gathering
            writer.append(KIND, 1, index, [index.to_bytes(4, "little"), bytes(1000)])
            if index % 7 == 0:
                while writer.durable < ticket:
                    durable.clear()
                    await durable.wait()
        writer.close()
        assert failures == []
        return told

    told = asyncio.run(run())
    assert told == sorted(set(told))
    disk = OsDisk(str(tmp_path))
    replay = Replay(disk, load_or_create(disk, LOG_ID))
    indexes = [record[4] for chunk in replay.chunks() for record in chunk.records]
    assert indexes == list(range(200))
    assert replay.finish().file_number >= 2


def test_a_small_commit_may_be_had_at_once_and_is_not_repeated_at_the_end_of_the_turn() -> None:
    log = open_log()
    told: list[int] = []
    log.writer.when_durable(told.append)
    log.writer.commit_at_once()
    assert told == []  # nobody waits for anything
    ticket = log.writer.gathering
    log.append(1, b"x")
    log.writer.commit_at_once()
    assert told == [ticket] and log.writer.durable == ticket
    log.loop.run_soon()
    assert told == [ticket]


@pytest.mark.parametrize("at_once", [False, True])
def test_a_commit_that_is_held_waits_for_who_holds_it_and_takes_all_along(at_once: bool) -> None:
    log = open_log()
    ticket = log.writer.gathering
    log.writer.hold_commit()
    log.append(1, b"x")
    log.append(2, b"y")
    log.loop.run_soon()
    assert log.writer.durable < ticket
    (log.writer.commit_at_once if at_once else log.writer.commit_soon)()
    assert (log.writer.durable == ticket) is at_once
    log.loop.run_soon()
    assert log.writer.durable == ticket
    log.append(3, b"z")
    log.loop.run_soon()
    assert log.writer.durable == ticket + 1, "it is held once"


@pytest.mark.parametrize("lone", [True, False])
def test_who_is_around_a_lone_commit_begins_before_it_is_written_and_ends_when_it_was_told(lone: bool) -> None:
    log = open_log()
    order: list[str] = []

    def around(run: Callable[[], None]) -> None:
        order.append("begins")
        run()
        order.append("ends")

    log.writer.when_durable(lambda _: order.append("told"))
    log.writer.around_lone_commit = around
    log.append(1, bytes(10 if lone else LONE_BYTES_MAX))
    log.loop.run_soon()
    assert order == (["begins", "told", "ends"] if lone else ["told"])


def test_who_blocks_for_a_commit_is_within_something_of_its_own() -> None:
    log = open_log()
    around: list[object] = []
    log.writer.around_lone_commit = around.append
    log.append(1, b"x")
    log.writer.commit_now()
    assert (around, log.writer.durable) == ([], log.writer.gathering - 1)


def test_a_commit_that_was_scheduled_before_it_is_held_is_made() -> None:
    log = open_log()
    ticket = log.writer.gathering
    log.append(1, b"x")
    log.writer.hold_commit()
    log.loop.run_soon()
    assert log.writer.durable == ticket


class SlowDisk(SimDisk):
    """Each fsync takes `takes_s` of a clock that stands still otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.takes_s = 0.0001
        self.now = 0.0
        self.faults = self._takes

    def _takes(self, call: Call) -> None:
        if call.operation == "sync":
            self.now += self.takes_s


FAST_S, SLOW_S, STALLED_S = 0.0001, 0.004, 0.05


class SmallCommits:
    """A log with a thread, which writes one small record after the other."""

    def __init__(self) -> None:
        self.disk = SlowDisk()
        self._durable = asyncio.Event()
        self.writer = LogWriter(
            LogCore(LOG_ID, LogEnd(0, 0, 0), 100_000),
            self.disk,
            asyncio.get_running_loop(),
            load_or_create(self.disk, LOG_ID),
            on_failed=pytest.fail,
            commit_inline_bytes_max=1_000,
            monotonic=lambda: self.disk.now,
        )
        self.writer.when_durable(lambda _: self._durable.set())

    async def by_loop(self, takes_s: float) -> bool:
        """Commit a record on a disk that takes so long; say whether the loop wrote it."""
        self.disk.takes_s = takes_s
        ticket = self.writer.gathering
        self.writer.append(KIND, 1, 1, [b"small"])
        self.writer.commit_at_once()
        at_once = self.writer.durable == ticket
        await self.until_durable(ticket)
        return at_once

    async def until_durable(self, ticket: int) -> None:
        while self.writer.durable < ticket:
            self._durable.clear()
            await asyncio.wait_for(self._durable.wait(), 10)


def test_a_log_that_is_closed_has_no_thread_any_more() -> None:
    before = set(threading.enumerate())

    def threads() -> set[threading.Thread]:
        return {thread for thread in threading.enumerate() if thread.name.startswith("leveret-log")} - before

    async def run() -> None:
        log = SmallCommits()
        await log.by_loop(FAST_S)
        assert threads()
        log.writer.close()
        assert not threads()

    asyncio.run(run())


def test_while_the_disk_is_slow_the_loop_leaves_small_commits_to_the_thread() -> None:
    async def run() -> None:
        log = SmallCommits()
        await log.by_loop(FAST_S)  # the thread makes the first file
        assert [await log.by_loop(FAST_S) for _ in range(3)] == [True] * 3
        assert [await log.by_loop(SLOW_S) for _ in range(COMMITS_LOOKED_AT)] == [
            True
        ] * COMMITS_LOOKED_AT  # it may be chance
        assert [await log.by_loop(SLOW_S) for _ in range(3)] == [False] * 3
        assert [await log.by_loop(FAST_S) for _ in range(3)] == [False, True, True]
        log.writer.close()

    asyncio.run(run())


def test_after_a_stall_of_the_disk_the_loop_leaves_small_commits_to_the_thread_for_a_while() -> None:
    async def run() -> None:
        log = SmallCommits()
        await log.by_loop(FAST_S)  # the thread makes the first file
        assert [await log.by_loop(STALLED_S), await log.by_loop(FAST_S)] == [True, False]
        assert [await log.by_loop(FAST_S) for _ in range(COMMITS_LOOKED_AT)] == [False] * COMMITS_LOOKED_AT
        log.disk.now += STALL_AVOIDED_S - 0.5
        assert [await log.by_loop(STALLED_S)] == [False]  # which counts anew
        log.disk.now += STALL_AVOIDED_S - 0.5
        assert [await log.by_loop(FAST_S)] == [False]
        log.disk.now += 0.6
        assert [await log.by_loop(FAST_S)] == [True]
        log.writer.close()

    asyncio.run(run())


def test_a_small_commit_that_nobody_waits_for_is_never_written_by_the_loop() -> None:
    async def run() -> None:
        log = SmallCommits()
        await log.by_loop(FAST_S)  # the thread makes the first file
        ticket = log.writer.gathering
        log.writer.append_lazy(KIND, 1, 2, [b"acknowledged"])
        log.writer.flush_lazy()
        log.writer.commit_at_once()
        assert log.writer.durable < ticket
        log.writer.append(KIND, 1, 3, [b"confirmed"])  # shares the commit, which somebody waits for now
        log.writer.commit_at_once()
        assert log.writer.durable == ticket
        log.writer.append_lazy(KIND, 1, 4, [b"acknowledged"])
        log.writer.flush_lazy()
        ticket = log.writer.gathering
        threads: set[int] = set()
        log.disk.faults = lambda call: threads.add(threading.get_ident())
        await log.until_durable(ticket)
        assert threads and threading.get_ident() not in threads
        log.writer.close()

    asyncio.run(run())


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnhandledThreadExceptionWarning"
)  # the thread dies aloud, as it should
@pytest.mark.parametrize("mistake", [None, ZeroDivisionError("ours")])
def test_a_failure_in_the_thread_is_told_on_the_loop_and_nobody_waits_for_ever(mistake: Exception | None) -> None:
    async def run() -> None:
        disk = SimDisk()
        failed = asyncio.Event()
        reasons: list[str] = []

        def on_failed(reason: str) -> None:
            assert threading.current_thread() is threading.main_thread()
            reasons.append(reason)
            failed.set()

        facts = load_or_create(disk, LOG_ID)
        core = LogCore(LOG_ID, LogEnd(0, 0, 0), 1000)
        loop = asyncio.get_running_loop()
        writer = LogWriter(core, disk, loop, facts, on_failed=on_failed, commit_inline_bytes_max=0)

        def fault(call: Call) -> Fault | None:
            if call.operation == "sync" and mistake is not None:
                raise mistake
            return Fault.EIO if call.operation == "sync" else None

        disk.faults = fault
        writer.append(KIND, 1, 1, [b"lost"])
        await asyncio.wait_for(failed.wait(), 10)
        assert len(reasons) == 1 and ("ours" in reasons[0] if mistake else "fsync" in reasons[0])
        with pytest.raises(DiskFailed):
            writer.append(KIND, 1, 2, [b"refused"])
        writer.close()
        assert writer.durable == 0

    asyncio.run(run())


def test_what_waits_for_the_disk_is_counted() -> None:
    log = open_log()
    assert log.writer.gathering_bytes == 0
    log.append(1, bytes(500))
    assert 500 < log.writer.gathering_bytes < 800
    log.loop.run_soon()
    assert log.writer.gathering_bytes == 0
    statistics = log.writer.statistics()
    assert (statistics["commits"], statistics["files"], statistics["failed"]) == (1, 1, None)
    assert 500 < statistics["bytes"] < 800


def test_closing_twice_and_closing_an_unused_log_is_fine() -> None:
    log = open_log(SimDisk())
    log.writer.close()
    log.writer.close()
    assert log_files(log.disk) == []


def test_the_next_file_is_filled_with_zeros_a_slice_at_a_time_before_it_is_needed() -> None:
    log = open_log(file_bytes_max=5 << 19)  # two and a half slices
    calls: list[str] = []
    log.disk.faults = lambda call: calls.append(call.operation) if call.name == log_file(2) else None
    for index in range(9):
        log.append(index, bytes(1 << 17))
        log.loop.run_soon()
    assert calls == []
    log.append(9, bytes(1 << 17))
    log.loop.run_soon()
    assert calls == ["create", *["write", "sync"] * 3, "sync"]
    assert log.disk.content(log_file(2)) == bytes(5 << 19)


def test_a_file_that_large_commits_will_fill_is_made_ahead_without_zeros() -> None:
    log = open_log(file_bytes_max=5 << 19)
    calls: list[str] = []
    log.disk.faults = lambda call: calls.append(call.operation) if call.name == log_file(2) else None
    for index in range(3):
        log.append(index, bytes(1 << 19))
        log.loop.run_soon()
    assert calls == ["create", "sync"]
    assert log.disk.content(log_file(2)) == bytes(5 << 19), "its room is reserved"
    for index in range(3, 6):
        log.append(index, bytes(1 << 19))
        log.loop.run_soon()
    assert log.writer.files() == range(1, 3)


def test_small_commits_that_come_behind_large_ones_have_zeros_again_in_the_file_after_the_next() -> None:
    log = open_log(file_bytes_max=5 << 19)
    for index in range(5):
        log.append(index, bytes(1 << 19))
        log.loop.run_soon()
    calls: list[str] = []
    log.disk.faults = lambda call: calls.append(call.operation) if call.name == log_file(3) else None
    for index in range(5, 16):
        log.append(index, bytes(1 << 17))
        log.loop.run_soon()
    assert log.writer.files() == range(1, 3)
    assert calls == ["create", *["write", "sync"] * 3, "sync"]


class HeldDisk(OsDisk):
    """A disk on which filling a file ahead gets no further than its first slice until it is told to."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.slice_begins = threading.Event()
        self.go_on = threading.Event()

    def create(self, name: str, preallocate: int = 0) -> File:
        file = super().create(name, preallocate)
        if name == log_file(1):
            self.slice_begins.set()
            assert self.go_on.wait(30)
        return file


def test_a_file_that_is_needed_before_it_is_filled_is_used_as_it_is(tmp_path: Path) -> None:
    disk = HeldDisk(str(tmp_path))
    facts = load_or_create(disk, LOG_ID)
    file_bytes_max = 3 * SLICE_BYTES

    async def run() -> None:
        core = LogCore(facts.log_id, LogEnd(0, 0, 0), file_bytes_max)
        writer = LogWriter(core, disk, asyncio.get_running_loop(), facts, on_failed=pytest.fail)
        assert disk.slice_begins.wait(30)
        durable = asyncio.Event()
        writer.when_durable(lambda _: durable.set())
        writer.append(KIND, 1, 1, [b"waits behind one slice"])
        await asyncio.sleep(0)  # the commit is in the thread's queue before the slice is done
        disk.go_on.set()
        await durable.wait()
        writer.append(KIND, 1, 2, [b"not overwritten by zeros"])
        writer.close()

    asyncio.run(run())
    replay = Replay(disk, facts)
    found = [chunk.buffer[start:end] for chunk in replay.chunks() for *_, start, end in chunk.records]
    assert found == [b"waits behind one slice", b"not overwritten by zeros"]


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_a_disk_that_fails_while_a_file_is_filled_ends_the_log_and_leaves_no_file(operation: str) -> None:
    log = open_log(file_bytes_max=1000)
    log.append(1, bytes(200))
    log.loop.run_soon()
    log.disk.faults = lambda call: Fault.EIO if call.operation == operation and call.name == log_file(2) else None
    log.append(2, bytes(300))
    log.loop.run_soon()
    assert len(log.failures) == 1 and log_files(log.disk) == [log_file(1)]
    with pytest.raises(DiskFailed):
        log.append(3, b"x")


def test_what_nobody_waits_for_does_not_hold_up_the_commits_behind_one_that_was_on_its_way() -> None:
    async def run() -> None:
        log, goes_on = SmallCommits(), threading.Event()
        log.disk.faults = lambda call: None if goes_on.wait(10) else pytest.fail("nobody let the disk go on")
        first = log.writer.gathering
        log.writer.append(KIND, 1, 1, [b"confirmed"])
        await asyncio.sleep(0)  # the thread makes the first file, and writes it
        assert log.writer.gathering > first, "it is on its way"
        log.writer.append_lazy(KIND, 1, 2, [b"acknowledged"])
        log.writer.flush_lazy()
        goes_on.set()
        await log.until_durable(first)
        last = log.writer.gathering
        log.writer.append(KIND, 1, 3, [b"confirmed too"])
        with suppress(TimeoutError):
            await log.until_durable(last)
        assert log.writer.durable == last
        log.writer.close()

    asyncio.run(run())


def test_a_large_commit_that_takes_long_says_nothing_about_small_ones() -> None:
    async def run() -> None:
        log = SmallCommits()
        await log.by_loop(FAST_S)  # the thread makes the first file
        for _ in range(COMMITS_LOOKED_AT):
            log.disk.takes_s, ticket = STALLED_S, log.writer.gathering
            log.writer.append(KIND, 1, 1, [bytes(2_000)])
            await log.until_durable(ticket)
        assert await log.by_loop(FAST_S)
        log.writer.close()

    asyncio.run(run())
