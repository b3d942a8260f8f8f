"""A chunk: consecutive messages of a stream as they are stored, replicated and sent.

Readers get it as it lies in the file, so it is big endian, as the stream protocol wants it:

    offset  size  field
         0     1  magic and version, 4 bits each   0x50
         1     1  type         0: messages
         2     2  items        a sub-batch is one
         4     4  messages
         8     8  time         ms since 1970, signed; never less than that of the chunk before
        16     8  epoch        the leader's term
        24     8  offset       of the first message; the others follow without gaps
        32     4  checksum     CRC-32 of the data, as zlib computes it
        36     4  data_len
        40     4  trailer_len  bytes that RabbitMQ would store behind the data for the names of publishers; no reader gets them
        44     4  zeros        one is the size of a filter, which readers do not get
        48        data         items, one behind the other

    item, one message
         0     4  length       the top bit is 0
         4        message      sections of AMQP 1.0
    item, a sub-batch
         0     1  128 + 16 x compression      0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd
         1     2  messages     in it
         3     4  uncompressed bytes
         7     4  length
        11        items of one message, perhaps compressed

Some clients judge all of a chunk by its first byte, so its items are either all messages or all sub-batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from struct import Struct
from typing import NamedTuple

from native.crc32 import crc32
from raft.core.errors import BadBytes
from storage.disk import Buffer

MAGIC = 0x50
MESSAGES_TYPE = 0
CHUNK_HEADER_BYTES = 48
ITEMS_MAX = 2**16 - 1

_HEADER = Struct(">BBHIqQQIIII")
_LENGTH = Struct(">I")
_SUB_BATCH = Struct(">BHII")
_SUB_BATCH_BIT = 0x80
_COMPRESSION_SHIFT = 4
_TRACKED_BYTES = 10  # kind, size and id of a publisher, beside its name, in a trailer of RabbitMQ's
assert _HEADER.size == CHUNK_HEADER_BYTES


class ChunkHeader(NamedTuple):
    """What a chunk says of itself."""

    item_count: int
    message_count: int
    time_ms: int
    term: int
    first_offset: int
    checksum: int
    data_bytes: int
    trailer_bytes: int = 0

    @property
    def next_offset(self) -> int:
        """The offset behind its last message."""
        return self.first_offset + self.message_count

    @property
    def size(self) -> int:
        """Bytes of the chunk as it is sent."""
        return CHUNK_HEADER_BYTES + self.data_bytes


class SubBatch(NamedTuple):
    """Messages that a publisher has put together, and perhaps compressed."""

    compression: int
    message_count: int
    uncompressed_bytes: int
    data: Buffer


def seal_chunk(
    data: Sequence[Buffer],
    item_count: int,
    message_count: int,
    time_ms: int,
    term: int,
    first_offset: int,
    publishers: Iterable[str] = (),
) -> bytes:
    """The header for items that will be written as these parts, one after another. `publishers`: the names of those who
    published them, which take a place in RabbitMQ's chunks, so that clients may look whether they do."""
    assert 0 < item_count <= ITEMS_MAX, f"a chunk cannot have {item_count} items"
    assert message_count >= item_count, f"{item_count} items hold {message_count} messages"
    checksum = data_bytes = 0
    for part in data:
        checksum = crc32(part, checksum)
        data_bytes += len(part)
    trailer_bytes = sum([_TRACKED_BYTES + len(name.encode()) for name in publishers])
    return encode_header(
        ChunkHeader(item_count, message_count, time_ms, term, first_offset, checksum, data_bytes, trailer_bytes)
    )


def encode_header(header: ChunkHeader) -> bytes:
    items, messages, time_ms, term, first, checksum, size, trailer = header
    return _HEADER.pack(MAGIC, MESSAGES_TYPE, items, messages, time_ms, term, first, checksum, size, trailer, 0)


def read_header(chunk: Buffer, at: int = 0) -> ChunkHeader:
    """The header that begins at `at`. Raises BadBytes when it is none of ours."""
    if at < 0 or len(chunk) - at < CHUNK_HEADER_BYTES:
        raise BadBytes(f"a chunk of {len(chunk) - at} bytes has no header")
    magic, kind, items, messages, *rest, zeros = _HEADER.unpack_from(chunk, at)
    if (magic, kind, zeros) != (MAGIC, MESSAGES_TYPE, 0):
        raise BadBytes(f"a chunk cannot begin with {bytes(chunk[at : at + 8]).hex()}")
    if not 0 < items <= messages:
        raise BadBytes(f"a chunk says it has {items} items with {messages} messages")
    return ChunkHeader(items, messages, *rest)


def must_be_sound(header: ChunkHeader, data: Buffer) -> None:
    """Raises BadBytes when these are not the bytes that the header was made for."""
    if len(data) != header.data_bytes:
        raise BadBytes(f"the chunk at offset {header.first_offset} has {len(data)} bytes, not {header.data_bytes}")
    if crc32(data) != header.checksum:
        raise BadBytes(f"the checksum of the chunk at offset {header.first_offset} differs")


def message_item(message: Buffer) -> bytes:
    assert len(message) < 2**31, f"a message of {len(message)} bytes does not fit a chunk"
    return _LENGTH.pack(len(message)) + message


def sub_batch_item(batch: SubBatch) -> bytes:
    first = _SUB_BATCH_BIT | batch.compression << _COMPRESSION_SHIFT
    return _SUB_BATCH.pack(first, batch.message_count, batch.uncompressed_bytes, len(batch.data)) + batch.data


def items_in(data: Buffer, item_count: int) -> Iterator[Buffer | SubBatch]:
    """Messages and sub-batches in their order: for what looks at single messages. Raises BadBytes when `data` is not exactly
    that many items."""
    view = memoryview(data)
    at = 0
    for _ in range(item_count):
        if at < len(view) and is_sub_batch(view, at):
            batch, at = sub_batch_at(view, at)
            yield batch
        else:
            start = _behind_fields(view, at, _LENGTH)
            at = _end_of_item(view, start, _LENGTH.unpack_from(view, at)[0])
            yield view[start:at]
    if at != len(view):
        raise BadBytes(f"{len(view) - at} bytes are left over behind {item_count} items")


def behind_items(view: memoryview, count: int) -> tuple[int, int]:
    """Where so many items end, and how many messages they have. Raises BadBytes."""
    at = messages = 0
    for _ in range(count):
        if is_sub_batch(view, at):
            batch, at = sub_batch_at(view, at)
            messages += batch.message_count
        else:
            at = _end_of_item(view, _behind_fields(view, at, _LENGTH), _LENGTH.unpack_from(view, at)[0])
            messages += 1
    return at, messages


def is_sub_batch(data: Buffer, at: int) -> bool:
    """Whether the item that begins here is one."""
    return bool(data[at] & _SUB_BATCH_BIT)


def sub_batch_at(view: memoryview, at: int) -> tuple[SubBatch, int]:
    """And where it ends. Raises BadBytes."""
    start = _behind_fields(view, at, _SUB_BATCH)
    first, messages, uncompressed, length = _SUB_BATCH.unpack_from(view, at)
    end = _end_of_item(view, start, length)
    return SubBatch(first >> _COMPRESSION_SHIFT & 7, messages, uncompressed, view[start:end]), end


def _behind_fields(view: memoryview, at: int, layout: Struct) -> int:
    return _end_of_item(view, at, layout.size)


def _end_of_item(view: memoryview, start: int, length: int) -> int:
    if length > len(view) - start:
        raise BadBytes(f"an item needs {length} bytes at {start}, where {len(view) - start} are left")
    return start + length
