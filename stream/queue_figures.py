"""What a stream shows of itself: its statistics for clients and the management API, its state for operators and metrics."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from broker.queues.queue_type import QueueStatistics
from broker.queues.stream_contract import StreamFigures, StreamTracking
from replicated.leader_route import LeaderRoute
from replicated.letters import MemberReport
from replicated.member import MemberLife
from stream.group.leading import StreamLeading
from stream.group.member import StreamMember
from stream.reading.far_count import FarCount
from stream.reading.readers import StreamEnd, StreamReaders

READERS_TOLD_MAX = 1_000  # of those on this node, to other nodes: some 100 KB


class ReadingFigures(NamedTuple):
    """What metrics tell of one stream on this node."""

    segments: int
    readers: int
    bytes_sent: int
    lag: int  # messages, of the reader that is furthest behind


class ShownStream(Protocol):
    """What is shown of a stream."""

    member: StreamMember | None
    member_life: MemberLife
    leading: StreamLeading | None
    quarantined: str | None
    readers: StreamReaders
    far_count: FarCount

    @property
    def group(self) -> int: ...

    @property
    def route(self) -> LeaderRoute: ...

    @property
    def ready_count(self) -> int: ...

    @property
    def end(self) -> StreamEnd: ...


def fill_in_sizes(found: QueueStatistics, stream: ShownStream) -> QueueStatistics:
    member = stream.member
    found.consumers = len(stream.readers)
    found.state = stream.route.shown_state()
    found.ready_bytes = stream.far_count.bytes if member is None else member.machine.state.size
    found.persistent, found.persistent_bytes = found.ready, found.ready_bytes
    if member is not None:
        found.disk_reads = member.reading.reads
    return found


def report(stream: ShownStream) -> MemberReport | None:
    """For a node without a member; None: nor has this one. Readers are of their nodes."""
    if stream.member is None:
        return None
    state = stream.member.machine.state
    return MemberReport(stream.group, stream.route.leader(), state.applied, state.message_count, state.size)


def details(stream: ShownStream) -> dict[str, Any]:
    """Offsets as the stream has them, and how far its readers on this node are behind."""
    if stream.member is None:
        return {"readers": stream.readers.details(stream.end)} if stream.readers else {}
    state = stream.member.machine.state
    first = state.segments[0] if state.segments else None
    return {
        "first_offset": state.first_offset,
        "first_timestamp": state.places.first_time_ms,
        "committed_offset": state.next_offset - 1,
        "committed_chunk_id": state.last_chunk,
        "first_segment_until_ms": first.last_time_ms if first is not None else 0,
        "segments": len(state.segments),
        "readers": stream.readers.details(stream.end),
    }


def reading_figures(stream: ShownStream) -> ReadingFigures:
    """Of this node."""
    readers = stream.readers
    segments = len(stream.member.machine.state.segments) if stream.member is not None else 0
    return ReadingFigures(segments, len(readers), readers.bytes_sent, readers.lag(stream.end.offset))


def for_operators(stream: ShownStream) -> dict[str, Any]:
    """In JSON's types; replicated/administration.py adds the group."""
    found: dict[str, Any] = {"readers": len(stream.readers), "life": stream.member_life.value}
    if stream.member is not None:
        state = stream.member.machine.state
        found["machine"] = {
            "version": state.version, "applied": state.applied, "digest": state.digest,
            "first_offset": state.first_offset, "committed_offset": state.next_offset - 1,
            "segments": len(state.segments), "bytes": state.size,
        }  # fmt: skip
        found["reading"] = stream.readers.details(stream.end)[:READERS_TOLD_MAX]
    if stream.quarantined is not None:
        found["quarantined"] = stream.quarantined
    if stream.leading is not None and (odd := stream.leading.group.comparison.diverged) is not None:
        found["diverged"] = {"nodes": list(odd.nodes), "index": odd.at}
    return found


def stream_figures(stream: ShownStream) -> StreamFigures:
    if stream.member is None or not stream.ready_count:
        return StreamFigures(-1, -1, -1)
    state = stream.member.machine.state
    return StreamFigures(state.first_offset, stream.member.reading.last_chunk(), state.next_offset - 1)


def tracking_of(member: StreamMember) -> StreamTracking:
    state = member.machine.state
    return StreamTracking(
        {name: known.last_id for name, known in state.publishers.items()},
        {name: known.offset for name, known in state.stored.items()},
    )
