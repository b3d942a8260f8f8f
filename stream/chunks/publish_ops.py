"""What a node says to the leader of a stream: messages, to be stored behind all that it has said before. Little endian:

    kind u8: 1 | node u32 | incarnation u64 | sequence u64: of the last message | items u32 | messages u32
    | filter_len u8 | filter, as a chunk has it (stream/chunks/bloom.py)
    | count u16, per part: name size u8 | name | items u32 | messages u32 | bytes u32 | ids u32 | ids u64 each, big endian
    | items as in a chunk (stream/chunks/chunk.py), to the end

Parts are there if a publisher with a name is among them; the others have none. With a name, each item has an id.

A node counts the messages that it has said to a stream, from 1 on in each of its lives. So what is said again is known, and
what is missing is seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from struct import Struct
from typing import NamedTuple

from native.stream_publish import count_items, ids_ascend
from raft.core.byte_reader import ByteReader
from raft.core.errors import BadBytes
from raft.core.messages import NodeId
from replicated.peer_letters import RefusedProposal
from storage.disk import Buffer
from stream.chunks.bloom import FILTER_BYTES_MAX, FILTER_BYTES_MIN
from stream.chunks.chunk import ITEMS_MAX
from stream.chunks.entries import WriterPosition
from stream.chunks.published_parts import PublishedPart
from wire.stream.publish_frame import ID_BYTES

PUBLISH = 1

_HEAD = Struct("<BIQQII")
_PART_COUNT = Struct("<H")
_PART = Struct("<IIII")
_USUAL_HEAD = Struct("<BIQQIIBH")  # all of it, where there is no filter and nobody has a name


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
    data: Sequence[Buffer]  # one piece behind the other
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
    has_names = any(part.reference for part in parts)
    if not chunk_filter and not has_names:
        return _USUAL_HEAD.pack(PUBLISH, *writer, item_count, message_count, 0, 0)
    named = [_part_head(part) for part in parts] if has_names else []
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


def read_publishing(pieces: Sequence[Buffer]) -> Publishing:
    """Of the head and the items of each part, or of one piece that holds all of it. Raises BadBytes."""
    if len(pieces) > 1 and len(pieces[0]) == _USUAL_HEAD.size:
        kind, node, incarnation, sequence, items, messages, filter_bytes, names = _USUAL_HEAD.unpack(pieces[0])
        if (kind, filter_bytes, names) == (PUBLISH, 0, 0):
            return Publishing(WriterPosition(node, incarnation, sequence), items, messages, pieces[1:])
    reader = ByteReader(pieces[0])
    kind, node, incarnation, sequence, items, messages = reader.fields(_HEAD)
    if kind != PUBLISH:
        raise BadBytes(f"a node wants a stream to do {kind}")
    chunk_filter = reader.take(reader.u8())
    heads = [_read_part(reader) for _ in range(reader.u16())]
    data = tuple(pieces[1:]) or (memoryview(pieces[0])[reader.at :],)
    writer = WriterPosition(node, incarnation, sequence)
    return Publishing(writer, items, messages, data, chunk_filter, tuple(_parts(heads, data)) if heads else ())


def _read_part(reader: ByteReader) -> tuple[str, int, int, int, bytes]:
    try:
        name = reader.take(reader.u8()).decode()
    except UnicodeDecodeError as error:
        raise BadBytes(f"a publisher's name before {reader.at} is not UTF-8: {error}") from error
    items, messages, size, ids = reader.fields(_PART)
    return name, items, messages, size, reader.take(ids * ID_BYTES)


def _parts(heads: Sequence[tuple[str, int, int, int, bytes]], data: Sequence[Buffer]) -> Iterator[NamedPart]:
    sizes = [size for _, _, _, size, _ in heads]
    for (name, items, messages, _, ids), piece in zip(heads, _cut(data, sizes), strict=True):
        yield NamedPart(name, items, messages, piece, ids)


def _cut(data: Sequence[Buffer], sizes: Sequence[int]) -> Sequence[Buffer]:
    """Into pieces of these sizes, unless it is."""
    if [len(piece) for piece in data] == sizes:
        return data
    view = memoryview(b"".join(data))
    if sum(sizes) != len(view):
        raise BadBytes(f"the parts of {len(view)} bytes have {sum(sizes)}")
    return [view[end - size : end] for size, end in zip(sizes, accumulate(sizes), strict=True)]


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
    parts = said.parts or [NamedPart("", said.item_count, said.message_count, b"".join(said.data), b"")]
    found = [sum([part.item_count for part in parts]), sum([part.message_count for part in parts])]
    if found != [said.item_count, said.message_count]:
        raise BadBytes(
            f"{said.item_count} items with {said.message_count} messages are announced, and there are {found}"
        )
    sub_batches = sum([_sub_batches_of_sound(part) for part in parts])
    if sub_batches not in (0, said.item_count):
        raise BadBytes(f"{said.item_count} items for one chunk, and {sub_batches} of them are sub-batches")


def _sub_batches_of_sound(part: NamedPart) -> int:
    """How many it has."""
    try:
        items, messages, sub_batches = count_items(part.data)
    except ValueError as error:
        raise BadBytes(str(error)) from error
    if not 0 < part.item_count == items or messages != part.message_count:
        announced = f"{part.item_count} items with {part.message_count} messages"
        raise BadBytes(f"{items} items with {messages} messages, where {announced} are announced")
    ids = len(part.ids) // ID_BYTES
    if ids != (part.item_count if part.name else 0) or not ids_ascend(part.ids):
        raise BadBytes(f"{part.item_count} items of publisher {part.name!r} have {ids} ids, or they do not ascend")
    return sub_batches
