"""The driver of the node's log: has commits written and fsynced, and announces what is durable.

A commit starts at the end of the loop's current round (`call_soon`), so everything that was read in that round shares it; while
one is being written the next gathers, and starts the moment the first is durable. Nothing waits to make a commit bigger. When
what gathers is large (`FOLLOWING_BYTES_MIN`) it is given to the commit thread while that still writes the one before, and
follows without a word from the loop, which may be busy: so the disk does not wait for the loop. At most two are in flight.

    state       commit in flight   what an append does           left by
    idle        none               schedules a commit            an append, or flush_lazy                    -> scheduled
    scheduled   none               joins the gathering commit    the end of the round, or commit_at_once     -> writing
    writing     being written      joins; notes `_scheduled`     _finish_commit: it is durable               -> scheduled, idle
                                                                 the next one follows                        -> writing
                                                                 no file descriptor                          -> postponed
                                                                 any other error                             -> failed
    postponed   `_postponed`       joins; notes `_scheduled`     flush_lazy on a tick                        -> writing
    failed      never durable      raises DiskFailed             nothing: for as long as the process lives

There are three threads:

- The event loop. It writes a small commit itself, as handing it over and being told costs more than the fsync of a fast disk;
  `commit_inline_bytes_max` says what is small.
- The commit thread (wal/commit_thread.py), which never needs the interpreter. It writes large commits, those without a waiter,
  and small ones too while fsyncs take long (wal/fsync_times.py): then only what waits for the disk is held up.
- The log's thread (wal/thread.py), which runs jobs in order: prepare a slice of the next file, delete released files, and
  write a commit whose file is not ready yet, or for which the commit thread found no room.

With None for `commit_inline_bytes_max` there is the loop alone: everything happens in the order of the calls, as simulations
need it.

    owner               fields
    loop                the core, and all fields of LogWriter
    log's thread        of WalFiles: the new file, the files to be deleted; `ready` and `shortage`, which the loop reads;
                        `delete_again`, which the loop resets when it submits another attempt
    who writes it       the sealed commits. They do not change any more, so the loop may read their payloads meanwhile. The loop
                        and the commit thread write one only if its file is ready, so the log's thread is done with that
                        file
    loop, log's thread  of WalFiles: open files: the thread adds those it made, the loop those it reads. `broken`: set by either

    loop -> log's thread      LogThread.submit
    log's thread -> loop      LogThread.report: _finish_commit, _fail. `commit_now` and `close` block until it comes
    loop -> commit thread     CommitThread.begin
    commit thread -> loop     a descriptor becomes readable: _finish_beside. `commit_now` and `close` block until it does

Failure: whichever thread's operation failed sets `broken` first, so that jobs behind it do nothing; then `_fail` runs on the
loop, which sets it for the commit thread. From then on every append raises DiskFailed. `on_failed` is called once, and what was
in flight is never reported durable, also if another thread's failure came while it was written.

Stop: `close` commits what is left and ends the threads behind what they have; the loop owns all fields then.

A shortage ends nothing. A commit that finds no file descriptor is postponed; released files that could not be deleted are tried
again on a later tick. Where the next file cannot be reserved, publishers are to be held (`shortage`): half a file is left for
what consumers do. If there is no room when the file is needed, it is begun without a reserve, and grows with each commit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from storage.disk import Buffer, Disk, File
from storage.errors import DiskFailed, DiskFull, Exhausted, NoDescriptors, StorageError
from storage.names import log_file
from storage.record import HEADER_BYTES
from storage.record_reader import must_be_of, whole_record
from storage.wal.commit_thread import CommitThread, WatchingLoop
from storage.wal.facts import LogFacts
from storage.wal.files import LogKeeper, WalFiles
from storage.wal.fsync_times import FsyncTimes
from storage.wal.group_commit import Subscriber
from storage.wal.log_core import Commit, Location, LogCore
from storage.wal.thread import Job, LogThread, Loop

# A caller that blocks for a commit, as at a stop, waits this often for a file descriptor: five seconds.
POSTPONED_ATTEMPTS_MAX = 100
POSTPONED_PAUSE_S = 0.05
# On average. Zeros ahead of larger commits cost the log's thread more than they save it, in ms a MiB (`python -m
# tests.bench.fsync`, medians of three): commits of 256 KiB 2.8 with zeros, 3.5 without; of 1 MiB 2.3, 1.4; of 2 MiB 2.4, 1.3.
ZEROS_PAY_COMMIT_BYTES_MAX = 512 << 10
# What gathers is sealed to follow the commit being written from this size on: to gather more would save little by then.
FOLLOWING_BYTES_MIN = 1 << 20
# Who waits for no more than this may say so at once, before the sockets are looked at again. Where all commits were told so,
# windows of 1,000 messages came back in more pieces, with a commit for each: 14 % more processor time.
LONE_BYTES_MAX = 4 << 10
# Only behind a record of this size it is looked for that.
LARGE_RECORD_BYTES = 64 << 10


class LogWriter:
    """The log as its users see it. All methods belong to the event loop's thread, except where they say so."""

    def __init__(
        self,
        core: LogCore,
        disk: Disk,
        loop: Loop,
        facts: LogFacts,
        *,
        on_failed: Callable[[str], None],
        commit_inline_bytes_max: int | None = 131_072,
        monotonic: Callable[[], float] = time.monotonic,
        keeper: LogKeeper | None = None,
    ) -> None:
        """`keeper`: is given released files before they are deleted."""
        self._core = core
        self._loop = loop
        self._facts = facts
        self._on_failed = on_failed
        self._inline_bytes_max = commit_inline_bytes_max
        self._files = WalFiles(disk, core.file_bytes_max, monotonic, keeper)
        self._small_commits = FsyncTimes(monotonic)
        self._last_written = core.file_number - 1  # the last file with a durable commit
        self._preparing = 0  # highest file whose preparation was asked for
        self._scheduled = False  # a commit starts at the end of this round of the loop, or behind the one in flight
        self._wanted = False  # somebody waits for what gathers now
        self._held = False  # see `hold_commit`
        self._postponed: Commit | None = None  # in flight, and could not be begun yet
        self.around_lone_commit: Callable[[Callable[[], None]], None] = lambda run: run()  # what writes one, and tells
        self._rolled_subscribers: list[Callable[[int], None]] = []
        self._commit_count = self._written_bytes = 0
        self._file_commits = 0  # in the file that is written
        self._thread: LogThread | None = None
        self._commit_thread: CommitThread | None = None
        if commit_inline_bytes_max is not None:
            assert isinstance(loop, WatchingLoop), f"{loop!r} cannot say when a commit thread has written"
            self._thread = LogThread(loop, self._crashed)
            self._commit_thread = CommitThread(self._files, loop, self._finish_beside)
            self._prepare_ahead(core.file_number)

    # what callers use

    def append(
        self, kind: int, writer: int, index: int, parts: Sequence[Buffer], flags: int = 0, term: int = 0
    ) -> Location:
        """Add a record, to be committed as soon as possible. It is durable once `durable` reaches what `gathering` is
        now. Raises DiskFailed once the log has failed."""
        location = self._core.append(kind, writer, index, parts, flags, term)
        if not self._wanted:
            self._wanted = True
            if not self._held:
                self.schedule_commit()
        if location.size >= LARGE_RECORD_BYTES and self._may_follow():
            self._loop.call_soon(self._start_commit)
        return location

    def append_lazy(
        self, kind: int, writer: int, index: int, parts: Sequence[Buffer], flags: int = 0, term: int = 0
    ) -> Location:
        """Add a record without a waiter: it is written with the next commit, or by `flush_lazy`."""
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
    def durable_end(self) -> tuple[int, int]:
        """Up to where the log is fsynced: a file, and an offset in it. What lies before never changes."""
        return self._core.durable_end

    @property
    def log_id(self) -> bytes:
        return self._core.log_id

    @property
    def failed(self) -> str | None:
        """Why nothing is written any more, None while all is well."""
        return self._core.commits.failed

    @property
    def gathering_bytes(self) -> int:
        """Bytes that were appended and are not durable yet; callers stop reading from publishers when it is high."""
        return self._core.waiting_bytes

    @property
    def shortage(self) -> Exhausted | None:
        """For which the next file could not be reserved; publishers are to be held until it can be."""
        return self._files.shortage

    def when_durable(self, subscriber: Subscriber) -> None:
        """Call with the durable ticket after each commit."""
        self._core.commits.when_durable(subscriber)

    def when_rolled(self, subscriber: Callable[[int], None]) -> None:
        """Call with the number of each file that takes no more records: what lives in it should find another home, so
        that it can be released."""
        self._rolled_subscribers.append(subscriber)

    def read_of(self, writer: int, index: int, location: Location) -> Buffer:
        """As `read`; raises Corrupt also when another record lies there."""
        return self._read(location, (writer, index))

    def read(self, location: Location) -> bytes:
        """The payload at this place, durable or not yet. Raises Corrupt when its checksum is wrong, and
        FileNotFoundError when its file was released."""
        return bytes(self._read(location, None))

    def _read(self, location: Location, of: tuple[int, int] | None) -> Buffer:
        pending = self.pending(location)
        if pending is not None:
            return pending
        number, offset, size = location
        file, name, start = self._files.open(number), log_file(number), offset - HEADER_BYTES
        record, data = whole_record(file, name, start, HEADER_BYTES + size)
        if of is not None:
            must_be_of(record, *of, name, start)
        return memoryview(data)[HEADER_BYTES:]

    def file_of(self, location: Location) -> File | None:
        """The file that has the payload at this place; None while it is not durable, and when the file was released."""
        if self.pending(location) is not None:
            return None
        try:
            return self._files.open(location.file_number)
        except FileNotFoundError:
            return None

    def pending(self, location: Location) -> bytes | None:
        """The payload at this place while it is not durable; None if the file has it."""
        return self._core.pending(location)

    def files(self) -> range:
        """The numbers of the files that count, the last one being written."""
        return range(self._facts.first_file, self._core.file_number + 1)

    @property
    def gathering_file(self) -> int:
        """The file that the next record goes to."""
        return self._core.file_number

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
            self._files.forget(number)
        self._submit_delete(released)

    def flush_lazy(self) -> None:
        """Called on a tick: commit records without a waiter, have a mark vouch for what is durable already, and retry what a
        shortage has prevented."""
        self._write_postponed()
        if self._files.delete_again:
            self._files.delete_again = False
            self._submit_delete(range(0))
        if self.shortage:
            number = self._preparing = max(self._preparing, self._files.ready + 1)
            self._submit(lambda: self._prepare(number))
        if self._core.has_records or self._core.unmarked:
            self.schedule_commit()

    def schedule_commit(self) -> None:
        """Commit at the end of this round of the loop, or as soon as the commit in flight is done."""
        if not self._scheduled:
            self._scheduled = True
            if self._core.commits.is_idle:
                self._loop.call_soon(self._start_commit)

    def hold_commit(self) -> None:
        """Until one of the next two is called, in this turn: the loop need not be asked for another round."""
        self._held = True

    def commit_at_once(self) -> None:
        """What somebody waits for is committed now, if the loop is to write it itself."""
        self._held, commits = False, self._core.commits
        if self._wanted and commits.is_idle and commits.failed is None and self._writes_inline():
            self._dispatch(self._seal(), inline=True)
        elif self._wanted:
            self.schedule_commit()

    def commit_soon(self) -> None:
        """What somebody waits for is committed at the end of this round of the loop."""
        self._held = False
        if self._wanted:
            self.schedule_commit()

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
        thread = self._thread
        if self._commit_thread is not None:
            self._commit_thread.stop()
            self._commit_thread = None
        if thread is not None:
            thread.stop()
            self._thread = None  # not before: its last jobs still submit and report
        self._files.abandon_new_file()
        if thread is not None:
            thread.collect()
        self._files.close()

    def statistics(self) -> dict[str, Any]:
        """What metrics and the web page show of the log."""
        return {
            "commits": self._commit_count, "bytes": self._written_bytes, "waiting_bytes": self._core.waiting_bytes,
            "files": len(self.files()), "durable": self.durable, "failed": self.failed,
            "short_of_room": isinstance(self.shortage, DiskFull),
        }  # fmt: skip

    # one commit's life

    def _start_commit(self) -> None:
        commits = self._core.commits
        if not self._scheduled or commits.failed is not None:
            return
        if commits.is_idle:
            inline = self._writes_inline()
            if inline and self._core.gathering_bytes <= LONE_BYTES_MAX:
                self.around_lone_commit(lambda: self._dispatch(self._seal(), inline=True))
            else:
                self._dispatch(self._seal(), inline)
        elif self._may_follow():
            self._dispatch(self._seal(), inline=False)

    def _may_follow(self) -> bool:
        """Whether what gathers is to be sealed behind the commit that the commit thread writes. In another file the head would
        say that this one is all durable."""
        core, thread = self._core, self._commit_thread
        if thread is None or not thread.is_writing or core.writing_file != core.file_number:
            return False
        return core.gathering_bytes >= FOLLOWING_BYTES_MIN and len(core.commits.in_flight) == 1

    def _writes_inline(self) -> bool:
        """Whether the loop is to write what gathers."""
        if self._inline_bytes_max is None:
            return True
        if not self._wanted or self._core.gathering_bytes > self._inline_bytes_max:
            return False
        return self._small_commits.are_short()

    def _dispatch(self, commit: Commit, inline: bool) -> None:
        """Write the commit here, or in a thread: in the log's while that may be busy making the very file."""
        if self._thread is None or (inline and commit.file_number <= self._files.ready):
            self._finish_commit(commit, self._files.outcome_of(commit))
        elif not self._begun_beside(commit):
            self._thread.submit(lambda: self._write_and_report(commit))

    def _begun_beside(self, commit: Commit) -> bool:
        """Whether the commit thread took it, or found that it cannot be written."""
        try:
            return self._commit_thread is not None and self._commit_thread.begin(commit)
        except StorageError as error:
            self._finish_commit(commit, error)
            return True

    def _finish_beside(self, commit: Commit, outcome: float | StorageError | None) -> None:
        """What the commit thread finds no room for is the log's thread's: its calls have an archive give way. So is what was to
        follow, and was not written."""
        if outcome is None or isinstance(outcome, DiskFull):
            assert self._thread is not None, "there is a commit thread, and none for the log"
            self._thread.submit(lambda: self._write_and_report(commit))
        else:
            self._finish_commit(commit, outcome)

    def _seal(self) -> Commit:
        self._scheduled = False
        self._wanted = False
        return self._core.seal()

    def _finish_commit(self, commit: Commit, outcome: float | StorageError) -> None:
        """`outcome`: how many seconds writing took, or why it was not written."""
        if isinstance(outcome, StorageError):
            self._not_written(commit, outcome)
            return
        size = commit.size
        self._commit_count += 1
        self._file_commits = 1 if commit.begins_file else self._file_commits + 1
        self._written_bytes += size
        if self._inline_bytes_max is not None and size <= self._inline_bytes_max:
            self._small_commits.note(outcome)
        self._last_written = commit.file_number
        self._files.tell(commit)
        rolled = self._core.done(commit)
        waiting = self._scheduled
        self._core.commits.announce()
        if commit.end * 2 >= self._core.file_bytes_max:
            zeros = commit.end <= self._file_commits * ZEROS_PAY_COMMIT_BYTES_MAX
            self._prepare_ahead(commit.file_number + 1, zeros=zeros)
        if waiting:  # behind what others do now: what they send leaves before the loop blocks in the next fsync
            self._loop.call_soon(self._start_commit)
        if rolled is not None:
            for subscriber in self._rolled_subscribers:
                subscriber(rolled)

    def _not_written(self, commit: Commit, error: StorageError) -> None:
        if isinstance(error, NoDescriptors):
            self._postponed = commit
        else:
            self._fail(str(error))

    def _write_postponed(self) -> None:
        commit, self._postponed = self._postponed, None
        if commit is not None:
            self._dispatch(commit, inline=False)

    def _prepare_ahead(self, number: int, *, zeros: bool = True) -> None:
        """Make a file before it is needed, so that no commit waits for it."""
        if self._preparing < number:
            self._preparing = number
            self._submit(lambda: self._prepare(number, zeros=zeros))

    def _submit_delete(self, released: range) -> None:
        facts = self._facts
        self._submit(lambda: self._delete(facts, released))

    def _submit(self, job: Job) -> None:
        if self._thread is None:
            job()
        else:
            self._thread.submit(job)

    def _fail(self, reason: str) -> None:
        self._files.broken = True
        if self._core.commits.failed is None:
            self._core.fail(reason)
            self._on_failed(reason)

    # jobs: in the thread, or where they are asked for when there is none

    def _write_and_report(self, commit: Commit) -> None:
        outcome = self._files.outcome_of(commit)
        self._report(lambda: self._finish_commit(commit, outcome))

    def _prepare(self, number: int, *, zeros: bool = True) -> None:
        """One slice of a new file; commits that wait for the thread take their turn before the next."""
        try:
            more = self._files.prepare(number, zeros=zeros)
        except StorageError as error:
            self._report_failure(error)
            return
        if more:
            self._submit(lambda: self._prepare(number))

    def _delete(self, facts: LogFacts, released: range) -> None:
        try:
            self._files.delete(facts, released)
        except StorageError as error:
            self._report_failure(error)

    def _crashed(self, error: Exception) -> None:
        self._report_failure(DiskFailed(f"the log's thread failed: {error!r}"))

    def _report_failure(self, error: StorageError) -> None:
        self._files.broken = True
        reason = str(error)
        self._report(lambda: self._fail(reason))

    def _report(self, result: Job) -> None:
        if self._thread is None:
            result()
        else:
            self._thread.report(result)

    # blocking

    def _wait_for_commit(self) -> None:
        attempts = 0
        while not self._core.commits.is_idle and self._core.commits.failed is None:
            if self._commit_thread is not None and self._commit_thread.is_writing:
                self._commit_thread.wait()
            elif self._postponed is None:
                assert self._thread is not None, "a commit is in flight, and there is no thread that writes it"
                self._thread.wait()
            elif attempts < POSTPONED_ATTEMPTS_MAX:
                attempts += 1
                if self._thread is not None:
                    time.sleep(POSTPONED_PAUSE_S)
                self._write_postponed()
            else:
                self._fail("no file descriptor is left for the log")
