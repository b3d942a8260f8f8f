"""The node's one log, as a core: what a commit's bytes are, where they go, when a file is full.

`durable` means that a record's bytes, its file's size and its file's name were fsynced. A commit is durable as a whole
or was never promised. Because commits are sealed in the order in which they are written, the next one knows where it will
start, so a record's place is known the moment it is appended; and because it is written only after the last was fsynced, the
mark it begins with can say that everything before it is durable. That is what recovery (wal/replay.py) tells a torn
tail from damage by.

    log file    ROLL record, then commits, then zeros (the file was allocated ahead)
    commit      MARK record, then records, with another MARK at least every MARK_EVERY_BYTES

The marks within a commit bound what one damaged byte costs: reading goes on at the next mark. Each says when it was made, so
the records behind it were appended then or later, and before the next mark was made: as far as the wall clock is right.

A file that has reached `file_bytes_max` when a commit is sealed takes no further one; the next commit starts a new file.
So a commit may make its file longer than the limit, and a record is never split.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from storage.disk import Buffer
from storage.record import (
    HEADER_BYTES,
    MARK_BYTES,
    PAYLOAD_BYTES_MAX,
    VERSION,
    Mark,
    Roll,
    encode_mark,
    encode_roll,
    seal,
)
from storage.wal.group_commit import GroupCommit

MARK_EVERY_BYTES = 65_536
LOG_ID_BYTES = 16


class Location(NamedTuple):
    """Where the payload of a record lies."""

    file_number: int
    offset: int
    size: int


class LogEnd(NamedTuple):
    """Where an earlier run of the node left the log; a new run continues in a new file."""

    file_number: int  # 0: there is no log yet
    offset: int
    commit: int  # the last one that left a mark
    unmarked: bool = False  # records stand there that no mark vouches for


def time_not_known() -> int:
    """What a mark says for the time where there is no clock."""
    return 0


@dataclass(slots=True)
class Commit:
    """Buffers that belong at one place of one file. `payloads` finds what is not on the disk yet, by its offset."""

    ticket: int
    file_number: int
    start: int
    begins_file: bool
    buffers: list[Buffer] = field(default_factory=list)
    payloads: dict[int, Sequence[Buffer]] = field(default_factory=dict)
    end: int = 0

    @property
    def size(self) -> int:
        return self.end - self.start


class LogCore:
    """Appends records to the gathering commit and seals it. Knows positions; writes nothing."""

    def __init__(
        self, log_id: bytes, end: LogEnd, file_bytes_max: int, wall_us: Callable[[], int] = time_not_known
    ) -> None:
        """`wall_us`: what time it is, for marks."""
        assert len(log_id) == LOG_ID_BYTES, f"a log's id has {LOG_ID_BYTES} bytes, not {len(log_id)}"
        assert file_bytes_max > 0, f"log files of {file_bytes_max} bytes hold nothing"
        self.log_id = log_id
        self.file_bytes_max = file_bytes_max
        self._wall_us = wall_us
        self.commits = GroupCommit(end.commit + 1)
        self.unmarked = end.unmarked  # records are durable that no mark vouches for yet
        self._durable_file = end.file_number  # everything before this file and offset is fsynced, or will be when
        self._durable_offset = end.offset  # the gathering commit is written
        self._in_flight: deque[Commit] = deque()  # the first is being written
        self._since_mark = 0
        self.file_number = end.file_number + 1  # that the gathering commit goes to; asked for with each record
        self._next_start = 0  # where in it that commit begins
        self._begun: Commit | None = None

    @property
    def writing_file(self) -> int:
        """The file that the next bytes on the disk go to: nothing is on its way to those below it any more."""
        return self._in_flight[0].file_number if self._in_flight else self.file_number

    @property
    def durable_end(self) -> tuple[int, int]:
        """Up to where the log is fsynced: a file, and an offset in it."""
        if not self._in_flight:
            return self._durable_file, self._durable_offset
        return self._in_flight[0].file_number, self._in_flight[0].start

    @property
    def position(self) -> int:
        """Where in it the next record would begin."""
        return self._gathering.end

    @property
    def has_records(self) -> bool:
        """Whether somebody's record gathers, beside the log's own."""
        return self._begun is not None and bool(self._begun.payloads)

    @property
    def gathering_bytes(self) -> int:
        """Bytes that the next commit holds for others."""
        commit = self._begun
        return commit.end - commit.start if commit is not None and commit.payloads else 0

    @property
    def waiting_bytes(self) -> int:
        """Bytes that were appended and are not durable yet."""
        waiting = self.gathering_bytes
        for commit in self._in_flight:
            waiting += commit.size
        return waiting

    @property
    def _gathering(self) -> Commit:
        """Begun by its first record, or when it is sealed: its mark says when that was, and what a commit costs before it is
        written delays those who wait for it."""
        if self._begun is None:
            self._begun = self._begin(self.file_number, self._next_start)
        return self._begun

    def append(
        self, kind: int, writer: int, index: int, parts: Sequence[Buffer], flags: int = 0, term: int = 0
    ) -> Location:
        """Add a record to the gathering commit. `parts` must not change until the commit is durable."""
        if self.commits.failed is not None:
            self.commits.must_work()
        size = sum(map(len, parts))
        assert size <= PAYLOAD_BYTES_MAX, f"a record of {size} bytes is above the limit {PAYLOAD_BYTES_MAX}"
        commit = self._begun or self._gathering
        if self._since_mark >= MARK_EVERY_BYTES:
            self._add_mark(commit, begins_commit=False)
        commit.buffers.append(seal(parts, kind, flags, term, writer, index, VERSION))
        commit.buffers.extend(parts)
        offset = commit.end + HEADER_BYTES
        commit.payloads[offset] = parts
        commit.end = offset + size
        self._since_mark += HEADER_BYTES + size
        return Location(commit.file_number, offset, size)

    def seal(self) -> Commit:
        """The gathering commit, to be written and fsynced now; then `done` or `fail`. It may hold only its mark, which
        then vouches for what was durable before."""
        commit = self._begun or self._gathering
        ticket = self.commits.seal()
        assert commit.ticket == ticket, f"commit {commit.ticket} carries ticket {ticket}"
        self._in_flight.append(commit)
        self._durable_file, self._durable_offset = commit.file_number, commit.end
        self._begun = None
        if commit.end >= self.file_bytes_max:
            self.file_number, self._next_start = commit.file_number + 1, 0
        else:
            self._next_start = commit.end
        return commit

    def done(self, commit: Commit) -> int | None:
        """The first of the sealed commits is fsynced. Returns the number of the file that takes no more records since, if any.
        The caller then lets `commits.announce` tell who waits."""
        self.commits.done(commit.ticket)
        self._in_flight.popleft()
        self.unmarked = bool(commit.payloads)
        return commit.file_number if commit.end >= self.file_bytes_max else None

    def fail(self, reason: str) -> None:
        """Writing failed: what is on the disk beyond the last durable commit is unknown, and stays so."""
        self.commits.fail(reason)

    def pending(self, location: Location) -> bytes | None:
        """The payload at this place, if it is not durable yet; None if it is to be read from the file."""
        for commit in (self._begun, *reversed(self._in_flight)):
            if commit is not None and location.file_number == commit.file_number and location.offset >= commit.start:
                parts = commit.payloads.get(location.offset)
                assert parts is not None, f"no record of commit {commit.ticket} lies at {location}"
                return b"".join(parts)
        return None

    def _begin(self, file_number: int, start: int) -> Commit:
        commit = Commit(self.commits.gathering, file_number, start, begins_file=start == 0, end=start)
        if commit.begins_file:
            roll = Roll(self.log_id, file_number, self._durable_offset, commit.ticket)
            commit.buffers.append(encode_roll(roll))
            commit.end += len(commit.buffers[0])
        self._add_mark(commit, begins_commit=True)
        return commit

    def _add_mark(self, commit: Commit, begins_commit: bool) -> None:
        mark = Mark(
            self.log_id,
            commit.file_number,
            commit.end,
            self._durable_file,
            self._durable_offset,
            commit.ticket,
            begins_commit,
            self._wall_us(),
        )
        commit.buffers.append(encode_mark(mark))
        commit.end += MARK_BYTES
        self._since_mark = 0
