"""A stream's log, given to the machine that its members run: which chunks count, what retention has cut, who has stored what.

The machine passes over a chunk that is out of its place, and its writer says it again: not every chunk of the log counts. What
no leader writes is told as `wrong`: an offset that is given again, a publisher with a name whose number does not go up, a
snapshot that was made of something else than the entries before it.

Compaction takes away entries that do not count any more, so below a snapshot a log has gaps. The snapshot says which entries
still count: their chunks are kept, and messages whose chunk is in no file are told as one without an entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import NamedTuple

from analytics.fold.folded_history import QueueHistory
from analytics.fold.lives import PUBLISHED, Life, LifeState, LifeStep, PublishedRun
from analytics.fold.merged_log import MergedLog
from analytics.queue_events import QueueEvent
from raft.core.errors import BadBytes
from raft.core.messages import EntryKind
from stream.chunks.chunk import ChunkHeader
from stream.chunks.entries import ChunkEntry, LogEntry, RetentionCut, StoredOffsets, decode
from stream.group.machine import StreamMachine, Written
from stream.group.stream_state import StreamState, decode_state

NO_ENTRY = 0


@dataclass(slots=True)
class ToldChunk:
    """Messages that were stored together, and what became of them: retention and deletion take a chunk as a whole."""

    first_offset: int
    messages: int
    entry: int = NO_ENTRY  # its index in the log; NO_ENTRY: no file that was read has it
    term: int = 0
    size: int = 0
    time_ms: int | None = None
    publishers: tuple[tuple[str, int], ...] = ()  # those with a name: their last numbers in it
    state: LifeState = LifeState.KEPT
    ended_at: int | None = None  # ms
    told_at: int = 0  # the last entry that says something of it

    @property
    def next_offset(self) -> int:
        return self.first_offset + self.messages

    def end(self, state: LifeState, at: int | None, entry: int) -> None:
        if not self.state.has_ended:
            self.state, self.ended_at, self.told_at = state, at, entry

    def life(self) -> Life:
        publish = PublishedRun(self.time_ms, self.messages, self.size)
        is_partial = self.entry == NO_ENTRY
        return Life(
            self.first_offset, 0, 0, self.messages, publish, is_partial, self.state, ended_at=self.ended_at,
            told_at=self.told_at,
        )  # fmt: skip

    def steps(self) -> list[LifeStep]:
        steps = []
        if self.entry != NO_ENTRY:
            steps.append(LifeStep(self.first_offset, 0, 0, self.messages, PUBLISHED, self.time_ms))
        if self.state.has_ended:
            steps.append(LifeStep(self.first_offset, 0, 0, self.messages, self.state, self.ended_at))
        return steps


class StoredAt(NamedTuple):
    """What a reader has stored under its reference."""

    offset: int
    time_ms: int
    went_back: int = 0  # how often it was less than before: a reader may want that


class StreamLog:
    """See the module. Fulfils EntriesFold; give it events by `take`, in the order of MergedLog, and `end` it."""

    def __init__(self) -> None:
        self.chunks: list[ToldChunk] = []  # by offset
        self.cuts = 0  # entries by which retention has removed something
        self.stored: dict[str, StoredAt] = {}
        self.unknown: str | None = None  # why something is not known; None: all is
        self.wrong: list[str] = []  # what no leader writes
        self.machine = StreamMachine()
        self._log = MergedLog(self)
        self._first_kept = 0  # of `chunks`
        self._unjudged: list[ToldChunk] = []  # behind a gap: a snapshot will say which of them count
        self._ahead: ChunkHeader | None = None  # the last chunk, if something before it is missing
        self._lost: str | None = None
        self.take = self._log.take

    @property
    def committed(self) -> int:
        return self._log.copies.committed

    @property
    def unread_members(self) -> int | None:
        """None: nothing that was read says who the members are."""
        return self._log.copies.unread_voters()

    def end(self, *, is_whole: bool = False) -> None:
        """`is_whole`: as of a MergedLog."""
        self._log.end(is_whole=is_whole)
        if self._lost is not None:
            self._end_unjudged()
        elif self._ahead is not None:
            self.unknown = f"the chunk at offset {self._ahead.first_offset} does not follow on what is before it"
        self.unknown = self._lost or self.unknown

    def history(self) -> QueueHistory:
        """Once it has ended: the same as of queues of other kinds."""
        return QueueHistory(
            lives=[chunk.life() for chunk in self.chunks],
            steps=[step for chunk in self.chunks for step in chunk.steps()],
            unknown=next(iter(self.wrong), self.unknown),
            committed=self.committed,
        )

    # EntriesFold

    def apply(self, event: QueueEvent) -> None:
        try:
            entry = decode(event.data)
        except BadBytes as error:
            raise ValueError(str(error)) from error
        if isinstance(entry, ChunkEntry):
            self._apply_chunk(event, entry)
        elif self.machine.apply(event.place, event.data) is Written.DONE:
            self._take_other(event.place, entry)

    def resume(self, place: int, state: bytes, version: int) -> Callable[[], None]:
        machine = StreamMachine()
        machine.restore(state, version)
        return partial(self._resume, place, machine)

    def check(self, place: int, state: bytes) -> None:
        try:
            theirs, _ = decode_state(state)
        except BadBytes:
            return
        ours = self.machine.state
        if theirs.first_offset > ours.first_offset:
            self.wrong.append(
                f"the snapshot of entry {place} begins with offset {theirs.first_offset}, and no entry has cut"
                f" the messages from offset {ours.first_offset} on"
            )
        elif theirs.next_offset != ours.next_offset:
            self.wrong.append(
                f"the snapshot of entry {place} has messages up to offset {theirs.next_offset}, the log up to"
                f" {ours.next_offset}"
            )
        elif theirs.digest != ours.digest:
            self.wrong.append(f"the snapshot of entry {place} was made of other entries than the log has")

    def lose(self, why: str) -> None:
        self._lost = self._lost or why
        self._ahead = None

    def pass_over(self, event: QueueEvent) -> None:
        if event.first != EntryKind.COMMAND:
            return
        try:
            entry = decode(event.data)
        except BadBytes:
            return
        if isinstance(entry, ChunkEntry):
            self._unjudged.append(_told(event, entry))
        elif isinstance(entry, StoredOffsets):
            self._store(entry)

    def remove(self, at: int | None) -> None:
        for chunk in self.chunks:
            chunk.end(LifeState.DELETED, at, 0)

    # entries

    def _apply_chunk(self, event: QueueEvent, entry: ChunkEntry) -> None:
        header, state = entry.header, self.machine.state
        next_offset = state.next_offset
        known = {name: state.publisher_id(name) for name, _ in entry.publishers if name in state.publishers}
        written = self.machine.apply(event.place, event.data)
        if written is Written.DONE:
            self._ahead = None
            self.chunks.append(_told(event, entry))
            self._compare_numbers(event.place, entry, known)
        elif written is Written.OUT_OF_PLACE and header.first_offset < next_offset:
            self.wrong.append(f"entry {event.place} gives offset {header.first_offset} again")
        elif written is Written.OUT_OF_PLACE:
            self._ahead = header

    def _compare_numbers(self, place: int, entry: ChunkEntry, known: Mapping[str, int]) -> None:
        for name, last_id in entry.publishers:
            if last_id <= known.get(name, -1):
                self.wrong.append(
                    f"publisher {name!r} goes back from number {known[name]} to {last_id} at entry {place}"
                )

    def _take_other(self, place: int, entry: LogEntry) -> None:
        if isinstance(entry, StoredOffsets):
            self._store(entry)
        elif isinstance(entry, RetentionCut):
            self.cuts += self._cut(self.machine.state.first_offset, entry.time_ms, place)

    def _store(self, entry: StoredOffsets) -> None:
        for name, offset in entry.offsets:
            before = self.stored.get(name, StoredAt(offset, 0))
            went_back = before.went_back + (offset < before.offset)
            self.stored[name] = StoredAt(offset, entry.time_ms, went_back)

    def _cut(self, first_offset: int, at: int | None, place: int) -> bool:
        """Whether that was anything."""
        start = self._first_kept
        while self._first_kept < len(self.chunks) and self.chunks[self._first_kept].first_offset < first_offset:
            self._divide(self._first_kept, first_offset)
            self.chunks[self._first_kept].end(LifeState.CUT, at, place)
            self._first_kept += 1
        return self._first_kept > start

    def _divide(self, number: int, offset: int) -> None:
        """A chunk is cut as a whole. What has no entry may be several."""
        chunk = self.chunks[number]
        if chunk.first_offset < offset < chunk.next_offset:
            behind = replace(chunk, first_offset=offset, messages=chunk.next_offset - offset)
            chunk.messages = offset - chunk.first_offset
            self.chunks.insert(number + 1, behind)

    # gaps

    def _resume(self, place: int, machine: StreamMachine) -> None:
        """The snapshot says what counts of all that was read before it."""
        state = machine.state
        known = [chunk for chunk in self.chunks if chunk.first_offset < state.next_offset]
        found = [chunk for chunk in self._unjudged if _is_kept(chunk, state) or chunk.next_offset <= state.first_offset]
        self.chunks = _without_holes([*known, *found], state.next_offset)
        self._unjudged, self._first_kept, self._lost = [], 0, None
        self.machine = machine
        self._cut(state.first_offset, None, place)
        backs = {name: one.went_back for name, one in self.stored.items()}
        self.stored |= {name: StoredAt(*one, backs.get(name, 0)) for name, one in state.stored.items()}

    def _end_unjudged(self) -> None:
        """No snapshot came."""
        end = max((chunk.next_offset for chunk in (*self.chunks, *self._unjudged)), default=0)
        self.chunks = _without_holes([*self.chunks, *self._unjudged], end)
        for chunk in self.chunks:
            chunk.end(LifeState.UNKNOWN, None, chunk.told_at)


def _told(event: QueueEvent, entry: ChunkEntry) -> ToldChunk:
    header = entry.header
    return ToldChunk(
        header.first_offset, header.message_count, event.place, event.term, header.size, header.time_ms,
        tuple(entry.publishers), told_at=event.place,
    )  # fmt: skip


def _is_kept(chunk: ToldChunk, state: StreamState) -> bool:
    """Whether its entry belongs to the stream, as a snapshot says."""
    is_inside = state.first_offset <= chunk.first_offset and chunk.next_offset <= state.next_offset
    return is_inside and state.entry_at_or_behind(chunk.entry) == chunk.entry


def _without_holes(found: Iterable[ToldChunk], end: int) -> list[ToldChunk]:
    """By offset, each message once, up to this offset; those that no chunk has stand in one without an entry."""
    whole: list[ToldChunk] = []
    at = 0
    for chunk in sorted(found, key=attrgetter("first_offset", "entry")):
        if at <= chunk.first_offset and chunk.next_offset <= end:
            whole += _hole(at, chunk.first_offset)
            whole.append(chunk)
            at = chunk.next_offset
    return [*whole, *_hole(at, end)]


def _hole(start: int, end: int) -> list[ToldChunk]:
    return [ToldChunk(start, end - start)] if start < end else []


def folded_stream(events: Iterable[QueueEvent]) -> StreamLog:
    """Events of one stream, in the order of their places; of the same place those of the highest term first."""
    log = StreamLog()
    for event in events:
        log.take(event)
    log.end(is_whole=True)
    return log
