"""The log of a node as rows, one for each record, while the node writes it or long after.

Nothing is locked and nothing is written. A file may be moved from `log/` into `archive/` at any moment; a file of the same
number is the same file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import classic.file_formats  # noqa: F401  registers what records of classic queues say
import raft.store.group_formats  # noqa: F401  and those of replicated logs
from native.columns import rows_of
from native.log_columns import FilePlace
from native.log_tables import RECORDS
from node.exporting import catalog_rows
from node.exporting.log_listing import log_names
from storage import doctor
from storage.history.column_reader import PIECE_BYTES, ColumnPiece, ColumnReader, DamagedRange, head_of, log_of
from storage.names import log_file
from storage.os_disk import OsDisk
from storage.record import HEADER_BYTES, Kind

Row = dict[str, Any]
UNFINISHED = "unfinished write"
CUT_OFF = "the file behind it says that the log went on here"


def rows_of_file(path: Path) -> Iterator[Row]:
    """The records of one file. Raises ValueError for what is no file of records."""
    yield from _rows(path.name, doctor.columns(str(path)))


def _rows(name: str, reader: ColumnReader) -> Iterator[Row]:
    """The rows from the reader's place to the end of its file; damage stands where it was met."""
    noted = 0
    for piece in reader.pieces():
        for found in reader.damage[noted:]:
            yield _finding(name, found)
        noted = len(reader.damage)
        for row in _records(piece):
            yield {"file": name, **row}
    for found in reader.damage[noted:]:
        yield _finding(name, found)


def _records(piece: ColumnPiece) -> Iterator[Row]:
    for row in rows_of(RECORDS, piece.records):
        start = row["offset"] - piece.base + HEADER_BYTES
        payload = piece.buffer[start : start + row["size"]]
        yield {
            "offset": row["offset"],
            "kind": Kind(row["kind"]).name if row["kind"] in _KINDS else str(row["kind"]),
            "size": row["size"],
            "writer": row["writer"] & _U64,
            "index": row["index"] & _U64,
            "term": row["term"],
            "flags": row["flags"],
            "commit": row["commit"],
            "time": iso_time(row["time"]),
            **doctor.described(row["kind"], payload),
            **_commands(row, payload),
        }


def _commands(row: dict[str, Any], payload: bytes) -> Row:
    """Of the log of what is declared."""
    commands = catalog_rows.commands_of(row, payload)
    return {"commands": commands} if commands else {}


_KINDS = frozenset(Kind)
_U64 = (1 << 64) - 1
_TIME_MAX_US = int(datetime.max.replace(tzinfo=UTC).timestamp()) * 1_000_000


def iso_time(microseconds: int | None) -> str | None:
    if microseconds is None or microseconds > _TIME_MAX_US:
        return None
    seconds, rest = divmod(microseconds, 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest).isoformat(timespec="microseconds")


def _finding(name: str, found: DamagedRange) -> Row:
    kind = UNFINISHED if found.torn else "damage"
    return {"file": name, "offset": found.offset, "length": found.length, "finding": kind, "reason": found.reason}


class LogDirectory:
    """The files of a log in a directory, read in their order."""

    def __init__(self, disk: OsDisk, first_file: int = 0, piece_bytes: int = PIECE_BYTES) -> None:
        """`first_file`: those below it are passed over. Raises ValueError where there is no log."""
        self._disk = disk
        self._first_file = first_file
        self._piece_bytes = piece_bytes
        self._last: FilePlace | None = None  # up to where the log was read
        if not self._files():
            raise ValueError(f"{disk.path('')} has no log: give a data directory, an export of one, or a file")

    def rows(self, follow: Callable[[], None] | None) -> Iterator[Row]:
        while True:
            yield from self.new_rows(is_followed=follow is not None)
            if follow is None:
                return
            follow()

    def new_rows(self, *, is_followed: bool) -> Iterator[Row]:
        """What was written since the last call. An unfinished write is no row for who comes again."""
        while True:
            try:
                for row in self._rows_behind():
                    if not is_followed or row.get("finding") != UNFINISHED:
                        yield row
                return
            except FileNotFoundError:
                continue  # it was moved or released since we looked

    def _rows_behind(self) -> Iterator[Row]:
        begin = self._last.file if self._last is not None else self._first_file
        files = {number: name for number, name in self._files().items() if number >= begin}
        begun = {number: head.log_id for number, name in files.items() if (head := log_of(self._disk, name)).log_id}
        log_id = next(iter(begun.values()), b"")
        for number, name in files.items():
            last = self._last
            if last is not None and number > last.file + 1:
                yield {"file": log_file(last.file + 1), "finding": "damage", "reason": "the file is missing"}
            start = last if last is not None and number == last.file else FilePlace(0, log_id, number)
            is_followed = number < max(begun, default=0)
            reader = ColumnReader(self._disk, name, start, is_followed=is_followed, piece_bytes=self._piece_bytes)
            yield from _rows(name, reader)
            if reader.place.base:
                self._last = reader.place
            if number + 1 in begun:
                yield from self._cut_off(name, reader, files[number + 1])

    def _cut_off(self, name: str, reader: ColumnReader, successor: str) -> Iterator[Row]:
        """What the file behind it says that there was, and is not."""
        end = max([reader.place.base, *(found.offset + found.length for found in reader.damage)])
        head = head_of(self._disk, successor)
        if head is not None and head.previous_end > end:
            yield _finding(name, DamagedRange(end, head.previous_end - end, torn=False, reason=CUT_OFF))

    def _files(self) -> dict[int, str]:
        """Where each is now, by ascending number."""
        return log_names(self._disk)
