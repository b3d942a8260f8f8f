"""What a node says to the leader of a stream: messages, to be stored behind all that it has said before. Little endian:

    kind u8: 1 | node u32 | incarnation u64 | sequence u64: of the last message | items u32 | messages u32
    | filter_len u8 | filter, as a chunk has it (stream/bloom.py)
    | count u16, per part: name size u8 | name | items u32 | messages u32 | bytes u32 | ids u32 | ids u64 each, big endian
    | items as in a chunk (stream/chunk.py), to the end

Parts are there if a publisher with a name is among them; the others have none. With a name, each item has an id.

A node counts the messages that it has said to a stream, from 1 on in each of its lives. So what is said again is known, and
what is missing is seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from struct import Struct
from typing import NamedTuple

from raft.core.byte_reader import ByteReader
from raft.core.errors import BadBytes
from raft.core.messages import NodeId
from replicated.peer_letters import RefusedProposal
from storage.disk import Buffer
from stream.bloom import FILTER_BYTES_MAX, FILTER_BYTES_MIN
from stream.chunk import ITEMS_MAX, SubBatch, items_in
from stream.entries import WriterPosition
from stream.published_parts import PublishedPart
from wire.stream.publish_frame import ID_BYTES, unpack_ids

PUBLISH = 1

_HEAD = Struct("<BIQQII")
_PART_COUNT = Struct("<H")
_PART = Struct("<IIII")


class NamedPart(NamedTuple):
    """Consecutive items of one publisher."""

    name: str  # empty: it has none
    item_count: int
    message_count: int
    data: Buffer
    ids: bytes  # of its items; none without a name


class Publishing(NamedTuple):
    """Messages of one node."""

    writer: WriterPosition
    item_count: int
    message_count: int
    data: Buffer
    chunk_filter: bytes = b""
    parts: Sequence[NamedPart] = ()  # of the data together; none if nobody has a name


def publish_head(
    writer: WriterPosition,
    item_count: int,
    message_count: int,
    chunk_filter: bytes = b"",
    parts: Sequence[PublishedPart] = (),
) -> bytes:
    """What stands before the items."""
    named = [_part_head(part) for part in parts] if any(part.reference for part in parts) else []
    return b"".join(
        (
            _HEAD.pack(PUBLISH, *writer, item_count, message_count),
            bytes((len(chunk_filter),)),
            chunk_filter,
            _PART_COUNT.pack(len(named)),
            *named,
        )
    )


def _part_head(part: PublishedPart) -> bytes:
    name = part.reference.encode()
    numbers = _PART.pack(part.item_count, part.message_count, len(part.items), len(part.ids) // ID_BYTES)
    return b"".join((bytes((len(name),)), name, numbers, part.ids))


def read_publishing(parts: Sequence[Buffer]) -> Publishing:
    """Of these bytes, one part behind the other. Raises BadBytes."""
    data = memoryview(parts[0] if len(parts) == 1 else b"".join(parts))
    reader = ByteReader(data)
    kind, node, incarnation, sequence, items, messages = reader.fields(_HEAD)
    if kind != PUBLISH:
        raise BadBytes(f"a node wants a stream to do {kind}")
    chunk_filter = reader.take(reader.u8())
    heads = [_read_part(reader) for _ in range(reader.u16())]
    data = data[reader.at :]
    writer = WriterPosition(node, incarnation, sequence)
    return Publishing(writer, items, messages, data, chunk_filter, tuple(_parts(heads, data)))


def _read_part(reader: ByteReader) -> tuple[str, int, int, int, bytes]:
    try:
        name = reader.take(reader.u8()).decode()
    except UnicodeDecodeError as error:
        raise BadBytes(f"a publisher's name before {reader.at} is not UTF-8: {error}") from error
    items, messages, size, ids = reader.fields(_PART)
    return name, items, messages, size, reader.take(ids * ID_BYTES)


def _parts(heads: Sequence[tuple[str, int, int, int, bytes]], data: memoryview) -> Iterator[NamedPart]:
    at = 0
    for name, items, messages, size, ids in heads:
        yield NamedPart(name, items, messages, data[at : at + size], ids)
        at += size
    if heads and at != len(data):
        raise BadBytes(f"the parts of {len(data)} bytes have {at}")


def check_publishing(letter: bytes, at: int, node: NodeId) -> None:
    """What another node says is whole, sound, and its own to say. Raises RefusedProposal."""
    try:
        said = read_publishing((memoryview(letter)[at:],))
        _must_be_sound(said)
    except BadBytes as error:
        raise RefusedProposal(f"what is to be published: {error}") from error
    if said.writer.node != node:
        raise RefusedProposal(f"node {node} speaks for node {said.writer.node}")


def _must_be_sound(said: Publishing) -> None:
    if not 0 < said.item_count <= min(ITEMS_MAX, said.message_count):
        raise BadBytes(f"{said.item_count} items with {said.message_count} messages make no chunk")
    if said.writer.sequence < said.message_count:
        raise BadBytes(f"{said.message_count} messages up to number {said.writer.sequence}")
    if said.chunk_filter and not FILTER_BYTES_MIN <= len(said.chunk_filter) <= FILTER_BYTES_MAX:
        raise BadBytes(f"a filter of {len(said.chunk_filter)} bytes")
    parts = said.parts or [NamedPart("", said.item_count, said.message_count, said.data, b"")]
    found = [sum([part.item_count for part in parts]), sum([part.message_count for part in parts])]
    if found != [said.item_count, said.message_count]:
        raise BadBytes(
            f"{said.item_count} items with {said.message_count} messages are announced, and there are {found}"
        )
    for part in parts:
        _part_must_be_sound(part, alone=said.item_count == 1)


def _part_must_be_sound(part: NamedPart, *, alone: bool) -> None:
    messages = 0
    for item in items_in(part.data, part.item_count):
        if isinstance(item, SubBatch) and not alone:
            raise BadBytes("a sub-batch with other items")
        messages += item.message_count if isinstance(item, SubBatch) else 1
    if not 0 < part.item_count <= messages == part.message_count:
        raise BadBytes(f"{part.item_count} items have {messages} messages, where {part.message_count} are announced")
    ids = unpack_ids(part.ids)
    if len(ids) != (part.item_count if part.name else 0) or any(one >= other for one, other in pairwise(ids)):
        raise BadBytes(f"{part.item_count} items of publisher {part.name!r} have {len(ids)} ids that do not ascend")
