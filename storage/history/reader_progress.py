"""Writes to the log how far consumers of streams are (reader_records.py)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from storage.history.file_names import NO_WRITER, FileNames, NamedActor, NamingLog
from storage.history.reader_records import ReaderRow, encode_readers
from storage.record import Kind

STREAM = "stream"  # as groups of streams call their machine


class ReaderPlace(NamedTuple):
    """Where a consumer is."""

    actor: NamedActor
    stream: int  # its group
    name: str  # of the stream
    offset: int  # of the message that it is given next


class ReaderProgressLog:
    """See the module. Of one process."""

    def __init__(self, log: NamingLog, names: FileNames) -> None:
        self._log = log
        self._names = names
        self._left: list[ReaderPlace] = []

    def left(self, place: ReaderPlace) -> None:
        """To be told with the next ones."""
        self._left.append(place)

    def tell(self, moved: Iterable[ReaderPlace] = ()) -> None:
        left, self._left = self._left, []
        if self._log.failed is not None:
            return
        rows = [self._row(one, has_left=False) for one in moved] + [self._row(one, has_left=True) for one in left]
        if rows:
            self._log.append_lazy(Kind.STREAM_READERS, NO_WRITER, 0, [encode_readers(rows)])

    def _row(self, place: ReaderPlace, *, has_left: bool) -> ReaderRow:
        self._names.group(place.stream, STREAM, place.name)
        return ReaderRow(self._names.number_of(place.actor), place.stream, place.offset, has_left)
