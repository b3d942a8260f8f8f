"""Where a reader begins, in what this node's member has of the stream."""

from __future__ import annotations

from broker.queues.stream_contract import AtOffset, AtTime, Begin, OffsetSpec
from stream.chunks.chunk import ChunkHeader
from stream.group.chunk_reading import FoundPlace, StreamPlace, StreamReading
from stream.group.machine import StreamMachine


class PlaceFinder:
    """See the module."""

    def __init__(self, machine: StreamMachine, reading: StreamReading) -> None:
        self._machine = machine
        self._reading = reading

    def knows(self, spec: OffsetSpec) -> bool:
        """Whether the place is known here, though there may be more in the stream than this member has."""
        state = self._machine.state
        if isinstance(spec, AtOffset):
            return spec.offset < state.next_offset
        if isinstance(spec, AtTime):
            return bool(state.segments) and spec.time_ms <= state.segments[-1].last_time_ms
        return spec is Begin.FIRST

    def find(self, spec: OffsetSpec) -> FoundPlace:
        """In what this member has. Raises Damaged."""
        place = self.place_of(spec)
        behind_end = place.offset >= self._machine.state.next_offset
        chunk = place.offset if behind_end else self._reading.next_header(place.entry_index)[1].first_offset
        self._find_last_chunk()
        return FoundPlace(place, chunk)

    def place_of(self, spec: OffsetSpec) -> StreamPlace:
        """The same, without the chunk."""
        state = self._machine.state
        if spec is Begin.FIRST and state.segments:
            return StreamPlace(state.segments[0].first_index, state.first_offset)
        if spec is Begin.LAST and state.message_count:
            index, header = self._chunk_with(state.next_offset - 1)
            return StreamPlace(index, header.first_offset)
        if isinstance(spec, AtOffset) and spec.offset < state.next_offset:
            offset = max(spec.offset, state.first_offset)
            return StreamPlace(self._chunk_with(offset)[0], offset)
        if isinstance(spec, AtTime):
            return self._place_at_time(spec.time_ms)
        return StreamPlace(state.applied + 1, state.next_offset)

    def _find_last_chunk(self) -> None:
        """A snapshot does not say which it is."""
        state = self._machine.state
        if state.last_chunk < 0 and state.message_count:
            state.last_chunk = self._chunk_with(state.next_offset - 1)[1].first_offset

    def _chunk_with(self, offset: int) -> tuple[int, ChunkHeader]:
        """The chunk that has this message, which is in the stream."""
        index = self._machine.state.places.at_offset(offset)
        while True:
            index, header = self._reading.next_header(index)
            if offset < header.next_offset:
                return index, header
            index += 1

    def _place_at_time(self, time_ms: int) -> StreamPlace:
        state = self._machine.state
        if state.message_count and time_ms <= state.segments[-1].last_time_ms:
            index = state.places.at_time(time_ms)
            while True:
                index, header = self._reading.next_header(index)
                if header.time_ms >= time_ms:
                    return StreamPlace(index, header.first_offset)
                index += 1
        return StreamPlace(state.applied + 1, state.next_offset)
