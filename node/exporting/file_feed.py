"""A file of the log or a snapshot as pieces of bytes, from its beginning on: as it is, or without the contents of messages.

The pieces of a file are the same bytes each time, however long it has become meanwhile, so a transfer that broke can go on.
Each piece is small: what works on it has the interpreter, and the event loop waits for that.
"""

from __future__ import annotations

from collections.abc import Iterator

from node.exporting.withheld_contents import WithheldContents
from storage.disk import Disk
from storage.history.column_reader import ColumnReader

PIECE_BYTES = 256 << 10  # read, hashed and sent in one go
WITHHELD_PIECE_BYTES = 64 << 10  # up to 700 records are sealed anew: 0.5 ms


def whole_pieces(disk: Disk, name: str, end: int) -> Iterator[bytes]:
    """Raises StorageError, FileNotFoundError."""
    file = disk.open(name)
    try:
        for at in range(0, end, PIECE_BYTES):
            data = file.read_at(at, min(PIECE_BYTES, end - at))
            if not data:
                return
            yield data
    finally:
        file.close()


def withheld_pieces(disk: Disk, name: str, end: int) -> Iterator[bytes]:
    """Of a file of the log. Bytes that are no record are zeros. Raises StorageError, FileNotFoundError."""
    reader = ColumnReader(disk, name, is_followed=True, end=end, piece_bytes=WITHHELD_PIECE_BYTES)
    contents = WithheldContents()
    at = 0
    for piece in reader.pieces():
        yield from _zeros(piece.base - at)
        made = contents.of(piece)
        at = piece.base + len(made)
        yield from (made[start : start + PIECE_BYTES] for start in range(0, len(made), PIECE_BYTES))
    yield from _zeros(end - at)


def _zeros(size: int) -> Iterator[bytes]:
    yield from (bytes(min(PIECE_BYTES, size - at)) for at in range(0, size, PIECE_BYTES))
