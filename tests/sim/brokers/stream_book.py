"""What a stream must be by its log: a dumb twin of its machine, told of every committed entry.

The twin keeps every message that was ever stored, at its offset, whether retention has removed it or not: so it can say of any
delivery whether it is right. What each entry results in is compared with what every member makes of it (machines.py), and
readers are judged in stream_reading.py.

    stored      each publish once, each channel's in its order, nothing that is not committed by its publisher
    retention   takes whole old segments, no more of them than a limit asks for that was in force at some time
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from native.content import messages
from raft.core.messages import Entry
from storage.disk import Buffer
from stream.chunks.chunk import CHUNK_HEADER_BYTES
from stream.chunks.entries import (
    AllKnown,
    ChunkEntry,
    RetentionCut,
    StoredOffsets,
    WriterPosition,
    decode,
    read_prefix,
)
from stream.group.machine import StreamMachine, Written
from stream.group.rules import StreamRules
from tests.chunk_messages import stream_messages
from tests.raft_node.register import ReadEntry
from tests.sim.brokers import invariants
from tests.sim.brokers.invariants import About

Writer = tuple[int, int, int]  # node, incarnation, sequence
NAMED = b"name-"  # names of publishers begin with this
PLACES = 10  # messages under one id are numbered within it: its number is the id times this, and the place
FILTERED = b"f"  # a message may say in its third field by what value it is filtered


class StoredChunk(NamedTuple):
    """One that counts."""

    index: int
    first_offset: int
    end: int
    time_ms: int
    size: int
    data: bytes  # of its entry
    values: frozenset[bytes | None]  # of its messages, to filter by

    @property
    def chunk(self) -> bytes:
        """As readers of chunks get it."""
        return self.data[read_prefix(self.data)[2] - CHUNK_HEADER_BYTES :]


@dataclass(slots=True)
class Segment:
    """What retention removes as one."""

    first_offset: int
    size: int = 0
    last_time_ms: int = 0


@dataclass
class StreamBook:
    """One stream's. Fulfils tests.sim.references.Reference."""

    label: str
    about: About
    is_committed: Callable[[bytes], bool]  # whether the publisher of this body has published it for good
    count: Callable[[str], None]
    bodies: dict[bytes, int] = field(default_factory=dict)  # and the offset of each
    messages: list[bytes] = field(default_factory=list)  # by offset
    chunks: list[StoredChunk] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    firsts: list[int] = field(default_factory=lambda: [0])  # offsets that the stream began with, the present one last
    results: dict[int, Written] = field(default_factory=dict)  # by entry
    figures: dict[int, tuple[Any, ...]] = field(default_factory=dict)  # behind it
    last_ids: dict[str, int] = field(default_factory=dict)  # of publishers with names, by what is in the stream
    stored: dict[str, int] = field(default_factory=dict)  # offsets that readers have stored under their names
    told: int = 0  # clients have been told of all messages below this offset, or read them
    rules: list[StreamRules] = field(default_factory=list)  # that were in force, the present ones last
    is_read_before: Callable[[int], bool] = lambda _: False  # whether somebody reads what lies before this offset
    _writers: dict[int, Writer] = field(default_factory=dict)
    _lanes: dict[bytes, int] = field(default_factory=dict)
    _begins_segment: bool = True
    _time_ms: int = 0

    @property
    def first(self) -> int:
        return self.firsts[-1]

    @property
    def end(self) -> int:
        return len(self.messages)

    @property
    def kept(self) -> list[StoredChunk]:
        return [chunk for chunk in self.chunks if chunk.first_offset >= self.first]

    def follow(self, rules: StreamRules) -> None:
        """These are in force from now on, as far as nodes have heard of it."""
        if not self.rules or self.rules[-1] != rules:
            self.rules.append(rules)

    def told_of(self, offset: int) -> None:
        self.told = max(self.told, offset + 1)

    # Reference

    def apply(self, entry: Entry) -> str | None:
        said = decode(entry.data)
        result = Written.DONE
        if isinstance(said, ChunkEntry):
            result = self._take(entry, said)
        elif isinstance(said, AllKnown):
            result = self._take_nothing(said)
        else:
            self._time_ms = max(self._time_ms, said.time_ms)
            if isinstance(said, RetentionCut):
                self._cut(said)
            elif isinstance(said, StoredOffsets):
                self.stored |= dict(said.offsets)
            self._begins_segment = self._begins_segment or said.ends_segment
        self.results[entry.index] = result
        self.figures[entry.index] = figures_of(self.first, self.end, self.segments, self.last_ids, self.stored)
        return None

    def digest(self) -> str | None:
        return digest_of(StreamMachine())

    def stands_on(self, index: int, state: Sequence[Buffer]) -> int:
        return index

    def of_snapshot(self, version: int, state: Sequence[Buffer]) -> str:
        return _digest(state)

    def replayed(self, snapshot: tuple[bytes, int] | None, entries: Sequence[Entry], read_entry: ReadEntry) -> str:
        machine = StreamMachine()
        if snapshot is not None:
            machine.restore(*snapshot)
        for entry in entries:
            machine.apply(entry.index, entry.data)
        return digest_of(machine)

    # Entries

    def _take(self, entry: Entry, said: ChunkEntry) -> Written:
        header = said.header
        result = self._follows(said.writers, header.message_count + said.known_messages, header.first_offset)
        if result is Written.DONE and header.time_ms < self._time_ms:
            result = Written.OUT_OF_PLACE
        if result is Written.OUT_OF_PLACE:
            self.count("chunk is out of place")
        if result is Written.DONE:
            self._writers |= {writer.node: tuple(writer) for writer in said.writers}
            self._store(entry, said)
            if said.known_messages:
                self.count("part of a stream publish was known")
        return result

    def _take_nothing(self, said: AllKnown) -> Written:
        """A node has said what is in the stream already."""
        result = self._follows((said.writer,), said.message_count, said.next_offset)
        if result is Written.DONE:
            self.count("all of a stream publish was known")
            self._writers[said.writer.node] = tuple(said.writer)
            self._time_ms = max(self._time_ms, said.time_ms)
        return result

    def _follows(self, writers: Sequence[WriterPosition], message_count: int, offset: int) -> Written:
        """Whether this comes next, of these writers and in the stream."""
        for node, incarnation, sequence in writers:
            of, before = self._writers.get(node, (node, 0, 0))[1:]
            if (of, before) >= (incarnation, sequence):
                self.count("stream publish was said again")
                return Written.KNOWN
            if sequence != (before if of == incarnation else 0) + message_count:
                return Written.OUT_OF_PLACE
        return Written.DONE if offset == self.end else Written.OUT_OF_PLACE

    def _store(self, entry: Entry, said: ChunkEntry) -> None:
        header, data = said.header, memoryview(said.chunk)[CHUNK_HEADER_BYTES:]
        for alike in stream_messages(data, header.item_count, header.first_offset):
            assert alike.first_offset == self.end, f"{alike.first_offset} comes behind {self.end} in {self.label}"
            for _, body in messages(alike.content, 0, alike.message_count):
                self._keep(bytes(body))
        assert self.end == header.next_offset, f"a chunk up to {header.next_offset} has messages up to {self.end}"
        if self._begins_segment:
            self.segments.append(Segment(header.first_offset))
        segment = self.segments[-1]
        segment.size += header.size
        segment.last_time_ms = self._time_ms = header.time_ms
        self._begins_segment = said.ends_segment
        values = frozenset([filter_value_of(body) for body in self.messages[header.first_offset :]])
        self.chunks.append(
            StoredChunk(
                entry.index,
                header.first_offset,
                header.next_offset,
                header.time_ms,
                header.size,
                bytes(entry.data),
                values,
            )
        )
        if header.message_count > header.item_count:
            self.count("sub-batch stored")

    def _keep(self, body: bytes) -> None:
        invariants.stored_once_in_a_queue(self.about, body, body in self.bodies)
        invariants.uncommitted_is_nowhere(self.about, body, self.is_committed(body))
        publisher, number, _ = body.split(b":", 2)
        invariants.channels_keep_their_order(self.about, publisher, self._lanes.get(publisher, 0), int(number))
        self._lanes[publisher] = int(number)
        if NAMED in publisher:
            self.last_ids[publisher.decode()] = int(number) // PLACES
        self.bodies[body] = self.end
        self.messages.append(body)

    def _cut(self, said: RetentionCut) -> None:
        """Whole segments go that lie before an offset, and the last one stays."""
        gone = [before for before, after in zip(self.segments, self.segments[1:], strict=False)
                if after.first_offset <= said.first_offset]  # fmt: skip
        for segment in gone:
            size = sum(one.size for one in self.segments)
            asked = [rules for rules in self.rules if _asks_for_it(rules, size, segment, said.time_ms)]
            invariants.retention_takes_what_is_too_much(self.about, segment.first_offset, size, self.rules, bool(asked))
            self.segments.remove(segment)
        if gone:
            self.count("stream cut by retention")
            self.firsts.append(self.segments[0].first_offset)
            if self.is_read_before(self.first):
                self.count("stream cut before a reader")

    # In the end

    def is_too_much(self, now_ms: int) -> bool:
        """Whether retention should have removed more."""
        size = sum(segment.size for segment in self.segments)
        return len(self.segments) > 1 and _asks_for_it(self.rules[-1], size, self.segments[0], now_ms)


def _asks_for_it(rules: StreamRules, size: int, oldest: Segment, now_ms: int) -> bool:
    """Whether a stream of this size must do without its oldest segment."""
    too_long = rules.max_length_bytes is not None and size > rules.max_length_bytes
    return too_long or (rules.max_age_ms is not None and oldest.last_time_ms < now_ms - rules.max_age_ms)


def filter_value_of(body: bytes) -> bytes | None:
    value = body.split(b":", 3)[2]
    return value if value.startswith(FILTERED) else None


def figures_of(
    first: int, end: int, segments: Sequence[Any], last_ids: Mapping[str, int], stored: Mapping[str, int]
) -> tuple[Any, ...]:
    """Names in whatever order."""
    spans = [(segment.first_offset, segment.size, segment.last_time_ms) for segment in segments]
    return first, end, *spans, *sorted(last_ids.items()), *sorted(stored.items())


def digest_of(machine: StreamMachine) -> str:
    return _digest(machine.snapshot())


def _digest(state: Sequence[Buffer]) -> str:
    return hashlib.blake2b(b"".join(state), digest_size=16).hexdigest()
