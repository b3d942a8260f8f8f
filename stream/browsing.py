"""Looking at messages of a stream without a consumer: from this node's member, or from another node's.

A place is an offset, a time, or an end of the stream (OffsetSpec). A message is shown if it is at or behind the place: with a
time, or the last chunk, from the beginning of that chunk on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Protocol

from broker.browsed import COUNT_MAX, Browsed, bounded
from broker.errors import ResourceExhausted
from broker.pending import Pending
from broker.queue_type import QueueHost
from broker.records import QueueRecord
from broker.stream_contract import AtOffset, OffsetSpec
from native.content import singles
from raft.core.errors import Damaged
from raft.core.messages import NodeId
from replicated.letters import BadLetter
from replicated.ports import QueuePorts
from replicated.reply_timeout import ReplyTimeout
from stream import letters
from stream.letters import Skip
from stream.member import StreamMember


class BrowsedStream(Protocol):
    """What is needed of a stream to look at its messages."""

    record: QueueRecord

    @property
    def group(self) -> int: ...

    @property
    def member(self) -> StreamMember | None: ...

    def member_nodes(self) -> Sequence[NodeId]: ...


def browse(
    stream: BrowsedStream, ports: QueuePorts, host: QueueHost, begin: OffsetSpec | Skip, limit: int, now: int
) -> Pending[list[Browsed]]:
    """As the member here has it, leader or not; else as another one does that can be reached."""
    if stream.member is not None:
        try:
            return Pending.of(browse_member(stream.member, stream.record.name, begin, limit))
        except Damaged as damage:
            ports.groups.damaged(stream.group, damage)
    nodes = [node for node in stream.member_nodes() if node != ports.node and ports.calls.connected(node)]
    refused = ResourceExhausted(f"no node with a member of {stream.record.label} can be asked what is in it")
    if not nodes:
        return Pending.failed(refused)
    waiting: ReplyTimeout[list[Browsed]] = ReplyTimeout(host, now, lambda: refused)
    letter = letters.browse(stream.group, begin, limit)
    ports.calls.ask(nodes[0], ports.topic, letter, partial(_answered, waiting, refused))
    return waiting.answer


def _answered(waiting: ReplyTimeout[list[Browsed]], refused: ResourceExhausted, data: bytes | None) -> None:
    try:
        found = letters.decode_browsed(data) if data is not None else None
    except BadLetter:
        found = None
    if found is None:
        waiting.fail(refused)
    else:
        waiting.resolve(found)


def browse_member(member: StreamMember, stream: str, begin: OffsetSpec | Skip, limit: int) -> list[Browsed]:
    """Raises Damaged."""
    return bounded(_messages(member, stream, _spec(member, begin)), min(limit, COUNT_MAX))


def _spec(member: StreamMember, begin: OffsetSpec | Skip) -> OffsetSpec:
    if isinstance(begin, Skip):
        return AtOffset(member.machine.state.first_offset + begin.messages)
    return begin


def _messages(member: StreamMember, stream: str, spec: OffsetSpec) -> Iterator[Browsed]:
    place = member.places.place_of(spec)
    index = place.entry_index
    while (found := member.reading.next_chunk(index)) is not None:
        for messages in found[1].messages:
            contents = singles(messages.content, 0, messages.message_count)
            for offset, content in enumerate(contents, messages.first_offset):
                if offset >= place.offset:
                    key = messages.key_in(stream)
                    yield Browsed(messages.exchange, key, content, persistent=True, offset=offset)
        index = found[0] + 1
