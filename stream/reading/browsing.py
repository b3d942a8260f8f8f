"""Looking at messages of a stream without a consumer: from this node's member, or from another node's.

A place is an offset, a time, or an end of the stream (OffsetSpec). A message is shown if it is at or behind the place: with a
time, or the last chunk, from the beginning of that chunk on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from broker.messages.browsed import COUNT_MAX, Browsed, bounded
from broker.pending import Pending
from broker.queues.queue_type import QueueHost
from broker.queues.stream_contract import AtOffset, OffsetSpec
from native.content import singles
from replicated.ports import QueuePorts
from replicated.remote_browsing import BrowsedQueue, browse_somewhere
from stream.group.chunk_reading import ReadChunk, StillTakenApart, StreamReading
from stream.group.member import StreamMember
from stream.reading import letters
from stream.reading.letters import Skip


def browse(
    stream: BrowsedQueue[StreamMember],
    ports: QueuePorts,
    host: QueueHost,
    begin: OffsetSpec | Skip,
    limit: int,
    now: int,
) -> Pending[list[Browsed]]:
    return browse_somewhere(
        stream,
        ports,
        host,
        now,
        here=lambda member: browse_member(member, stream.record.name, begin, limit),
        letter=lambda: letters.browse(stream.group, begin, limit),
        decode=letters.decode_browsed,
    )


def browse_member(member: StreamMember, stream: str, begin: OffsetSpec | Skip, limit: int) -> list[Browsed]:
    """Raises Damaged."""
    return bounded(_messages(member, stream, _spec(member, begin)), min(limit, COUNT_MAX))


def _spec(member: StreamMember, begin: OffsetSpec | Skip) -> OffsetSpec:
    if isinstance(begin, Skip):
        return AtOffset(member.machine.state.first_offset + begin.messages)
    return begin


def _next_chunk(reading: StreamReading, index: int) -> tuple[int, ReadChunk] | None:
    while True:
        with suppress(StillTakenApart):
            return reading.next_chunk(index)


def _messages(member: StreamMember, stream: str, spec: OffsetSpec) -> Iterator[Browsed]:
    place = member.places.place_of(spec)
    index = place.entry_index
    while (found := _next_chunk(member.reading, index)) is not None:
        for messages in found[1].messages:
            contents = singles(messages.content, 0, messages.message_count)
            for offset, content in enumerate(contents, messages.first_offset):
                if offset >= place.offset:
                    key = messages.key_in(stream)
                    yield Browsed(messages.exchange, key, content, persistent=True, offset=offset)
        index = found[0] + 1
