"""What a node says to the leader of a stream: messages, to be stored behind all that it has said before. Little endian:

    kind u8: 1 | node u32 | incarnation u64 | sequence u64: of the last message | items u32 | messages u32
    | items as in a chunk (stream/chunk.py), to the end

A node counts the messages that it has said to a stream, from 1 on in each of its lives. So what is said again is known, and
what is missing is seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from raft.core.errors import BadBytes
from raft.core.messages import NodeId
from replicated.peer_letters import RefusedProposal
from storage.disk import Buffer
from stream.chunk import ITEMS_MAX, SubBatch, items_in
from stream.entries import WriterPosition

PUBLISH = 1

_HEAD = Struct("<BIQQII")


class Publishing(NamedTuple):
    """Messages of one node."""

    writer: WriterPosition
    item_count: int
    message_count: int
    data: Buffer


def publish_head(writer: WriterPosition, item_count: int, message_count: int) -> bytes:
    """What stands before the items."""
    return _HEAD.pack(PUBLISH, *writer, item_count, message_count)


def read_publishing(parts: Sequence[Buffer]) -> Publishing:
    """Of these bytes, one part behind the other. Raises BadBytes."""
    data = memoryview(parts[0] if len(parts) == 1 else b"".join(parts))
    if len(data) < _HEAD.size:
        raise BadBytes(f"{len(data)} bytes publish nothing")
    kind, node, incarnation, sequence, items, messages = _HEAD.unpack_from(data)
    if kind != PUBLISH:
        raise BadBytes(f"a node wants a stream to do {kind}")
    return Publishing(WriterPosition(node, incarnation, sequence), items, messages, data[_HEAD.size :])


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
    items = items_in(said.data, said.item_count)
    messages = sum([item.message_count if isinstance(item, SubBatch) else 1 for item in items])
    if messages != said.message_count:
        raise BadBytes(f"{said.message_count} messages are announced, and there are {messages}")
