"""Streams whose logs have gaps: what is told of each message is what the machine of a member that had all of it knew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from random import Random

import pytest

from analytics.fold.lives import PUBLISHED, LifeState
from analytics.fold.stream_log import NO_ENTRY, StreamLog, ToldChunk, folded_stream
from analytics.queue_events import QueueEvent, fold_order, snapshot_events
from raft.core.messages import EntryKind, Membership, SnapshotMeta
from storage.record import Kind
from stream.chunks.entries import ChunkEntry, LogEntry, RetentionCut, StoredOffsets, WriterPosition, encode
from stream.group.machine import StreamMachine, Written
from tests.unit.analytics.test_streams import GROUP, START, chunk

Span = tuple[int, int]  # first offset and messages


class LivedStream:
    """Entries as leaders write them, but the last one out of place at times, and what the machine of a member made of them."""

    def __init__(self, random: Random, entries: int) -> None:
        self.machine = StreamMachine()
        self.events: list[QueueEvent] = []
        self.snapshots: list[list[QueueEvent]] = []
        self.chunks: dict[int, Span] = {}  # that count, by entry
        self.cut_by: dict[int, int] = {}  # by first offset of a chunk: the entry that cut it
        self.stored: dict[str, list[int]] = {}
        self._publishers = Counter[str]()
        for index in range(1, entries + 1):
            self._write(index, self._entry(random, index, is_last=index == entries))
            if random.random() < 0.15:
                self.snapshot()

    def _entry(self, random: Random, index: int, *, is_last: bool) -> LogEntry:
        state, what = self.machine.state, 1.0 if is_last else random.random()
        if what < 0.15:
            return chunk(state.next_offset + random.randrange(1, 4), random.randrange(1, 4), index)
        if what < 0.3:
            return RetentionCut(START + index, random.randrange(state.next_offset + 1))
        if what < 0.45:
            return StoredOffsets(START + index, ((random.choice("ab"), random.randrange(9)),))
        name, messages = random.choice("xy"), random.randrange(1, 5)
        self._publishers[name] += messages
        return chunk(
            state.next_offset, messages, index, publishers=[(name, self._publishers[name])],
            ends_segment=random.random() < 0.5,
        )  # fmt: skip

    def _write(self, index: int, said: LogEntry) -> None:
        data, first = encode(said), self.machine.state.next_offset
        is_done = self.machine.apply(index, data) is Written.DONE
        if isinstance(said, ChunkEntry) and is_done:
            self.chunks[index] = first, said.header.message_count
        elif isinstance(said, StoredOffsets):
            for name, offset in said.offsets:
                self.stored.setdefault(name, []).append(offset)
        for first, _ in self.chunks.values():
            if first < self.machine.state.first_offset:
                self.cut_by.setdefault(first, index)
        self.events.append(event(index, data))

    def snapshot(self) -> None:
        meta = SnapshotMeta(self.machine.applied, 1, Membership((1,)), self.machine.version)
        self.snapshots.append(list(snapshot_events(GROUP, meta, b"".join(map(bytes, self.machine.snapshot())))))


def event(index: int, data: bytes) -> QueueEvent:
    return QueueEvent(GROUP, index, 1, Kind.RAFT_ENTRIES, None, EntryKind.COMMAND, data, written=index, node="n1")


def folded(events: Iterable[QueueEvent]) -> StreamLog:
    return folded_stream(sorted(events, key=fold_order))


def has_each_once(log: StreamLog, end: int) -> bool:
    ends = [0, *(one.next_offset for one in log.chunks)]
    return [one.first_offset for one in log.chunks] == ends[:-1] and ends[-1] == end


@pytest.mark.parametrize("seed", range(40))
def test_of_a_whole_log_each_chunk_is_told_with_what_cut_it(seed: int) -> None:
    lived = LivedStream(Random(seed), 60)
    log = folded([*lived.events, *(one for said in lived.snapshots for one in said)])
    assert (log.unknown, log.wrong) == (None, [])
    assert [(one.entry, (one.first_offset, one.messages)) for one in log.chunks] == list(lived.chunks.items())
    assert {one.first_offset: one.told_at for one in log.chunks if one.state is LifeState.CUT} == lived.cut_by
    assert all(one.ended_at == START + one.told_at for one in log.chunks if one.state is LifeState.CUT)
    assert {name: (one.offset, one.went_back) for name, one in log.stored.items()} == {
        name: (offsets[-1], sum(two < one for one, two in pairwise(offsets))) for name, offsets in lived.stored.items()
    }


@pytest.mark.parametrize("first", range(0, 120, 40))
def test_behind_a_gap_a_snapshot_says_which_chunks_count_and_which_messages_nobody_has(first: int) -> None:
    happened = Counter[str]()
    for seed in range(first, first + 40):
        random = Random(seed)
        lived = LivedStream(random, 60)
        lost = {one for one in range(1, 61) if random.random() < 0.4}
        lived.snapshot()
        snapshots = [*random.sample(lived.snapshots[:-1], min(2, len(lived.snapshots) - 1)), lived.snapshots[-1]]
        log = folded(
            [*(one for one in lived.events if one.place not in lost), *(one for said in snapshots for one in said)]
        )
        state = lived.machine.state
        assert (log.unknown, log.wrong) == (None, [])
        assert has_each_once(log, state.next_offset)
        kept = {one.entry: (one.first_offset, one.messages) for one in log.chunks if one.state is LifeState.KEPT}
        there = {
            entry: span for entry, span in lived.chunks.items() if span[0] >= state.first_offset and entry not in lost
        }
        assert {entry: span for entry, span in kept.items() if entry != NO_ENTRY} == there
        assert all(one.next_offset <= state.first_offset for one in log.chunks if one.state is LifeState.CUT)
        assert {one.state for one in log.chunks} <= {LifeState.KEPT, LifeState.CUT}
        tellers = {said[1].place for said in snapshots} | set(lived.cut_by.values())
        assert {one.told_at for one in log.chunks if one.state is LifeState.CUT} <= tellers
        happened["some that are kept nobody has"] += NO_ENTRY in kept
        happened["some that are kept somebody has"] += bool(there)
        happened["some are cut that somebody has"] += any(
            one.state is LifeState.CUT and one.entry != NO_ENTRY for one in log.chunks
        )
    assert min(happened.values()) > 10, happened


def test_messages_that_no_chunk_has_are_divided_where_retention_cuts() -> None:
    """Also where they do not begin with the first of all."""
    log = StreamLog()
    log.chunks = [ToldChunk(0, 4, 2), ToldChunk(4, 6), ToldChunk(10, 2, 9)]
    log.machine.state.first_offset = 7
    assert log._cut(7, START, 11)
    assert [(one.first_offset, one.messages, one.state) for one in log.chunks] == [
        (0, 4, LifeState.CUT), (4, 3, LifeState.CUT), (7, 3, LifeState.KEPT), (10, 2, LifeState.KEPT),
    ]  # fmt: skip
    assert {one.told_at for one in log.chunks if one.state is LifeState.CUT} == {11}


def test_a_history_has_a_life_of_each_chunk_and_says_when_it_came_and_went() -> None:
    entries: list[LogEntry] = [chunk(0, 2, 5, ends_segment=True), chunk(2, 3, 6), RetentionCut(START + 9, 2)]
    history = folded(event(index, encode(one)) for index, one in enumerate(entries, 1)).history()
    assert [
        (life.entry, life.count, life.state, life.partial, life.ended_at, life.told_at) for life in history.lives
    ] == [
        (0, 2, LifeState.CUT, False, START + 9, 3),
        (2, 3, LifeState.KEPT, False, None, 2),
    ]
    assert [(one.entry, one.messages, one.what, one.at) for one in history.steps] == [
        (0, 2, PUBLISHED, START + 5), (0, 2, LifeState.CUT, START + 9), (2, 3, PUBLISHED, START + 6),
    ]  # fmt: skip
    assert {life.publish.at for life in history.lives} == {START + 5, START + 6}


def test_messages_that_only_a_snapshot_tells_of_are_partial_lives_without_a_step() -> None:
    lived = LivedStream(Random(1), 0)
    for index, said in enumerate((chunk(0, 2, 5), chunk(2, 3, 6)), 1):
        lived._write(index, said)
    lived.snapshot()
    history = folded([lived.events[1], *lived.snapshots[0]]).history()
    assert [(life.entry, life.count, life.partial) for life in history.lives] == [(0, 2, True), (2, 3, False)]
    assert [(one.entry, one.what) for one in history.steps] == [(2, PUBLISHED)]


def test_a_snapshot_that_ends_elsewhere_than_the_log_is_wrong() -> None:
    entries = [chunk(0, 2, 5), chunk(2, 3, 6)]
    lived = LivedStream(Random(1), 0)
    for index, said in enumerate((chunk(0, 2, 5), chunk(2, 4, 6)), 1):
        lived._write(index, said)
    lived.snapshot()
    log = folded([*(event(index, encode(one)) for index, one in enumerate(entries, 1)), *lived.snapshots[0]])
    assert log.wrong == ["the snapshot of entry 2 has messages up to offset 6, the log up to 5"]


def test_a_publisher_whose_first_number_is_0_goes_back_nowhere() -> None:
    """As clients of streams count that choose their numbers themselves."""
    entries = [chunk(0, 1, publishers=[("x", 0)]), chunk(1, 1, publishers=[("x", 1), ("y", 0)])]
    assert folded(event(index, encode(one)) for index, one in enumerate(entries, 1)).wrong == []
    again = [*entries, chunk(2, 1, publishers=[("y", 0)])]
    log = folded(event(index, encode(one)) for index, one in enumerate(again, 1))
    assert log.wrong == ["publisher 'y' goes back from number 0 to 0 at entry 3"]


def test_a_chunk_at_its_place_whose_writer_lost_what_was_before_it_gives_no_offset_again() -> None:
    """It is passed over, and said again behind that."""
    first, lost, missing = (WriterPosition(1, 1, number) for number in (2, 6, 4))
    entries = [
        chunk(0, 2, writers=[first]), chunk(2, 2, writers=[lost]), chunk(2, 2, writers=[missing]),
        chunk(4, 2, writers=[lost]),
    ]  # fmt: skip
    log = folded(event(index, encode(one)) for index, one in enumerate(entries, 1))
    assert (log.unknown, log.wrong, [one.entry for one in log.chunks]) == (None, [], [1, 3, 4])
