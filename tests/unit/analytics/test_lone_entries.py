"""Whatever an entry says: taken in one go or op by op by the machine, the fold comes to the same state and tells the same."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle, islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics.fold.entry_batch import EntryBatch
from analytics.fold.quorum_queue import QueueFold
from analytics.queue_events import QueueEvent
from broker.queues.queue_type import DeathReason, Outcome
from native.entry_rows import whole_entry
from native.entry_scan import LoneEntry
from quorum.fifo.checked_out import HandedOut
from quorum.fifo.commands import (
    Cancel,
    Consume,
    ConsumerKey,
    NodeDown,
    Origins,
    Policy,
    Producer,
    SessionKey,
    Settle,
    Tick,
    Upgrade,
    encode,
    encode_enqueue,
    entry_head,
)
from quorum.fifo.origins import DeathPlace, OriginPart
from quorum.fifo.rules import Rules
from quorum.fifo.snapshot import encode_snapshot
from quorum.fifo.versions import VERSION_NEWEST, VERSION_OLDEST
from storage.record import Kind
from tests.unit.quorum.queue_world import START
from tests.unit.quorum.test_random_queues import ENTRIES, RULES, SESSIONS, Entries, Speaker

VERSIONS = st.sampled_from([VERSION_OLDEST, VERSION_NEWEST])
# What is taken in one go, next to it what is not, and what makes the difference.
ORIGINS = st.sampled_from(
    [
        [], [], [OriginPart(7, 3, 1, True)], [OriginPart(0, 0, 1)], [OriginPart(7, 0, 2)], [OriginPart(7, 3, 1)] * 2,
        [OriginPart(7, 3, 1, False, DeathPlace(70, 30, 9, 1, DeathReason.MAXLEN))],
    ]
)  # fmt: skip
PUBLISHES = st.tuples(
    st.just("publish"), SESSIONS, st.sampled_from([1, 1, 1, 2, 5]), st.sampled_from([4, 4, 4, 9, 40]), ORIGINS,
    st.sampled_from([0, 0, 0, 0, 0, 1]), st.sampled_from([None, None, None, None, 20]), st.sampled_from([0, 0, 9]),
)  # fmt: skip
ACKNOWLEDGEMENTS = st.tuples(
    st.just("settle"), SESSIONS, st.integers(0, 1), st.just(Outcome.ACKNOWLEDGED),
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 2)), min_size=1, max_size=1),
)  # fmt: skip
CONSUMES = st.tuples(
    st.just("consume"), SESSIONS, st.integers(1, 3), st.booleans(), st.just(False), st.integers(0, 1),
    st.none() | st.integers(0, 60), st.just(0),
)  # fmt: skip
LONE = st.tuples(
    st.sampled_from([0, 1, 1, 400]),
    st.one_of(
        st.lists(st.one_of(PUBLISHES, PUBLISHES, ACKNOWLEDGEMENTS, ACKNOWLEDGEMENTS, CONSUMES), min_size=1, max_size=1),
        st.tuples(PUBLISHES, ACKNOWLEDGEMENTS).map(list),
    ),
    st.just(False),
)
SESSION, CONSUMER = SessionKey(1, 1), ConsumerKey(1, 1, 1)


class LoneSpeaker(Speaker):
    """Says publishes with origins and contents, too."""

    def encoded(self, step: tuple[Any, ...]) -> bytes:
        if step[0] != "publish":
            return super().encoded(step)
        _, session, count, priority, parts, back, expiration, content = step
        sequence = self.sequences.get(session, 1)
        self.sequences[session] = sequence + count
        enqueue = encode_enqueue(
            session, max(1, sequence - back), count, 10 * count, "x", "key", bytes(content), priority=priority,
            expiration_ms=expiration,
        )  # fmt: skip
        return (encode(Origins(parts)) if parts else b"") + b"".join(enqueue)


class Both:
    """A fold that takes in one go what it can, and one that leaves every entry to the machine."""

    def __init__(self) -> None:
        self.fold, self.plain = (QueueFold(with_steps=True) for _ in range(2))
        self.index = 0
        self.taken = 0  # in one go
        self._take = self.fold._lone.take
        self.fold._lone = self  # type: ignore[assignment]
        self.plain._lone = Nothing()  # type: ignore[assignment]

    def take(self, index: int, entry: LoneEntry) -> bool:
        is_taken = self._take(index, entry)
        self.taken += is_taken
        return is_taken

    def say(self, data: bytes, size: int = 0) -> None:
        self.index += 1
        for fold in (self.fold, self.plain):
            fold.take(self.index, data, size)
        assert told(self.fold) == told(self.plain)


class Nothing:
    """Takes no entry."""

    def take(self, index: int, entry: LoneEntry) -> bool:
        return False


class InBatches:
    """A fold that is given entries in batches, and one that leaves every entry to the machine. Neither notes steps: where
    they are noted, nothing is left to be told later."""

    def __init__(self) -> None:
        self.fold, self.plain = QueueFold(), QueueFold()
        self.plain._lone = Nothing()  # type: ignore[assignment]
        self.index = 0
        self._batch: list[bytes] = []
        self.flowed = 0  # entries that were taken as messages flow
        self._take = self.fold._flow.take
        self.fold._flow = self  # type: ignore[assignment]

    def take(self, place: int, entries: Sequence[LoneEntry | None], start: int, before_ms: int) -> int:
        end = self._take(place, entries, start, before_ms)
        self.flowed += end - start
        return end

    def say(self, data: bytes) -> None:
        self.index += 1
        self.plain.take(self.index, data)
        self._batch.append(data)

    def end_batch(self) -> None:
        if batch := self._batch:
            first = QueueEvent(1, self.index + 1 - len(batch), 1, Kind.RAFT_ENTRIES, None, 0, batch[0])
            none = [0] * len(batch)
            assert self.fold.take_batch(EntryBatch(first, batch, none, none), 0, len(batch)) == (len(batch), None)
            self._batch = []
        assert told(self.fold) == told(self.plain)

    def held(self, nth: int) -> HandedOut | None:
        """By the consumer, from the one that it was given first."""
        consumer = self.plain.machine.state.consumers.all.get(CONSUMER)
        return None if consumer is None else next(islice(consumer.checked_out, nth, None), None)


def in_batches(version: int, rules: Rules, entries: Entries, lengths: Sequence[int]) -> None:
    """A batch ends behind an index that one of these divides, each in its turn."""
    folds, speaker, now, length = InBatches(), LoneSpeaker(), START, cycle(lengths)
    for ms, steps, _ in [(0, [("upgrade", version), ("policy", rules)], False), *entries]:
        now += ms
        folds.say(entry_head(now) + b"".join([speaker.encoded(step) for step in steps]))
        if not folds.index % next(length):
            folds.end_batch()
    folds.end_batch()


def told(fold: QueueFold) -> Sequence[object]:
    """All that a fold has come to."""
    machine, lives = fold.machine, fold.lives
    return (
        b"".join(encode_snapshot(machine.state)), machine.deadline, machine.figures(), machine.actors, lives.going_on(),
        lives.take_ended(), lives.take_steps(), fold.take_seconds(), fold.take_refusals(),
    )  # fmt: skip


def both(version: int, rules: Rules, entries: Entries) -> Both:
    folds, speaker, now = Both(), LoneSpeaker(), START
    for ms, steps, _ in [(0, [("upgrade", version), ("policy", rules)], False), *entries]:
        now += ms
        folds.say(entry_head(now) + b"".join([speaker.encoded(step) for step in steps]))
    return folds


@settings(max_examples=100, deadline=None)
@given(VERSIONS, RULES, st.lists(ENTRIES, max_size=40))
def test_any_history_comes_to_the_same(version: int, rules: Rules, entries: Entries) -> None:
    both(version, rules, entries)


@settings(max_examples=200, deadline=None)
@given(VERSIONS, RULES | st.just(Rules()), st.lists(LONE, min_size=20, max_size=60))
def test_lone_entries_come_to_the_same(version: int, rules: Rules, entries: Entries) -> None:
    both(version, rules, entries)


LENGTHS = st.lists(st.sampled_from([1, 2, 5, 17, 60]), min_size=1, max_size=4)


@settings(max_examples=100, deadline=None)
@given(VERSIONS, RULES, st.lists(ENTRIES, max_size=40), LENGTHS)
def test_any_history_comes_to_the_same_in_batches(
    version: int, rules: Rules, entries: Entries, lengths: list[int]
) -> None:
    in_batches(version, rules, entries, lengths)


@settings(max_examples=200, deadline=None)
@given(VERSIONS, RULES | st.just(Rules()), st.lists(LONE, min_size=20, max_size=60), LENGTHS)
def test_lone_entries_come_to_the_same_in_batches(
    version: int, rules: Rules, entries: Entries, lengths: list[int]
) -> None:
    in_batches(version, rules, entries, lengths)


def flowing_queue(prefetch: int = 9, rules: Rules | None = None) -> InBatches:
    """One with a consumer that has room, and behind the begin of a batch."""
    folds = InBatches()
    folds.say(entry_head(START) + encode(Upgrade(VERSION_NEWEST)) + encode(Policy(rules or Rules())))
    folds.say(entry_head(START) + encode(Consume(CONSUMER, "tag", prefetch=prefetch)))
    folds.end_batch()
    return folds


# What is said while messages flow, and what ends that for a while. Numbers say which of those that are held, from the front.
FLOWING = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 1, 400]),
        st.sampled_from(["publish"] * 4 + ["acknowledge"] * 3 + ["both", "a part", "unknown", "reject", "tick", "end"]),
        st.sampled_from([0, 0, 0, 1, 3]),
        st.sampled_from([1, 1, 1, 2, 4]),
    ),
    min_size=20,
    max_size=80,
)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([1, 3, 9, 0]), FLOWING, st.sampled_from([None, 300]))
def test_messages_that_flow_come_to_the_same(
    prefetch: int, steps: list[tuple[int, str, int, int]], timeout_ms: int | None
) -> None:
    folds, now, sequence = flowing_queue(prefetch, Rules(consumer_timeout_ms=timeout_ms)), START, 1
    for ms, what, nth, count in steps:
        now += ms
        held = folds.held(nth)
        first, length = (held.first_id, held.stored.length) if held is not None else (1 + nth, count)
        last = folds.held(nth + count - 1)
        end = last.end if last is not None else first + length
        said = publish(sequence, count) if what in ("publish", "both") else b""
        sequence += count if said else 0
        if what == "both" or what == "acknowledge":
            said += acknowledge(first, end - first)
        elif what == "a part":
            said = acknowledge(first + length // 2, count)
        elif what == "unknown":
            said = acknowledge(first + 50, count)
        elif what == "reject":
            said = encode(Settle(CONSUMER, Outcome.REJECTED, [(first, length)]))
        folds.end_batch() if what == "end" else folds.say(entry_head(now) + (said or encode(Tick())))
    folds.end_batch()


def test_entries_flow_while_one_consumer_has_room() -> None:
    folds = flowing_queue()
    for number in range(1, 200):
        folds.say(entry_head(START + number) + publish(2 * number - 1, 2))
        folds.say(entry_head(START + number) + acknowledge(2 * number - 1, 2))
    folds.end_batch()
    assert folds.flowed == 2 * 199


def test_they_flow_on_behind_what_is_acknowledged_in_any_order() -> None:
    folds = flowing_queue()
    for number in range(1, 5):
        folds.say(entry_head(START) + publish(number))
    folds.say(entry_head(START) + acknowledge(3))
    folds.say(entry_head(START) + publish(5) + acknowledge(1, 2))
    folds.say(entry_head(START) + acknowledge(4, 2))
    folds.end_batch()
    assert folds.flowed == 7


def test_what_was_out_before_a_batch_is_acknowledged_within_it() -> None:
    """It makes room for another one."""
    folds = flowing_queue(prefetch=2)
    folds.say(entry_head(START) + publish(1))
    folds.end_batch()
    folds.say(entry_head(START) + publish(2))
    folds.say(entry_head(START) + acknowledge(1))
    folds.say(entry_head(START) + publish(3))
    folds.say(entry_head(START) + acknowledge(2, 2))
    folds.end_batch()
    assert folds.flowed == 5


def test_they_flow_no_more_when_the_consumer_has_no_room() -> None:
    folds = flowing_queue(prefetch=2)
    for number in (1, 2, 3):
        folds.say(entry_head(START) + publish(number))
    folds.end_batch()
    assert folds.flowed == 2
    assert folds.fold.machine.figures().ready == 1


def test_they_flow_to_nobody_in_particular_while_two_consumers_have_room() -> None:
    folds = flowing_queue()
    folds.say(entry_head(START) + encode(Consume(ConsumerKey(1, 1, 2), "tag", prefetch=9)))
    folds.say(entry_head(START) + publish(1))
    folds.end_batch()
    assert folds.flowed == 0


def test_a_second_ends_while_they_flow() -> None:
    folds = flowing_queue(prefetch=50)
    for number in range(1, 20):
        folds.say(entry_head(START + 300 * number) + publish(number))
    folds.end_batch()
    assert folds.flowed >= 10


def test_time_that_no_clock_says_is_left_to_the_machine() -> None:
    folds = flowing_queue()
    for number in range(1, 4):
        folds.say(entry_head((1 << 63) + number) + publish(number))
    folds.end_batch()
    assert folds.flowed == 0


def test_a_run_with_an_entry_of_a_newer_version_is_taken_up_to_that() -> None:
    fold = QueueFold()
    entries = [entry_head(START) + encode(Upgrade(VERSION_NEWEST + 1)), entry_head(START) + publish(1)]
    batch = EntryBatch(QueueEvent(1, 1, 1, Kind.RAFT_ENTRIES, None, 0, entries[0]), entries, [0, 0], [0, 0])
    at, why = fold.take_batch(batch, 0, 2)
    assert (at, fold.machine.applied) == (1, 1)
    assert "version" in (why or "")


def lone_queue() -> Both:
    """One whose session and consumer are known."""
    folds = Both()
    folds.say(entry_head(START) + encode(Upgrade(VERSION_NEWEST)) + encode(Policy(Rules())))
    folds.say(entry_head(START) + encode(Consume(CONSUMER, "tag", prefetch=2)))
    return folds


def publish(sequence: int, count: int = 1, *, content: bytes = b"", body_bytes: int = 10) -> bytes:
    op = encode_enqueue(SESSION, sequence, count, body_bytes, "", "q", content)
    return encode(Origins([OriginPart(7, sequence, count, True)])) + b"".join(op)


def acknowledge(first: int, count: int = 1) -> bytes:
    return encode(Settle(CONSUMER, Outcome.ACKNOWLEDGED, [(first, count)]))


def test_publishes_and_acknowledgements_are_taken_in_one_go() -> None:
    folds = lone_queue()
    for number in range(1, 20):
        folds.say(entry_head(START + number) + publish(number))
        folds.say(entry_head(START + number) + acknowledge(number))
    assert folds.taken == 2 * 19


def test_so_they_are_while_nobody_has_room() -> None:
    folds = lone_queue()
    for number in range(1, 20):
        folds.say(entry_head(START + number) + publish(number))
    for number in range(1, 20):
        folds.say(entry_head(START + 2_000 * number) + acknowledge(number))
    assert folds.taken == 2 * 19


def test_a_skeleton_counts_as_its_whole_entry() -> None:
    folds = lone_queue()
    folds.say(entry_head(START) + publish(1))
    whole = entry_head(START) + publish(2, content=bytes(1_000))
    skeleton = whole[:-1_000]
    assert whole_entry(skeleton, len(whole)) == whole
    folds.say(skeleton, len(whole))
    assert folds.taken == 2
    again = lone_queue()
    again.say(entry_head(START) + publish(1))
    again.say(whole)
    assert again.fold.machine.digest == folds.fold.machine.digest


def test_a_publish_and_then_an_acknowledgement_are_taken_in_one_go() -> None:
    folds = lone_queue()
    folds.say(entry_head(START) + publish(1))
    for number in range(1, 20):
        whole = entry_head(START + number) + publish(number + 1, content=bytes(100)) + acknowledge(number)
        cut = len(whole) - len(acknowledge(number))
        folds.say(whole) if number % 2 else folds.say(whole[: cut - 100] + whole[cut:], len(whole))
    assert folds.taken == 20
    assert folds.fold.machine.figures().unacknowledged == 1


def test_what_waits_is_handed_out_behind_the_acknowledgement_of_the_same_entry() -> None:
    folds = lone_queue()
    folds.say(entry_head(START) + publish(1, 2))
    folds.say(entry_head(START + 1) + publish(3) + acknowledge(1, 2))
    folds.say(entry_head(START + 2) + publish(4) + encode(Settle(CONSUMER, Outcome.REJECTED, [(3, 1)])))
    assert folds.taken == 2
    assert folds.fold.machine.figures().unacknowledged == 1


def numbered(sequence: int, name: bytes, number: int) -> bytes:
    content = b"\0" * 8
    return b"".join(
        encode_enqueue(SESSION, sequence, 1, 10, "", "q", content, producer=Producer(name, number))
    )  # fmt: skip


SITUATIONS: dict[str, tuple[Rules, list[tuple[int, bytes]]]] = {
    "rejected": (Rules(), [(0, publish(1)), (1, encode(Settle(CONSUMER, Outcome.REJECTED, [(1, 1)])))]),
    "returned": (Rules(), [(0, publish(1)), (1, encode(Settle(CONSUMER, Outcome.RETURNED, [(1, 1)])))]),
    "by who is suspected": (Rules(), [(0, publish(1)), (1, encode(NodeDown(SESSION))), (1, acknowledge(1))]),
    "by who left": (Rules(), [(0, publish(1)), (1, encode(Cancel(CONSUMER))), (1, acknowledge(1)), (1, publish(2))]),
    "by who is overdue": (Rules(consumer_timeout_ms=10), [(0, publish(1)), (50, encode(Tick())), (1, acknowledge(1))]),
    "too many bytes": (Rules(max_length_bytes=25), [(1, publish(number)) for number in range(1, 9)]),
    "refused": (Rules(max_length=1, reject_publish=True), [(1, publish(number)) for number in range(1, 9)]),
    "said twice by its producer": (Rules(), [(1, numbered(number, b"p", 7)) for number in range(1, 5)]),
    "behind what expires": (
        Rules(),
        [(0, publish(1, 2)), (1, b"".join(encode_enqueue(SESSION, 3, 1, 10, "", "q", b"", expiration_ms=5)))]
        + [(3, publish(number)) for number in range(4, 9)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("situation", SITUATIONS)
def test_what_looks_like_most_entries_and_is_none_of_them_comes_to_the_same(situation: str) -> None:
    rules, entries = SITUATIONS[situation]
    folds, now = lone_queue(), START
    folds.say(entry_head(START) + encode(Policy(rules)))
    for ms, data in entries:
        now += ms
        folds.say(entry_head(now) + data)


def test_a_size_that_no_number_of_an_arrow_column_has_is_left_to_the_machine() -> None:
    folds = lone_queue()
    folds.say(entry_head(START) + publish(1))
    folds.say(entry_head(START) + publish(2, body_bytes=(1 << 64) - 1))
    assert folds.taken == 1


def test_what_stands_behind_a_publish_in_its_entry_is_not_passed_over() -> None:
    folds = lone_queue()
    folds.say(entry_head(START) + publish(1))
    folds.say(entry_head(START) + publish(2) + acknowledge(1))
    assert folds.fold.machine.figures().unacknowledged == 1


def test_a_publish_that_is_too_short_takes_nothing_from_what_stands_behind_it() -> None:
    """It was read on into the acknowledgement."""
    folds = lone_queue()
    folds.say(entry_head(START) + publish(1))
    op = b"".join(encode_enqueue(SESSION, 2, 1, 10, "", "", b""))
    short = op[:1] + (30).to_bytes(4, "little") + op[5:35]
    folds.say(entry_head(START) + short + acknowledge(1))
    assert folds.taken == 1


def test_a_leader_whose_clock_is_behind_takes_the_queue_s_time_not_back() -> None:
    folds = lone_queue()
    folds.say(entry_head(START + 1_000) + publish(1))
    folds.say(entry_head(START) + publish(2))
    folds.say(entry_head(START) + acknowledge(1))
    assert folds.taken == 3
    assert folds.fold.machine.state.now == START + 1_000


def test_only_the_active_one_of_a_single_active_queue_s_consumers_is_served() -> None:
    folds = Both()
    folds.say(entry_head(START) + encode(Upgrade(VERSION_NEWEST)) + encode(Policy(Rules(single_active=True))))
    for number in (1, 2):
        folds.say(entry_head(START) + encode(Consume(ConsumerKey(1, 1, number), "tag", prefetch=1)))
    for number in (1, 2, 3):
        folds.say(entry_head(START + number) + publish(number))
    for number in (1, 2):
        folds.say(entry_head(START + 9) + acknowledge(number))
