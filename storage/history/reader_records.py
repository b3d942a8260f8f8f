"""How far consumers of streams are: at `history.level = "full"`. All integers are little endian.

    STREAM_READERS    consumers on this node that began, moved on or left since the last such record, a second before or earlier
        for each
            actor u32     the consumer, named in the same file (storage/history/name_records.py)
            stream u64    its replicated log, named there too
            offset u64    of the message that it is given next
            flags u8      1: it has left, and would have been given that

The record belongs to no writer (0), and its index is 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

_ROW = Struct("<IQQB")
_LEFT = 1


class ReaderRow(NamedTuple):
    """One row of a STREAM_READERS record."""

    actor: int
    stream: int
    offset: int
    has_left: bool = False


def encode_readers(rows: Iterable[ReaderRow]) -> bytes:
    return b"".join([_ROW.pack(actor, stream, offset, _LEFT if left else 0) for actor, stream, offset, left in rows])


def decode_readers(payload: bytes | memoryview) -> list[ReaderRow]:
    """Raises ValueError."""
    if len(payload) % _ROW.size:
        raise ValueError(f"readers of streams in {len(payload)} bytes, which are no rows of {_ROW.size}")
    rows = _ROW.iter_unpack(payload)
    return [ReaderRow(actor, stream, offset, bool(flags & _LEFT)) for actor, stream, offset, flags in rows]
