"""What one range of a log file says, piece by piece, with what the file said before it: names of queues hold from there on."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from analytics.coverage import DELETED
from analytics.follow.log_positions import LogRange
from native.log_columns import FilePlace
from storage.history.column_reader import ColumnPiece, ColumnReader, DamagedRange, log_of
from storage.names import archived, log_file
from storage.os_disk import OsDisk


class DataLost(Exception):
    """A range cannot be read: the node has deleted its file."""


class RangeReader:
    """See the module. Take `before`, then `pieces`, each to its end; both raise DataLost, the first at once."""

    damage: list[DamagedRange]  # once all pieces were taken

    def __init__(self, of: LogRange) -> None:
        self.damage = []
        self._range = of
        self._disk = OsDisk(of.directory, read_only=True)
        self._place = FilePlace(of.start, bytes.fromhex(of.log), of.number)

    def before(self) -> Iterator[ColumnPiece]:
        if self._range.lost is not None:
            raise DataLost(self._range.lost)
        reader = yield from self._read(None, self._range.start)
        if reader.place.base == self._range.start:  # with the time there; else the file is damaged before it
            self._place = reader.place

    def pieces(self) -> Iterator[ColumnPiece]:
        reader = yield from self._read(self._place, self._range.end)
        self.damage = reader.damage

    def _read(self, start: FilePlace | None, end: int | None) -> Generator[ColumnPiece, None, ColumnReader]:
        """All of it is durable, so what cannot be read of it is damaged. Until the file is open here the node may move it
        to its archive."""
        here = log_file(self._range.number)
        for name in (here, archived(here), here):
            try:
                if log_of(self._disk, name).log_id.hex() != self._range.log:
                    break
                reader = ColumnReader(self._disk, name, start, is_followed=True, end=end)
                yield from reader.pieces()
            except FileNotFoundError:
                continue
            return reader
        raise DataLost(DELETED)
