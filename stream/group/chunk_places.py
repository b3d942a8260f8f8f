"""Where chunks lie in a stream's log, sparsely: enough to begin near any offset or time, however long the stream is.

A place names the first chunk of a stretch of the log. A stretch has STRETCH_ENTRIES chunks or STRETCH_BYTES at most, so whoever
looks for a message walks over no more than that. Ten million messages that came one by one are 40,000 places, of 24 bytes each.

Encoded, little endian, columns one behind the other:

    entries u32, bytes u64 of the last stretch | count u32 | offsets u64 each | times i64 each | entry indexes u64 each
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from struct import Struct

from raft.core.byte_reader import ByteReader
from raft.core.errors import BadBytes
from stream.chunks.chunk import ChunkHeader

STRETCH_ENTRIES = 256
STRETCH_BYTES = 256 << 10

_HEAD = Struct("<IQI")
_WIDTH = 8  # of each column


class ChunkPlaces:
    """See the module. Offsets, times and indexes ascend together."""

    __slots__ = ("_bytes", "_entries", "_indexes", "_offsets", "_times")

    def __init__(self) -> None:
        self._offsets = array("Q")
        self._times = array("q")
        self._indexes = array("Q")
        self._entries = 0  # of the last stretch
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def first_time_ms(self) -> int | None:
        """Of the first chunk that is kept; None: there is none."""
        return self._times[0] if self._times else None

    def add(self, entry_index: int, chunk: ChunkHeader, *, begins: bool) -> None:
        """A chunk behind all others. `begins`: it is the first of a segment, and has a place of its own."""
        if begins or not self._offsets or self._entries >= STRETCH_ENTRIES or self._bytes >= STRETCH_BYTES:
            self._offsets.append(chunk.first_offset)
            self._times.append(chunk.time_ms)
            self._indexes.append(entry_index)
            self._entries = self._bytes = 0
        self._entries += 1
        self._bytes += chunk.size

    def cut(self, entry_index: int) -> None:
        """What lies before this entry is gone. It begins a segment."""
        gone = bisect_left(self._indexes, entry_index)
        del self._offsets[:gone], self._times[:gone], self._indexes[:gone]

    def at_offset(self, offset: int) -> int:
        """Index of an entry at or before the chunk with this message, close to it. There is one."""
        return self._indexes[max(0, bisect_right(self._offsets, offset) - 1)]

    def at_time(self, time_ms: int) -> int:
        """Index of an entry at or before the first chunk that is not older, close to it. There is one."""
        return self._indexes[max(0, bisect_left(self._times, time_ms) - 1)]

    def encode(self) -> bytes:
        columns = b"".join(_little_endian(column) for column in (self._offsets, self._times, self._indexes))
        return _HEAD.pack(self._entries, self._bytes, len(self)) + columns

    @classmethod
    def decode(cls, reader: ByteReader) -> ChunkPlaces:
        """Raises BadBytes."""
        places = cls()
        places._entries, places._bytes, count = reader.fields(_HEAD)
        for column in (places._offsets, places._times, places._indexes):
            column.frombytes(reader.take(count * _WIDTH))
            if sys.byteorder == "big":
                column.byteswap()
            if any(column[at] > column[at + 1] for at in range(count - 1)):
                raise BadBytes("the places of chunks do not ascend")
        return places


def _little_endian(column: array[int]) -> bytes:
    if sys.byteorder == "big":
        column = array(column.typecode, column)
        column.byteswap()
    return column.tobytes()
