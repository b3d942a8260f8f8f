"""Commits that are written without the interpreter: which ones, what a failure says, and that none is promised in vain."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path

import pytest

from storage.disk import Buffer, File
from storage.errors import DiskFailed, NoDescriptors
from storage.names import log_file
from storage.os_disk import WROTE_NOTHING, OsDisk
from storage.wal.commit_thread import CommitThread
from storage.wal.facts import load_or_create
from storage.wal.files import WalFiles
from storage.wal.log_core import Location, LogCore
from storage.wal.replay import Replay
from storage.wal.write_thread import NOT_WRITTEN, WriteOutcome, WriteThread, WriteThreadPlain
from storage.wal.writer import LogWriter
from tests.unit.storage.log_world import KIND, LOG_ID

SOON_S = 10


class CountedThread:
    """The real one. `outcomes`: what it says of the next writes instead of how they ended."""

    made: CountedThread

    def __init__(self) -> None:
        self._thread = WriteThread()
        self.count = 0
        self.outcomes: list[WriteOutcome] = []
        self.before_end: Callable[[], None] = lambda: None
        self.fileno = self._thread.fileno
        self.close = self._thread.close
        CountedThread.made = self

    def begin(self, descriptor: int, offset: int, parts: Sequence[Buffer]) -> None:
        self.count += 1
        self._thread.begin(descriptor, offset, parts)

    def end(self) -> WriteOutcome:
        outcome = self._thread.end()
        self.before_end()
        return self.outcomes.pop(0) if self.outcomes else outcome


class LogBeside:
    """A log of which the loop writes nothing itself, and whose first file is ready."""

    def __init__(self, disk: OsDisk) -> None:
        self.disk = disk
        self.failures: list[str] = []
        self.told = asyncio.Event()
        facts = load_or_create(disk, LOG_ID)
        replay = Replay(disk, facts)
        self.found = [record[4] for chunk in replay.chunks() for record in chunk.records]
        self.core = LogCore(LOG_ID, replay.finish(), 20_000)
        loop = asyncio.get_running_loop()
        self.writer = LogWriter(self.core, disk, loop, facts, on_failed=self.fail, commit_inline_bytes_max=0)
        self.writer.when_durable(lambda _: self.told.set())

    def fail(self, reason: str) -> None:
        self.failures.append(reason)
        self.told.set()

    async def append(self, index: int) -> bool:
        """Whether it became durable."""
        ticket = self.writer.gathering
        self.writer.append(KIND, 1, index, [b"record %d" % index, bytearray(100)])
        while self.writer.durable < ticket and not self.failures:
            self.told.clear()
            await asyncio.wait_for(self.told.wait(), SOON_S)
        return self.writer.durable >= ticket


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.wal.commit_thread.WriteThread", CountedThread)


def with_log(path: Path, story: Callable[[LogBeside], Coroutine[None, None, None]], disk: OsDisk | None = None) -> None:
    async def run() -> None:
        log = LogBeside(disk or OsDisk(str(path)))
        await log.append(0)  # its file may not be ready: then it is the log's thread's
        await story(log)
        log.writer.close()

    asyncio.run(run())


def test_commits_to_a_file_that_is_ready_are_the_commit_threads_and_come_back_in_order(tmp_path: Path) -> None:
    async def story(log: LogBeside) -> None:
        before = CountedThread.made.count
        for index in range(1, 40):
            assert await log.append(index)
        assert CountedThread.made.count == before + 39
        assert log.failures == []

    with_log(tmp_path, story)

    async def again(log: LogBeside) -> None:
        assert log.found == list(range(40))

    with_log(tmp_path, again)


def test_a_log_whose_files_only_the_process_knows_is_written_by_the_logs_thread(tmp_path: Path) -> None:
    class NotOfTheSystem(OsDisk):
        def create(self, name: str, preallocate: int = 0) -> File:
            file = super().create(name, preallocate)
            file.system_file = lambda: None  # type: ignore[method-assign]
            return file

    async def story(log: LogBeside) -> None:
        assert await log.append(1)
        assert CountedThread.made.count == 0

    with_log(tmp_path, story, NotOfTheSystem(str(tmp_path)))


def failing(calls: str, error: OSError, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise error

    monkeypatch.setattr(os, calls, fail)


@pytest.mark.parametrize(("what", "number"), [("write", errno.EIO), ("fsync", errno.EIO), ("fsync", errno.ENOSPC)])
def test_a_failure_says_what_the_same_one_says_where_the_loop_meets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, number: int
) -> None:
    async def beside(log: LogBeside) -> None:
        CountedThread.made.outcomes.append((what, number, 0.001))
        assert not await log.append(1)
        with pytest.raises(DiskFailed, match="takes nothing any more"):
            log.writer.append(KIND, 1, 2, [b"refused"])
        assert len(log.failures) == 1
        reasons.append(log.failures[0])

    async def by_loop(log: LogBeside) -> None:
        failing({"write": "pwritev", "fsync": "fdatasync"}[what], OSError(number, os.strerror(number)), monkeypatch)
        log.writer.append(KIND, 1, 1, [b"lost"])
        with pytest.raises(DiskFailed):
            log.writer.commit_now()
        reasons.append(log.failures[0])

    reasons: list[str] = []
    with_log(tmp_path / "a", beside)
    with_log(tmp_path / "b", by_loop)
    assert reasons[0].replace(str(tmp_path / "a"), "") == reasons[1].replace(str(tmp_path / "b"), "")


def test_what_finds_no_room_is_written_once_more_where_the_disk_may_make_some(tmp_path: Path) -> None:
    async def story(log: LogBeside) -> None:
        CountedThread.made.outcomes.append(("write", errno.ENOSPC, 0.001))
        assert await log.append(1)
        assert await log.append(2)

    with_log(tmp_path, story)


def test_what_finds_no_room_twice_ends_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(log: LogBeside) -> None:
        CountedThread.made.outcomes.append(("write", errno.ENOSPC, 0.001))
        failing("pwritev", OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), monkeypatch)
        assert not await log.append(1)
        assert log.failures == [f"cannot write {log.disk.path(log_file(1))}: No space left on device"]

    with_log(tmp_path, story)


def test_a_system_that_writes_nothing_and_gives_no_reason_ends_the_log(tmp_path: Path) -> None:
    async def story(log: LogBeside) -> None:
        CountedThread.made.outcomes.append(("write", 0, 0.001))
        assert not await log.append(1)
        assert log.failures == [f"cannot write {log.disk.path(log_file(1))}: {WROTE_NOTHING}"]

    with_log(tmp_path, story)


def test_the_plain_thread_tells_of_nothing_written_without_a_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "pwritev", lambda *_: 0)
    monkeypatch.setattr(os, "pwrite", lambda *_: 0)
    thread = WriteThreadPlain()
    with open(tmp_path / "f", "wb") as file:
        thread.begin(file.fileno(), 0, [b"x"])
        assert thread.end()[:2] == ("write", 0)
    thread.close()


def test_a_commit_that_was_written_while_something_else_failed_is_not_promised(tmp_path: Path) -> None:
    async def story(log: LogBeside) -> None:
        files = log.writer._files
        CountedThread.made.before_end = lambda: setattr(files, "broken", True)
        assert not await log.append(1)
        assert log.failures == ["an earlier operation on the log failed"]

    with_log(tmp_path, story)


def test_a_commit_whose_file_finds_no_descriptor_is_written_on_a_later_tick(tmp_path: Path) -> None:
    async def story(log: LogBeside) -> None:
        def none_left(self: WalFiles, number: int) -> File:
            raise NoDescriptors(f"cannot open {number}")

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(WalFiles, "open", none_left)
            ticket = log.writer.gathering
            log.writer.append(KIND, 1, 1, [b"waits"])
            await asyncio.sleep(0)
            assert log.writer.gathering > ticket, "it was begun"
            assert log.writer.durable < ticket
        log.writer.flush_lazy()
        assert await log.append(2) and log.failures == []

    with_log(tmp_path, story)


def test_who_blocks_for_a_commit_that_is_on_its_way_is_told_of_its_end_once(tmp_path: Path) -> None:
    async def story(log: LogBeside) -> None:
        tickets: list[int] = []
        log.writer.when_durable(tickets.append)
        first = log.writer.gathering
        log.writer.append(KIND, 1, 1, [b"on its way"])
        await asyncio.sleep(0)
        log.writer.append(KIND, 1, 2, [b"behind it"])
        log.writer.commit_now()
        assert tickets == [first, first + 1]
        assert await log.append(3)
        assert tickets == [first, first + 1, first + 2]

    with_log(tmp_path, story)


def test_a_stop_waits_for_what_is_on_its_way(tmp_path: Path) -> None:
    async def story(log: LogBeside) -> None:
        log.writer.append(KIND, 1, 1, [b"on its way"])
        await asyncio.sleep(0)
        log.writer.append_lazy(KIND, 1, 2, [b"acknowledged"])
        log.writer.close()

    with_log(tmp_path, story)

    async def again(log: LogBeside) -> None:
        assert log.found == [0, 1, 2]

    with_log(tmp_path, again)


def test_a_thread_that_is_told_to_stop_when_its_loop_is_closed_stops(tmp_path: Path) -> None:
    loop = asyncio.new_event_loop()
    files = WalFiles(OsDisk(str(tmp_path)), 1000, loop.time)
    thread = CommitThread(files, loop, lambda *_: None)
    loop.close()
    thread.stop()


class TwoInFlight:
    """A log with a commit on its way and one behind it; the loop is not told of their ends by itself."""

    def __init__(self, log: LogBeside, first: int = 1) -> None:
        self.writer = log.writer
        self.tickets: list[int] = []
        self.writer.when_durable(self.tickets.append)
        asyncio.get_running_loop().remove_reader(CountedThread.made.fileno())
        self.first = self.writer.gathering
        self.locations = [self.append(index) for index in (first, first + 1)]

    def append(self, index: int) -> Location:
        location = self.writer.append(KIND, 1, index, [b"record %d" % index, bytes(FOLLOWING)])
        self.writer._start_commit()
        return location

    @property
    def in_flight(self) -> list[int]:
        return [ticket - self.first for ticket in self.writer._core.commits.in_flight]


FOLLOWING = 3000


@pytest.fixture
def small_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.wal.writer.FOLLOWING_BYTES_MIN", FOLLOWING)
    monkeypatch.setattr("storage.wal.writer.LARGE_RECORD_BYTES", FOLLOWING)


@pytest.mark.usefixtures("small_follow")
def test_a_large_commit_follows_the_one_on_its_way_and_both_are_told_in_order(tmp_path: Path) -> None:
    async def story(log: LogBeside) -> None:
        two = TwoInFlight(log)
        before = CountedThread.made.count
        third = two.append(3)
        assert (two.in_flight, CountedThread.made.count) == ([0, 1], before), "a third one gathers"
        for index, location in enumerate([*two.locations, third], start=1):
            assert log.writer.read(location).startswith(b"record %d" % index), "what is on its way can be read"
        log.writer.commit_now()
        assert two.tickets == [two.first, two.first + 1, two.first + 2]
        assert log.failures == []

    with_log(tmp_path, story)

    async def again(log: LogBeside) -> None:
        assert log.found == [0, 1, 2, 3]

    with_log(tmp_path, again)


@pytest.mark.usefixtures("small_follow")
def test_a_large_record_has_what_gathers_follow_without_anybody_asking(tmp_path: Path) -> None:
    async def story(log: LogBeside) -> None:
        asyncio.get_running_loop().remove_reader(CountedThread.made.fileno())
        for index in (1, 2):
            log.writer.append(KIND, 1, index, [bytes(FOLLOWING)])
            await asyncio.sleep(0)
        assert len(log.core.commits.in_flight) == 2
        log.writer.commit_now()

    with_log(tmp_path, story)


@pytest.mark.usefixtures("small_follow")
def test_a_small_commit_gathers_on_while_one_is_on_its_way(tmp_path: Path) -> None:
    async def story(log: LogBeside) -> None:
        two = TwoInFlight(log)
        log.writer._commit_thread.wait()  # type: ignore[union-attr]
        log.writer.append(KIND, 1, 3, [bytes(FOLLOWING // 2)])
        log.writer._start_commit()
        assert two.in_flight == [1]
        log.writer.commit_now()

    with_log(tmp_path, story)


@pytest.mark.usefixtures("small_follow")
def test_nothing_follows_into_another_file(tmp_path: Path) -> None:
    """Its head says that the file before is durable."""

    async def story(log: LogBeside) -> None:
        asyncio.get_running_loop().remove_reader(CountedThread.made.fileno())
        log.writer.append(KIND, 1, 1, [bytes(20_000)])
        log.writer._start_commit()
        log.writer.append(KIND, 1, 2, [bytes(FOLLOWING)])
        log.writer._start_commit()
        assert len(log.core.commits.in_flight) == 1
        log.writer.commit_now()

    with_log(tmp_path, story)

    async def again(log: LogBeside) -> None:
        assert log.found == [0, 1, 2]

    with_log(tmp_path, again)


@pytest.mark.usefixtures("small_follow")
def test_what_was_to_follow_a_commit_without_room_is_written_behind_it_all_the_same(tmp_path: Path) -> None:
    async def story(log: LogBeside) -> None:
        two = TwoInFlight(log)
        CountedThread.made.outcomes += [("write", errno.ENOSPC, 0.001), NOT_WRITTEN]
        log.writer.commit_now()
        assert two.tickets[:2] == [two.first, two.first + 1]
        assert log.failures == []

    with_log(tmp_path, story)

    async def again(log: LogBeside) -> None:
        assert log.found == [0, 1, 2]

    with_log(tmp_path, again)


@pytest.mark.usefixtures("small_follow")
@pytest.mark.parametrize("second", [NOT_WRITTEN, (None, 0, 0.001)])
def test_nothing_behind_a_failed_commit_is_promised(tmp_path: Path, second: WriteOutcome) -> None:
    async def story(log: LogBeside) -> None:
        two = TwoInFlight(log)
        CountedThread.made.outcomes += [("fsync", errno.EIO, 0.001), second]
        with pytest.raises(DiskFailed):
            log.writer.commit_now()
        assert two.tickets == [] and log.writer.durable < two.first
        assert len(log.failures) == 1

    with_log(tmp_path, story)


@pytest.mark.usefixtures("small_follow")
def test_only_what_lies_before_the_first_of_two_commits_on_their_way_is_called_durable(tmp_path: Path) -> None:
    async def story(log: LogBeside) -> None:
        before = log.writer.durable_end
        two = TwoInFlight(log)
        assert log.writer.durable_end == before
        assert log.writer.gathering_bytes > 2 * FOLLOWING, "both wait"
        log.writer._commit_thread.wait()  # type: ignore[union-attr]
        first, second = two.locations
        assert log.writer.durable_end == (first.file_number, first.offset + first.size)
        assert FOLLOWING < log.writer.gathering_bytes < 2 * FOLLOWING
        assert [log.writer.pending(one) is None for one in (first, second)] == [True, False]
        log.writer.commit_now()
        assert log.writer.durable_end[1] > second.offset + second.size - 1

    with_log(tmp_path, story)


@pytest.mark.usefixtures("small_follow")
def test_nothing_follows_a_commit_that_the_logs_thread_writes(tmp_path: Path) -> None:
    """The commit thread would not wait for it, and would write what comes second first."""

    async def story(log: LogBeside) -> None:
        asyncio.get_running_loop().remove_reader(CountedThread.made.fileno())
        may_write = threading.Event()
        log.writer._submit(lambda: must(may_write.wait(SOON_S)))
        CountedThread.made.outcomes.append(("write", errno.ENOSPC, 0.001))
        for index in (1, 2):
            log.writer.append(KIND, 1, index, [bytes(FOLLOWING)])
            log.writer._start_commit()
            if index == 1:
                log.writer._commit_thread.wait()  # type: ignore[union-attr]
        assert len(log.core.commits.in_flight) == 1
        may_write.set()
        log.writer.commit_now()
        assert log.failures == []

    with_log(tmp_path, story)

    async def again(log: LogBeside) -> None:
        assert log.found == [0, 1, 2]

    with_log(tmp_path, again)


def must(happened: bool) -> None:
    assert happened, "waited in vain"


def test_what_was_held_and_is_not_for_the_loop_to_write_is_begun_at_the_end_of_its_round(tmp_path: Path) -> None:
    """Who let it go asks for nothing more."""

    async def story(log: LogBeside) -> None:
        ticket = log.writer.gathering
        log.writer.hold_commit()
        log.writer.append(KIND, 1, 1, [b"held"])
        log.writer.commit_at_once()
        while log.writer.durable < ticket:
            log.told.clear()
            await asyncio.wait_for(log.told.wait(), SOON_S)
        assert log.failures == []

    with_log(tmp_path, story)


def test_the_loop_writes_nothing_at_once_while_a_commit_is_on_its_way(tmp_path: Path) -> None:
    async def story(log: LogBeside) -> None:
        asyncio.get_running_loop().remove_reader(CountedThread.made.fileno())
        log.writer._inline_bytes_max = 1000
        log.writer.append(KIND, 1, 1, [bytes(FOLLOWING)])
        log.writer._start_commit()
        log.writer.append(KIND, 1, 2, [b"small"])
        log.writer.commit_at_once()
        assert len(log.core.commits.in_flight) == 1
        log.writer.commit_now()
        assert log.failures == []

    with_log(tmp_path, story)
