"""Whatever is said to a quorum queue: the lives that its log is folded into are what the dumb twin of the machine knows."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics.fold.lives import Life, LifeState
from analytics.fold.quorum_queue import QueueFold
from broker.queues.queue_type import DeathReason, Outcome
from quorum.fifo.commands import (
    Cancel,
    Consume,
    ConsumerKey,
    Get,
    Op,
    Origins,
    Policy,
    Purge,
    PurgeOnce,
    SessionGone,
    SessionKey,
    Settle,
    Tick,
    Upgrade,
    UponCancel,
    Who,
    Withdraw,
    encode,
    encode_enqueue,
    entry_head,
)
from quorum.fifo.origins import DeathPlace, OriginPart
from quorum.fifo.results import ResultCode
from quorum.fifo.rules import DeadLetters, Rules
from quorum.fifo.versions import VERSION_NEWEST
from tests.unit.quorum.dumb_queue import DumbQueue
from tests.unit.quorum.queue_world import START
from tests.unit.quorum.test_random_queues import ENTRIES, RULES, Entries, Speaker

SESSION = SessionKey(1, 1)
CONSUMER = ConsumerKey(1, 1, 1)


class Log:
    """Entries for one queue, each with one op, a millisecond apart."""

    def __init__(self, rules: Rules | None = None, *, with_steps: bool = False) -> None:
        self.fold = QueueFold(with_steps=with_steps)
        self.index = 0
        self.now = START
        self.sequence = 1
        if rules is not None:
            self.say(Policy(rules))

    def say(self, *ops: Op, ms: int = 1) -> None:
        self.append(b"".join(encode(op) for op in ops), ms)

    def publish(self, count: int = 1, *, expiration_ms: int | None = None, priority: int = 4) -> None:
        op = encode_enqueue(
            SESSION, self.sequence, count, 10 * count, "", "q", b"", expiration_ms=expiration_ms, priority=priority
        )
        self.sequence += count
        self.append(b"".join(op), 1)

    def append(self, ops: bytes, ms: int) -> None:
        self.index += 1
        self.now += ms
        self.fold.take(self.index, entry_head(self.now) + ops)

    @property
    def ended(self) -> list[Life]:
        return self.fold.lives.take_ended()


def told(lives: list[Life]) -> list[tuple[int, int, LifeState]]:
    """From which message of its run on, how many, and what came of them."""
    return [(life.first, life.count, life.state) for life in lives]


def test_each_publisher_of_a_joined_run_has_a_life_of_its_own() -> None:
    log = Log()
    died_in = DeathPlace(70, 30, 9, 1, DeathReason.MAXLEN)
    parts = [OriginPart(7, 40, 2, True), OriginPart(9, 0, 1), OriginPart(0, 0, 1, died_in=died_in)]
    enqueues = [
        encode_enqueue(SESSION, first, count, 10 * count, "", "q", b"") for first, count in ((1, 3), (4, 1), (5, 2))
    ]
    log.append(encode(Origins(parts)) + b"".join(part for one in enqueues for part in one), 1)
    log.sequence = 7
    log.publish()
    lives = sorted(log.fold.lives.going_on(), key=lambda life: (life.entry, life.offset, life.first))
    said = [
        (life.first, life.count, life.publish.actor, life.publish.publish_no, life.publish.confirm) for life in lives
    ]
    assert said == [
        (0, 2, 7, 40, True), (2, 1, 9, None, False), (0, 1, None, None, None), (0, 2, None, None, None),
        (0, 1, None, None, None),
    ]  # fmt: skip
    assert [life.publish.died_in for life in lives[2:4]] == [(70, (30, 9, 1), DeathReason.MAXLEN), None]
    assert [life.publish.body_bytes for life in lives] == [20, 10, 10, 20, 10]
    assert {life.publish.process for life in lives} == {SESSION, None}


def test_origins_that_do_not_fit_what_is_published_say_nothing() -> None:
    log = Log()
    op = b"".join(encode_enqueue(SESSION, 1, 3, 30, "", "q", b""))
    log.append(encode(Origins([OriginPart(7, 1, 2), OriginPart(7, 3, 9)])) + op, 1)
    (life,) = log.fold.lives.going_on()
    assert (life.count, life.publish.actor) == (3, None)


@pytest.mark.parametrize("is_named", [True, False])
def test_who_purged_a_queue_is_told_where_the_log_says_it(is_named: bool) -> None:
    log, purger = Log(with_steps=True), ConsumerKey(1, 1, 2)
    log.say(Upgrade(VERSION_NEWEST))
    log.publish()
    if is_named:
        log.say(Who(purger, 9))
    log.say(PurgeOnce(purger, 2))
    *_, purged = log.fold.lives.take_steps()
    assert (purged.what, purged.consumer) == ("purged", purger if is_named else None)


def test_a_message_that_was_withdrawn_ends_alone_and_by_whom() -> None:
    log, asker = Log(with_steps=True), ConsumerKey(1, 1, 2)
    log.say(Upgrade(VERSION_NEWEST))
    log.publish(3)
    log.say(Who(asker, 9))
    (stored,) = log.fold.machine.state.ready
    log.say(Withdraw(asker, 2, stored.entry, stored.offset, 1))
    *_, withdrawn = log.fold.lives.take_steps()
    assert (withdrawn.what, withdrawn.consumer) == ("purged", asker)
    assert [(life.first, life.count, life.state) for life in log.ended] == [(1, 1, LifeState.PURGED)]


def test_a_run_that_one_consumer_acknowledges_is_one_life() -> None:
    log = Log()
    log.say(Consume(CONSUMER, "tag"))
    log.publish(100)
    log.say(Settle(CONSUMER, Outcome.ACKNOWLEDGED, [(1, 100)]), ms=50)
    (life,) = log.ended
    assert (life.first, life.count, life.state) == (0, 100, LifeState.ACKED)
    assert (life.publish.at, life.first_out_at, life.ended_at) == (START + 2, START + 2, START + 52)
    assert (life.wait_ms, life.hold_ms, life.times_out, life.first_consumer) == (0, 50, 1, CONSUMER)
    assert (life.publish.exchange, life.publish.routing_key, life.publish.body_bytes) == ("", "q", 1000)
    assert not life.partial
    assert log.fold.lives.going_on() == []


def test_a_life_is_divided_where_fates_differ() -> None:
    log = Log(Rules(dead_letters=DeadLetters.AT_MOST_ONCE))
    log.say(Consume(CONSUMER, "tag", prefetch=6))
    log.publish(10)
    log.say(Settle(CONSUMER, Outcome.ACKNOWLEDGED, [(2, 2)]), Settle(CONSUMER, Outcome.REJECTED, [(5, 1)]))
    assert told(log.ended) == [(1, 2, LifeState.ACKED), (4, 1, LifeState.REJECTED)]
    going_on = sorted(told(log.fold.lives.going_on()))
    assert sum(count for _, count, _ in going_on) == 7
    assert [one for one in going_on if one[2] is LifeState.READY] == [(9, 1, LifeState.READY)]


def test_what_comes_back_says_why_and_how_often() -> None:
    log = Log()
    log.publish(1)
    first, second, third = (ConsumerKey(1, 1, number) for number in (1, 2, 3))
    log.say(Consume(first, "a"))
    log.say(Settle(first, Outcome.REQUEUED, [(1, 1)]))
    log.say(Settle(first, Outcome.RELEASED, [(2, 1)]))
    log.say(Cancel(first, UponCancel.REQUEUED))
    log.say(Consume(second, "b", timeout_ms=100))
    log.say(Tick(), ms=200)
    log.say(Cancel(second), Consume(third, "c"))
    log.say(SessionGone(SESSION))
    (life,) = log.fold.lives.going_on()
    assert life.returned == {"failed": 1, "released": 1, "consumer left": 1, "consumer timeout": 1, "node gone": 1}
    assert (life.times_out, life.first_consumer, life.last_consumer) == (5, first, third)


def test_ends_that_no_consumer_brings_about() -> None:
    log = Log(Rules(max_length=2))
    log.publish(1, expiration_ms=5)
    log.say(Tick(), ms=10)
    log.publish(3)
    log.say(Get(ConsumerKey(1, 1, 1), no_ack=True))
    log.say(Purge())
    assert told(log.ended) == [
        (0, 1, LifeState.EXPIRED),
        (0, 1, LifeState.MAXLEN),
        (1, 1, LifeState.GOT),
        (2, 1, LifeState.PURGED),
    ]


def test_a_get_that_is_said_again_hands_nothing_out() -> None:
    log = Log()
    log.publish(1)
    key = ConsumerKey(1, 1, 1)
    log.say(Get(key, no_ack=False))
    log.say(Get(key, no_ack=True))
    (life,) = log.fold.lives.going_on()
    assert (life.state, life.times_out, log.ended) == (LifeState.OUT, 1, [])


def test_a_publish_that_is_refused_is_no_life() -> None:
    log = Log(Rules(max_length=1, reject_publish=True))
    log.publish(1)
    log.publish(3)
    assert len(log.fold.lives.going_on()) == 1
    (refusal,) = log.fold.take_refusals()
    assert (refusal.entry, refusal.messages, refusal.result) == (3, 3, ResultCode.REJECTED)


def test_a_fold_that_begins_at_a_snapshot_says_that_it_does_not_know_the_beginning() -> None:
    log = Log()
    log.publish(5)
    log.say(Consume(CONSUMER, "tag", prefetch=2))
    machine = log.fold.machine
    log.fold = QueueFold((b"".join(machine.snapshot()), machine.version))
    log.say(Settle(CONSUMER, Outcome.ACKNOWLEDGED, [(1, 2)]))
    log.say(Cancel(CONSUMER, UponCancel.RETURNED), Purge())
    lives = log.ended
    assert all(life.partial and life.publish.at is None and life.wait_ms is None for life in lives)
    counts: Counter[LifeState] = Counter()
    for life in lives:
        counts[life.state] += life.count
    assert counts == {LifeState.ACKED: 2, LifeState.PURGED: 3}


def test_seconds_have_what_happened_within_them() -> None:
    log = Log()
    log.publish(5)
    log.say(Consume(CONSUMER, "tag", prefetch=2), ms=1000)
    log.say(Settle(CONSUMER, Outcome.ACKNOWLEDGED, [(1, 2)]), ms=5000)
    log.fold.end()
    seconds = log.fold.take_seconds()
    assert [
        (one.second, one.ready, one.unacknowledged, one.published, one.delivered, one.acknowledged) for one in seconds
    ] == [
        (START // 1000, 5, 0, 5, 0, 0),
        (START // 1000 + 1, 3, 2, 0, 2, 0),
        (START // 1000 + 6, 1, 2, 0, 2, 2),
    ]


@settings(max_examples=150, deadline=None)
@given(RULES, st.lists(ENTRIES, max_size=40))
def test_lives_are_what_the_twin_knows(rules: Rules, entries: Entries) -> None:
    fold, twin, speaker, now = QueueFold(), DumbQueue(), Speaker(), START
    ended: Counter[LifeState] = Counter()
    accepted = 0
    known: dict[Any, Any] = {}
    for index, (ms, steps, snapshot) in enumerate([(0, [("policy", rules)], False), *entries], 1):
        now += ms
        data = entry_head(now) + b"".join([speaker.encoded(step) for step in steps])
        if snapshot:
            before = fold
            fold = QueueFold((b"".join(before.machine.snapshot()), before.machine.version))
            fold.machine.counters, fold.machine.actors = before.machine.counters, before.machine.actors
        before_published = fold.machine.counters.published
        fold.take(index, data)
        twin.apply(index, data)
        accepted += fold.machine.counters.published - before_published
        for life in fold.lives.take_ended():
            ended[life.state] += life.count
            assert life.state.has_ended
        known = check_going_on(fold, twin)
    assert fold.machine.actors == twin.actors
    counters = fold.machine.counters
    assert accepted == sum(ended.values()) + len(known)
    assert ended[LifeState.ACKED] + ended[LifeState.NO_ACK] == counters.acknowledged
    died = (LifeState.REJECTED, LifeState.EXPIRED, LifeState.MAXLEN, LifeState.DELIVERY_LIMIT)
    assert sum(ended[state] for state in died) == counters.dead


def check_going_on(fold: QueueFold, twin: DumbQueue) -> dict[Any, Any]:
    """Message by message: which there are, which are out, and with whom."""
    lives: dict[Any, Any] = {}
    for life in fold.lives.going_on():
        for nth in range(life.first, life.end):
            holder = life.last_consumer if life.state is LifeState.OUT else None
            lives[life.entry, life.offset, nth] = (life.state, holder if not life.partial else None, life.partial)
    expected = {message.where: (LifeState.READY, None) for message in [*twin.ready, *twin.delayed]}
    for key, client in twin.clients.items():
        expected |= {out.message.where: (LifeState.OUT, key) for out in client.out}
    assert {where: state for where, (state, _, _) in lives.items()} == {
        where: state for where, (state, _) in expected.items()
    }
    for where, (_, holder, partial) in lives.items():
        assert partial or holder == expected[where][1]
    return lives
