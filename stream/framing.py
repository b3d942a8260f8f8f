"""The bytes around each entry in a segment of a stream. Little endian:

    offset  size  field
         0     4  crc32c     over the rest of this header and the head
         4     1  kind       0 command, 1 no-op, 2 membership (raft/core/messages.py); 255 checkpoint, first in a segment
         5     1  version    1
         6     2  zeros
         8     4  head_len   of a chunk entry what stands before its data, else the whole entry
        12     4  data_len   of a chunk's data, for which the chunk has a checksum of its own
        16     8  segment    a random number, in all frames of one segment; no client ever learns it
        24     8  index      of the entry; of a checkpoint, that of the last entry before the segment
        32     8  durable    how many bytes of this segment had been fsynced when this was written
        40     4  term
        44        head, then data

So what a log is can be read without reading its messages, and each byte is summed once when it is written. A payload that
imitates a frame does not know the number of its segment.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from native.crc32c import crc32c
from storage.disk import Buffer
from storage.record_reader import Bytes

CHECKPOINT_KIND = 255
VERSION = 1
HEAD_BYTES_MAX = 1 << 28  # a bound for what a length field may claim
WINDOW_BYTES = 32 * 1024  # read at once where heads are read one after another
SINGLE_BYTES = 512  # read at once where one head is wanted: most have less
SEARCH_BYTES = 4 * 1024 * 1024

_HEADER = Struct("<IBBHIIQQQI")
_SEALED = Struct("<BBHIIQQQI")  # the header without its checksum
_CHECKSUM = Struct("<I")
_SEGMENT_NUMBER = Struct("<Q")
_SEGMENT_AT = 16
FRAME_HEADER_BYTES = _HEADER.size


class FrameHeader(NamedTuple):
    """What surrounds an entry."""

    kind: int
    head_bytes: int
    data_bytes: int
    segment: int
    entry_index: int
    durable: int
    term: int

    @property
    def size(self) -> int:
        """Bytes of the whole frame."""
        return FRAME_HEADER_BYTES + self.head_bytes + self.data_bytes


class UnreadableFrame(Exception):
    """Returned when no sound frame of this segment lies at a position. Whoever reads knows whether that is damage."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"at {position}: {reason}")
        self.position = position
        self.reason = reason


def seal_frame(kind: int, term: int, index: int, segment: int, durable: int, head: Buffer, data_bytes: int) -> bytes:
    """The header for an entry that will be written as this head and so many bytes of data."""
    assert len(head) <= HEAD_BYTES_MAX, f"the head of entry {index} has {len(head)} bytes"
    sealed = _SEALED.pack(kind, VERSION, 0, len(head), data_bytes, segment, index, durable, term)
    return _CHECKSUM.pack(crc32c(head, crc32c(sealed))) + sealed


class FrameHeads:
    """Headers and heads of frames by their position, up to `end`. Those that follow each other closely are read together."""

    def __init__(self, file: Bytes, end: int, segment: int | None, window_bytes: int = WINDOW_BYTES) -> None:
        """`segment` None: of any segment."""
        self._file = file
        self._end = end
        self._segment = segment
        self._window_bytes = window_bytes
        self._base = 0
        self._window = b""

    def at(self, position: int) -> tuple[FrameHeader, bytes]:
        """Raises UnreadableFrame."""
        sealed = self._read(position, FRAME_HEADER_BYTES)
        checksum, kind, version, _, *rest = _HEADER.unpack(sealed)
        header = FrameHeader(kind, *rest)
        if version != VERSION or self._segment not in (None, header.segment):
            raise UnreadableFrame(position, "no frame of this segment is here")
        if header.head_bytes > HEAD_BYTES_MAX or position + header.size > self._end:
            raise UnreadableFrame(position, f"a frame of {header.size} bytes does not fit here")
        head = self._read(position + FRAME_HEADER_BYTES, header.head_bytes)
        if crc32c(head, crc32c(sealed[_CHECKSUM.size :])) != checksum:
            raise UnreadableFrame(position, "the checksum of a frame differs")
        return header, head

    def walk(self, position: int) -> Iterator[tuple[int, FrameHeader, bytes]]:
        """All frames from here to the end, with their positions. Raises UnreadableFrame behind the last that is sound."""
        while position < self._end:
            header, head = self.at(position)
            yield position, header, head
            position += header.size

    def _read(self, position: int, size: int) -> bytes:
        if position + size > self._end:
            raise UnreadableFrame(position, f"{size} bytes do not fit here")
        at = position - self._base
        if at < 0 or at + size > len(self._window):
            self._window = self._file.read_at(position, min(max(size, self._window_bytes), self._end - position))
            self._base, at = position, 0
            if len(self._window) < size:
                raise UnreadableFrame(position, f"{size} bytes do not fit here")
        return self._window[at : at + size]


def durable_behind(file: Bytes, position: int, end: int, segment: int) -> int:
    """Up to where the frames that begin behind `position` say that the segment had been fsynced; 0 if there are none. They are
    found by the number of the segment, for where a frame is unreadable nobody knows where the next one begins."""
    heads = FrameHeads(file, end, segment)
    mark = _SEGMENT_NUMBER.pack(segment)
    durable = 0
    for base in range(position + _SEGMENT_AT, end, SEARCH_BYTES):
        piece = file.read_at(base, SEARCH_BYTES + len(mark) - 1)
        found = piece.find(mark)
        while found >= 0:
            durable = max(durable, _durable_at(heads, base + found - _SEGMENT_AT))
            found = piece.find(mark, found + 1)
    return durable


def _durable_at(heads: FrameHeads, position: int) -> int:
    try:
        return heads.at(position)[0].durable
    except UnreadableFrame:
        return 0
