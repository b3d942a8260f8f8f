"""The end of one node's log, read again and again: what came to each queue, and left it, since the last time.

What is written counts, durable or not. At first the file that is written to is read for the names of its queues only. Where a
node deletes files faster than they are read, what they had is missing, and that is said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from analytics.inputs import LogFile
from analytics.queue_events import QUORUM, FileEvents, QueueName, note_name, packed_groups
from native.columns import Field, Table, numbers
from native.log_columns import FilePlace, publishes, settles
from native.log_tables import OUTCOMES, PUBLISHES, SETTLES
from storage.disk import File
from storage.history.column_reader import ColumnPiece, ColumnReader, log_of
from storage.os_disk import OsDisk

ACKED = frozenset({"acked", "got", "no_ack", "settled"})


class Moves(NamedTuple):
    """What came to a queue, and what left it."""

    published: int = 0
    bytes: int = 0  # of bodies
    acked: int = 0
    returned: int = 0  # to be given out again
    gone: int = 0  # rejected, expired, too many, purged, as far as the log says it


class _Tail(ColumnReader):
    """Bytes that are no record are what the node is about to write."""

    def _pass_over(self, file: File, size: int, reason: int) -> bool:
        return False


class LogTail:
    """See the module."""

    def __init__(self) -> None:
        self.names: dict[int, QueueName] = {}
        self.total: dict[int, Moves] = {}  # by queue, since the beginning
        self.missed = 0  # files that were deleted unread
        self.damaged = 0  # places of files whose records could not be read
        self._number = 0  # of the file that is read; 0: none was yet
        self._log = b""  # its id; empty: nothing says it
        self._place: FilePlace | None = None  # where; None: at its beginning
        self._is_whole = False  # whether there is no more of it
        self._quorum: set[int] = set()

    def look(self, files: Sequence[LogFile]) -> None:
        """Read what these have that was not read. All are the node's; a running one has made others by the next time."""
        if not self._number:
            self._read(files[-1], counts=False)
            self._number = files[-1].number
            self._log = self._place.log_id if self._place is not None else b""
            return
        if self._is_another(files):
            self._begin_anew(files[0].number)
        for file in files:
            if file.number >= self._number:
                self._go_to(file.number)
                try:
                    self._read(file, counts=True)
                except FileNotFoundError:  # it is being moved to the archive, or was deleted: the next look knows
                    return

    def _is_another(self, files: Sequence[LogFile]) -> bool:
        """Whether the node has another log now, as one whose data directory was made anew."""
        log = b""
        with suppress(FileNotFoundError):  # it is being moved: the next look knows
            log = log_of(OsDisk(files[-1].directory, read_only=True), files[-1].name).log_id
        is_another = files[-1].number < self._number or bool(self._log and log and log != self._log)
        self._log = log or self._log
        return is_another

    def _begin_anew(self, number: int) -> None:
        """All of it is new. What the one before had beyond what was read is gone."""
        self.missed += not self._is_whole
        self.names.clear()
        self._quorum.clear()
        self._number, self._place, self._is_whole = number, None, False

    def _go_to(self, number: int) -> None:
        if number != self._number:
            self.missed += number - self._number - self._is_whole
            self._number, self._place, self._is_whole = number, None, False

    def _read(self, file: LogFile, *, counts: bool) -> None:
        make = _Tail if file.is_last else ColumnReader
        reader = make(OsDisk(file.directory, read_only=True), file.name, self._place, is_followed=not file.is_last)
        said = FileEvents(file.number)
        for piece in reader.pieces():
            for one in said.said(piece):
                if isinstance(one, QueueName):
                    note_name(self.names, one)
                    if one.kind == QUORUM:
                        self._quorum.add(one.queue)
            if counts:
                self._count(piece)
        self.damaged += sum(not one.torn for one in reader.damage) if counts else 0
        self._place, self._is_whole = reader.place, not file.is_last

    def _count(self, piece: ColumnPiece) -> None:
        groups = packed_groups(self._quorum)
        found: Counter[tuple[int, str]] = Counter()
        came = publishes(piece.buffer, piece.base, piece.records, groups)
        for queue, count, size in _columns(PUBLISHES, came, "queue", "count", "body_bytes"):
            found[queue, "published"] += count
            found[queue, "bytes"] += size
        left = settles(piece.buffer, piece.base, piece.records, groups)
        for queue, outcome, count in _columns(SETTLES, left, "queue", "outcome", "count"):
            found[queue, _move(outcome)] += count
        for (queue, name), count in found.items():
            before = self.total.get(queue, Moves())
            self.total[queue] = before._replace(**{name: getattr(before, name) + count})


def _columns(fields: Sequence[Field], made: Table, *names: str) -> Iterator[tuple[int, ...]]:
    places = [next(at for at, one in enumerate(fields) if one.name == name) for name in names]
    return zip(*(numbers(fields[at], made[1][at]) for at in places), strict=True)


def _move(outcome: int) -> str:
    name = OUTCOMES.get(outcome, "")
    if name in ACKED:
        return "acked"
    return "returned" if name.startswith(("returned", "requeued", "never_seen")) else "gone"
