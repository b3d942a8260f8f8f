"""The driver of the node's log: writes what the core gathered, fsyncs it, and tells who waits.

A commit starts at the end of the loop's current round (`call_soon`), so everything that was read in that round shares
it; while one is being written the next gathers, and starts the moment the first is durable. Nothing waits to make a
commit bigger.

A small commit is written by the event loop itself: handing it to the thread and back costs more than the fsync of a fast
disk. A large one, or one that needs a new file, goes to the thread, which also prepares the next file ahead of its use and
deletes those that were released. `commit_inline_bytes_max` draws the line. Small ones go there too when nobody waits for them,
when even the fastest of the last few took longer than INLINE_S_MAX, and for STALL_AVOIDED_S after one took longer than STALL_S:
a disk that stalls does it again, and in the thread only who waits for the disk is held up. With None for the line there is no
thread at all, and everything happens in the order of the calls, as simulations need it.

After a failed write or fsync the log is failed for ever: no byte more is written, every append raises DiskFailed, and
`on_failed` is called once. What was in flight is never reported durable.

What only runs out for a while ends nothing. A commit that cannot open its file for want of a descriptor waits, and is written
on one of the next ticks (`flush_lazy`); so are files deleted that could not be deleted when they were released. Where there is
no room to reserve the next file, publishers are to be held (`short_of_room`): there is half a file left for what consumers do.
If there still is none when it is needed it is begun without a reserve, and grows with each commit.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Protocol

from storage.disk import Buffer, Disk, File
from storage.errors import Corrupt, DiskFailed, DiskFull, Exhausted, NoDescriptors, StorageError
from storage.group_commit import Subscriber
from storage.names import LOG_DIRECTORY, log_file
from storage.record import HEADER_BYTES, PAYLOAD_BYTES_MAX, scan
from storage.record_reader import must_be_of
from storage.wal import Commit, Location, LogCore
from storage.wal_facts import LogFacts
from storage.wal_new_file import NewLogFile

Job = Callable[[], None]

# When the loop may write a commit itself. An fsync of a fast disk takes 0.1 ms, and 4 ms when something else has taken the
# core meanwhile, which says nothing of the disk: so the fastest counts.
INLINE_S_MAX = 0.001
STALL_S = 0.02
STALL_AVOIDED_S = 5.0
COMMITS_LOOKED_AT = 8
# Who waits for a commit by blocking, as at a stop, waits so often for a file descriptor: five seconds.
POSTPONED_ATTEMPTS_MAX = 100
POSTPONED_PAUSE_S = 0.05


class Loop(Protocol):
    """What the log needs of an event loop."""

    def call_soon(self, callback: Callable[..., object], *args: Any) -> object: ...

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any) -> object: ...


class LogWriter:
    """The log as everybody uses it. All methods belong to the event loop's thread."""

    def __init__(
        self,
        core: LogCore,
        disk: Disk,
        loop: Loop,
        facts: LogFacts,
        *,
        on_failed: Callable[[str], None],
        commit_inline_bytes_max: int | None = 65_536,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._core = core
        self._disk = disk
        self._loop = loop
        self._facts = facts
        self._on_failed = on_failed
        self._inline_bytes_max = commit_inline_bytes_max
        self._files: dict[int, File] = {}
        self._last_written = core.file_number - 1  # the last file with a durable commit
        self._ready_file = 0  # highest file that can be written to; the thread raises it when it prepares one ahead
        self._preparing = 0  # highest file whose preparation was asked for
        self._new_file: NewLogFile | None = None  # being prepared; belongs to whoever makes files, see `_write`
        self._scheduled = False  # a commit starts at the end of this round of the loop
        self._wanted = False  # somebody waits for what gathers now
        self._postponed: Commit | None = None  # in flight, and could not be begun yet
        self._undeleted: set[int] = set()  # released files that are to be deleted; belongs to whoever does jobs
        self._delete_again = False  # some of them could not be
        self.short_of_room = False  # the next file could not be reserved; publishers are to be held until it can be
        self._broken = False  # set by whichever thread's write failed, before anybody is told
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._finished: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._monotonic = monotonic
        self._written_in_s = 0.0  # the commit in flight
        self._small_took_s: deque[float] = deque(maxlen=COMMITS_LOOKED_AT)
        self._stalled_at = -math.inf  # when a commit was last seen to take longer than STALL_S
        self._rolled_subscribers: list[Callable[[int], None]] = []
        self._commit_count = 0
        self._written_bytes = 0
        if commit_inline_bytes_max is not None:
            self._thread = threading.Thread(target=self._run_jobs, name="leveret-log", daemon=True)
            self._thread.start()
            self._prepare_ahead(core.file_number)

    # What callers use.

    def append(
        self, kind: int, writer: int, index: int, parts: Sequence[Buffer], flags: int = 0, term: int = 0
    ) -> Location:
        """Add a record, to be committed as soon as possible. It is durable once `durable` reaches what `gathering` is
        now. Raises DiskFailed once the log has failed."""
        location = self._core.append(kind, writer, index, parts, flags, term)
        if not self._wanted:
            self._wanted = True
            self.schedule_commit()
        return location

    def append_lazy(
        self, kind: int, writer: int, index: int, parts: Sequence[Buffer], flags: int = 0, term: int = 0
    ) -> Location:
        """Add a record that nobody waits for: it goes with the next commit, or with `flush_lazy`."""
        return self._core.append(kind, writer, index, parts, flags, term)

    @property
    def gathering(self) -> int:
        """The ticket of what is appended now."""
        return self._core.commits.gathering

    @property
    def durable(self) -> int:
        """The highest ticket that is fsynced."""
        return self._core.commits.durable

    @property
    def failed(self) -> str | None:
        """Why nothing is written any more, None while all is well."""
        return self._core.commits.failed

    @property
    def gathering_bytes(self) -> int:
        """Bytes that were appended and are not durable yet; callers stop reading from publishers when it is high."""
        return self._core.waiting_bytes

    def when_durable(self, subscriber: Subscriber) -> None:
        """Call with the durable ticket after each commit."""
        self._core.commits.when_durable(subscriber)

    def when_rolled(self, subscriber: Callable[[int], None]) -> None:
        """Call with the number of each file that takes no more records: what lives in it should find another home, so
        that it can be released."""
        self._rolled_subscribers.append(subscriber)

    def read_of(self, writer: int, index: int, location: Location) -> bytes:
        """As `read`; raises Corrupt also when another record lies there."""
        return self._read(location, (writer, index))

    def read(self, location: Location) -> bytes:
        """The payload at this place, durable or not yet. Raises Corrupt when its checksum is wrong, and
        FileNotFoundError when its file was released."""
        return self._read(location, None)

    def _read(self, location: Location, of: tuple[int, int] | None) -> bytes:
        pending = self.pending(location)
        if pending is not None:
            return pending
        number, offset, size = location
        data = self._open(number).read_at(offset - HEADER_BYTES, HEADER_BYTES + size)
        records, stop, _ = scan(data, 0, len(data), PAYLOAD_BYTES_MAX)
        if len(records) != 1 or stop != HEADER_BYTES + size:
            raise Corrupt(log_file(number), offset - HEADER_BYTES, HEADER_BYTES + size, "no whole record lies here")
        if of is not None:
            must_be_of(records[0], *of, log_file(number), offset - HEADER_BYTES)
        return data[HEADER_BYTES:]

    def pending(self, location: Location) -> bytes | None:
        """The payload at this place while it is not durable; None if the file has it."""
        return self._core.pending(location)

    def files(self) -> range:
        """The numbers of the files that count, the last one being written."""
        return range(self._facts.first_file, self._core.file_number + 1)

    @property
    def writing_file(self) -> int:
        """Nothing is on its way to files below this number any more."""
        return self._core.writing_file

    def release(self, first_file: int) -> None:
        """Nothing in files below this number is needed any more: delete them. The last one that was written always stays: it
        proves where the log ends."""
        first_file = min(first_file, self._last_written)
        if first_file <= self._facts.first_file or self.failed is not None:
            return
        released = range(self._facts.first_file, first_file)
        self._facts = LogFacts(self._facts.log_id, first_file)
        for number in released:
            file = self._files.pop(number, None)
            if file is not None:
                file.close()
        self._submit(lambda: self._delete(self._facts, released))

    def flush_lazy(self) -> None:
        """Called on a tick: commit what nobody asked for, and let a mark vouch for what is durable already. And try again what
        had not been possible."""
        self._write_postponed()
        if self._delete_again:
            self._delete_again = False
            self._submit(lambda: self._delete(self._facts, range(0)))
        if self.short_of_room:
            number = self._preparing = max(self._preparing, self._ready_file + 1)
            self._submit(lambda: self._prepare(number))
        if self._core.has_records or self._core.unmarked:
            self.schedule_commit()

    def schedule_commit(self) -> None:
        """Commit at the end of this round of the loop, or as soon as the commit in flight is done."""
        if not self._scheduled:
            self._scheduled = True
            if self._core.commits.in_flight is None:
                self._loop.call_soon(self._start_commit)

    def commit_at_once(self) -> None:
        """As `schedule_commit` has asked for, but now, if the loop is to write it itself."""
        if self._scheduled and self._core.commits.in_flight is None and self._writes_inline():
            self._start_commit()

    def commit_now(self) -> None:
        """Return when everything that was appended is durable. Blocks. Raises DiskFailed when it cannot be."""
        self._wait_for_commit()
        self._core.commits.must_work()
        self._dispatch(self._seal(), inline=True)
        self._wait_for_commit()
        self._core.commits.must_work()

    def close(self) -> None:
        """Commit what is there, vouch for it with a mark, and let go of the files. Blocks."""
        self._wait_for_commit()
        with suppress(DiskFailed):
            if self._core.has_records:
                self.commit_now()
            if self._core.unmarked:
                self.commit_now()
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None
        self._abandon_new_file()
        self._collect()
        for file in self._files.values():
            file.close()
        self._files.clear()

    def statistics(self) -> dict[str, Any]:
        """What metrics and the web page show of the log."""
        return {
            "commits": self._commit_count,
            "bytes": self._written_bytes,
            "waiting_bytes": self._core.waiting_bytes,
            "files": len(self.files()),
            "durable": self.durable,
            "failed": self.failed,
            "short_of_room": self.short_of_room,
        }

    # One commit's life, on the event loop.

    def _start_commit(self) -> None:
        commits = self._core.commits
        if not self._scheduled or commits.in_flight is not None or commits.failed is not None:
            return
        inline = self._writes_inline()
        self._dispatch(self._seal(), inline)

    def _writes_inline(self) -> bool:
        """Whether the loop is to write what gathers."""
        if self._inline_bytes_max is None:
            return True
        if not self._wanted or self._core.gathering_bytes > self._inline_bytes_max:
            return False
        took = self._small_took_s
        return (not took or min(took) < INLINE_S_MAX) and self._monotonic() - self._stalled_at > STALL_AVOIDED_S

    def _dispatch(self, commit: Commit, inline: bool) -> None:
        """Write the commit here, or in the thread: always there while it may be busy making the very file."""
        if self._thread is None or (inline and commit.file_number <= self._ready_file):
            self._finish_commit(commit, self._try_to_write(commit))
        else:
            self._submit(lambda: self._write_and_report(commit))

    def _seal(self) -> Commit:
        self._scheduled = False
        self._wanted = False
        return self._core.seal()

    def _finish_commit(self, commit: Commit, error: StorageError | None) -> None:
        if isinstance(error, NoDescriptors):
            self._postponed = commit
            return
        if error is not None:
            self._fail(str(error))
            return
        self._commit_count += 1
        self._written_bytes += commit.size
        if self._inline_bytes_max is not None and commit.size <= self._inline_bytes_max:
            self._note_small_commit(self._written_in_s)
        self._last_written = commit.file_number
        rolled = self._core.done(commit)
        waiting = self._scheduled
        self._core.commits.announce()
        if commit.end * 2 >= self._core.file_bytes_max:
            self._prepare_ahead(commit.file_number + 1)
        if waiting:  # behind what others do now: what they send leaves before the loop blocks in the next fsync
            self._loop.call_soon(self._start_commit)
        if rolled is not None:
            for subscriber in self._rolled_subscribers:
                subscriber(rolled)

    def _note_small_commit(self, took_s: float) -> None:
        self._small_took_s.append(took_s)
        if took_s > STALL_S:
            self._stalled_at = self._monotonic()

    def _write_postponed(self) -> None:
        commit, self._postponed = self._postponed, None
        if commit is not None:
            self._dispatch(commit, inline=False)

    def _prepare_ahead(self, number: int) -> None:
        """Make a file before it is needed, so that no commit waits for it."""
        if self._preparing < number:
            self._preparing = number
            self._submit(lambda: self._prepare(number))

    def _fail(self, reason: str) -> None:
        self._broken = True
        if self._core.commits.failed is None:
            self._core.fail(reason)
            self._on_failed(reason)

    # What touches the disk: in the thread, or inline when the thread has nothing to do with the same file.

    def _write(self, commit: Commit) -> None:
        if self._broken:
            raise DiskFailed("an earlier operation on the log failed")
        if commit.begins_file and self._ready_file < commit.file_number:
            self._create(commit.file_number)
        file = self._open(commit.file_number)
        began = self._monotonic()
        file.write_at(commit.start, commit.buffers)
        file.sync()
        self._written_in_s = self._monotonic() - began

    def _create(self, number: int) -> None:
        """The file is needed now: as far as it was prepared, itself and its name durable before anything is promised by it."""
        try:
            self._files[number] = self._begin_file(number, reserve=False).finish()
        except StorageError:
            self._abandon_new_file()
            raise
        self._new_file = None
        self._ready_file = number

    def _begin_file(self, number: int, reserve: bool = True) -> NewLogFile:
        """The file that is being made. Without `reserve` it may be one without room of its own, if there is none to be had."""
        if self._new_file is None:
            try:
                self._new_file = NewLogFile(self._disk, number, self._core.file_bytes_max)
            except DiskFull:
                if reserve:
                    raise
                self._new_file = NewLogFile(self._disk, number, 0)
                self.short_of_room = True
        assert self._new_file.number == number, f"file {number} is needed, but {self._new_file.number} is being made"
        return self._new_file

    def _abandon_new_file(self) -> None:
        if self._new_file is not None:
            self._new_file.abandon()
            self._new_file = None

    def _prepare(self, number: int) -> None:
        """The next slice of a file that is not needed yet; commits that wait for the thread take their turn in between."""
        if self._broken or self._ready_file >= number:
            return
        try:
            if self._begin_file(number).fill():
                self._submit(lambda: self._prepare(number))
            else:
                self._create(number)
            self.short_of_room = False
        except Exhausted:
            self._abandon_new_file()  # not needed yet: it is tried again, at the latest by the commit that needs it
            self.short_of_room = True
        except StorageError as error:
            self._abandon_new_file()
            self._report_failure(error)

    def _delete(self, facts: LogFacts, released: range) -> None:
        """First remember durably that they no longer count, then delete: a file is never missed."""
        self._undeleted.update(released)
        if self._broken or not self._undeleted:
            return
        try:
            facts.save(self._disk)
            for number in sorted(self._undeleted):
                with suppress(FileNotFoundError):
                    self._disk.delete(log_file(number))
            self._disk.sync_dir(LOG_DIRECTORY)
            self._undeleted.clear()
        except Exhausted:
            self._delete_again = True
        except StorageError as error:
            self._report_failure(error)

    def _report_failure(self, error: StorageError) -> None:
        self._broken = True
        reason = str(error)
        self._report(lambda: self._fail(reason))

    def _write_and_report(self, commit: Commit) -> None:
        error = self._try_to_write(commit)
        self._report(lambda: self._finish_commit(commit, error))

    def _try_to_write(self, commit: Commit) -> StorageError | None:
        try:
            self._write(commit)
        except NoDescriptors as error:
            return error  # before a byte was written: opening is what comes first
        except StorageError as error:
            self._broken = True
            return error
        except (FileExistsError, FileNotFoundError) as error:
            self._broken = True
            return DiskFailed(f"the log's directory was changed by somebody else: {error}")
        return None

    def _open(self, number: int) -> File:
        file = self._files.get(number)
        if file is None:
            file = self._files[number] = self._disk.open(log_file(number))
        return file

    # The thread.

    def _submit(self, job: Job) -> None:
        if self._thread is None:
            job()
        else:
            self._jobs.put(job)

    def _run_jobs(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except Exception as error:  # a mistake of ours: nobody may wait for ever for a thread that is gone
                self._report_failure(DiskFailed(f"the log's thread failed: {error!r}"))
                raise

    def _report(self, result: Callable[[], None]) -> None:
        if self._thread is None:
            result()
            return
        self._finished.put(result)
        with suppress(RuntimeError):  # the loop is closed already: `close` collects what is left
            self._loop.call_soon_threadsafe(self._collect)

    def _collect(self) -> None:
        while not self._finished.empty():
            self._finished.get()()

    def _wait_for_commit(self) -> None:
        attempts = 0
        while self._core.commits.in_flight is not None and self._core.commits.failed is None:
            if self._postponed is None:
                self._finished.get()()
            elif attempts < POSTPONED_ATTEMPTS_MAX:
                attempts += 1
                if self._thread is not None:
                    time.sleep(POSTPONED_PAUSE_S)
                self._write_postponed()
            else:
                self._fail("no file descriptor is left for the log")
