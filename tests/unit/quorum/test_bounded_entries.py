"""One entry moves so many rows and no more; what it leaves is done by the entries behind it, in the order of one big one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quorum.fifo.movement as movement
from broker.queues.queue_type import Outcome
from quorum.fifo.commands import Cancel, NodeDown, Policy, Purge, SessionGone, SessionKey, Tick, Upgrade, UponCancel
from quorum.fifo.results import Purged, Result, ResultCode, TakenMessage
from quorum.fifo.rules import DeadLetters, Retry, Rules
from quorum.fifo.versions import BOUNDED, GETS_BOUNDED, VERSION_NEWEST
from raft.core.messages import Entry, EntryKind
from tests.unit.quorum.queue_world import SESSION, QueueWorld, consumer, restored

ROWS = 3
OTHER = SessionKey(2, 1)


@pytest.fixture(autouse=True)
def three_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(movement, "ROWS_MAX", ROWS)


def world(messages: int = 0, rules: Rules | None = None, version: int = BOUNDED) -> QueueWorld:
    """Each message is a row of its own."""
    made = QueueWorld(rules)
    made.say(Upgrade(version))
    for _ in range(messages):
        made.publish()
    return made


def finish(world: QueueWorld) -> list[int]:
    """Tick until nothing is left to do; how many effects each tick had."""
    counts = []
    while is_due(world):
        before = len(world.effects)
        world.say(Tick())
        counts.append(len(world.effects) - before)
    return counts


def is_due(world: QueueWorld) -> bool:
    return world.machine.deadline is not None and world.machine.deadline <= world.now


def test_a_backlog_is_handed_out_in_portions_and_in_order() -> None:
    one = world(10)
    one.consume(prefetch=100)
    assert len(one.effects) == ROWS
    assert finish(one) == [3, 3, 1]
    assert one.delivered() == list(range(10))


def test_before_that_version_one_entry_does_everything() -> None:
    one = world(10, version=BOUNDED - 1)
    one.consume(prefetch=100)
    assert one.delivered() == list(range(10))
    one.settle(1, 10, Outcome.REQUEUED)
    assert one.delivered() == list(range(10))
    assert not is_due(one)


@pytest.mark.parametrize("in_place", [False, True])
def test_nothing_overtakes_what_is_still_to_come_back(in_place: bool) -> None:
    one = world(10, Rules(requeue_in_place=in_place))
    one.consume(1, prefetch=10)
    finish(one)
    one.take()
    one.publish()  # number 10, behind all of them
    one.consume(2, prefetch=100, session=OTHER)
    assert one.delivered() == [10]
    one.publish()
    assert one.delivered() == [11]
    one.say(Cancel(consumer(1), UponCancel.REQUEUED))
    one.publish()
    assert sum(finish(one)) > 0
    assert one.delivered() == [*range(10), 12]


def test_a_consumer_that_requeues_all_gets_them_again_in_order() -> None:
    one = world(10)
    one.consume(prefetch=100)
    finish(one)
    one.take()
    one.settle(1, 10, Outcome.REQUEUED)
    assert one.machine.figures().unacknowledged == 7 and one.machine.figures().ready == ROWS
    finish(one)
    assert one.delivered() == list(range(10))
    assert all(deliver.delivery_count == 1 for deliver in one.machine.checked_out(consumer()))


def test_rejected_messages_die_in_portions_and_in_order() -> None:
    one = world(10, Rules(dead_letters=DeadLetters.AT_MOST_ONCE))
    one.consume(prefetch=100)
    finish(one)
    one.take()
    one.settle(1, 10, Outcome.REJECTED)
    assert len(one.effects) == ROWS
    assert finish(one) == [3, 3, 1]
    assert one.dead() == [("rejected", name) for name in range(10)]


def test_a_new_limit_takes_effect_in_portions() -> None:
    one = world(10, Rules(dead_letters=DeadLetters.AT_MOST_ONCE))
    one.say(Policy(Rules(max_length=2, dead_letters=DeadLetters.AT_MOST_ONCE)))
    assert max(finish(one)) <= ROWS
    assert one.dead() == [("maxlen", name) for name in range(8)]
    assert one.ready() == [8, 9]


def test_retries_that_are_due_at_once_come_in_portions() -> None:
    one = world(10, Rules(retry=Retry.ALL, retry_min_ms=50))
    one.consume(prefetch=10)
    finish(one)
    one.settle(1, 10, Outcome.REQUEUED)
    finish(one)
    one.take()
    one.now += 60
    assert max(finish(one)) <= ROWS
    assert one.delivered() == list(range(10))


def test_a_node_that_is_gone_gives_back_in_portions() -> None:
    one = world(10)
    one.consume(1, prefetch=6)
    one.consume(2, prefetch=4)
    finish(one)
    one.say(SessionGone(SESSION))
    assert one.machine.figures().consumers == 0
    assert max(finish(one)) == 0
    assert sorted(one.ready()) == list(range(10))


def test_a_node_that_cannot_be_reached_for_too_long_gives_back_in_portions() -> None:
    one = world(10, Rules(disconnected_timeout_ms=100))
    one.consume(prefetch=10)
    finish(one)
    one.say(NodeDown(SESSION))
    one.now += 200
    finish(one)
    assert one.ready() == list(range(10))


def test_a_purge_takes_what_is_still_to_come_back() -> None:
    one = world(10)
    one.consume(prefetch=100)
    finish(one)
    one.settle(1, 10, Outcome.REQUEUED)
    assert one.say(Purge()) == [Purged(10)]
    finish(one)
    assert one.ready() == [] and one.held() == {}
    assert one.machine.figures().unacknowledged == 0


@pytest.mark.parametrize("outcome", [Outcome.REJECTED, Outcome.REQUEUED])
def test_a_purge_leaves_what_is_for_the_dead_letters(outcome: Outcome) -> None:
    """They were rejected, or failed too often, before anybody purged: the queue has not buried them yet."""
    one = world(10, Rules(dead_letters=DeadLetters.AT_LEAST_ONCE, delivery_limit=0))
    one.consume(prefetch=100)
    finish(one)
    one.settle(1, 10, outcome)
    assert one.say(Purge()) == [Purged(0)]
    finish(one)
    assert one.machine.figures().dead == 10
    assert one.ready() == []


def test_a_get_is_not_told_that_the_queue_is_empty_while_messages_come_back() -> None:
    one = world(10, Rules(delivery_limit=1))
    one.consume(1, prefetch=5)
    one.consume(2, prefetch=5, session=OTHER)
    finish(one)
    one.settle(1, 5, Outcome.REJECTED)
    one.settle(1, 5, Outcome.RELEASED, by=2, session=OTHER)
    one.say(Cancel(consumer(1), UponCancel.RETURNED))
    one.say(Cancel(consumer(2, OTHER), UponCancel.RETURNED))
    assert isinstance(one.get(3), TakenMessage)


def test_a_get_takes_what_comes_back_before_what_is_fresh() -> None:
    one = world(8)
    one.consume(prefetch=8)
    finish(one)
    one.say(
        Cancel(consumer(1), UponCancel.REQUEUED),
    )
    one.publish()
    assert [name for number in range(2, 11) for _ in [one.get(number)] for name in one.held(number).values()] == list(
        range(9)
    )


def test_a_get_finds_what_is_still_to_come_back() -> None:
    one = world(5)
    one.consume(prefetch=100)
    finish(one)
    one.say(Cancel(consumer(), UponCancel.REQUEUED))
    found = [one.get(number) for number in range(2, 7)]
    assert all(isinstance(got, TakenMessage) for got in found)
    assert [name for number in range(2, 7) for name in one.held(number).values()] == list(range(5))
    assert one.get(7) is None


def test_what_is_still_to_come_back_has_its_place_in_a_full_queue() -> None:
    one = world(10, Rules(max_length=10, reject_publish=True))
    one.consume(prefetch=100)
    finish(one)
    one.say(Cancel(consumer(), UponCancel.REQUEUED))
    assert one.publish() is ResultCode.REJECTED
    finish(one)
    assert one.ready() == list(range(10))


def test_a_get_that_finds_too_much_expired_is_to_be_said_again() -> None:
    """It was answered when all was buried, in one entry; "empty" would be wrong."""
    one = world(0, Rules(dead_letters=DeadLetters.AT_MOST_ONCE), version=GETS_BOUNDED)
    for _ in range(10):
        one.publish(expiration_ms=50)
    one.publish()
    one.now += 100
    assert one.get(1) is ResultCode.LATER
    assert len(one.effects) <= 2 * ROWS, "the tick's worth, and what the get has found"
    assert one.get(1) is ResultCode.LATER, "its number is as good as new"
    found = one.get(1)
    while found is ResultCode.LATER:
        found = one.get(1)
    assert isinstance(found, TakenMessage)
    assert list(one.held(1).values()) == [10]
    assert one.dead() == [("expired", name) for name in range(10)]


def test_a_get_waits_for_what_is_still_to_come_back() -> None:
    one = world(10, Rules(retry=Retry.ALL, retry_min_ms=50), version=GETS_BOUNDED)
    one.consume(prefetch=100)
    finish(one)
    one.say(Cancel(consumer(), UponCancel.REQUEUED))
    assert one.get(2) is ResultCode.LATER, "all of them are for later, but this entry cannot know it"
    finish(one)
    assert one.get(2) is None or is_due(one)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 3), st.sampled_from([None, 40, 200])),
        st.tuples(st.just("settle"), st.integers(1, 25), st.integers(1, 25), st.sampled_from(Outcome)),
        st.tuples(st.just("cancel"), st.sampled_from([UponCancel.REQUEUED, UponCancel.RETURNED])),
        st.tuples(st.just("consume"), st.integers(0, 30)),
        st.tuples(st.just("purge")),
        st.tuples(st.just("tick"), st.integers(0, 50)),
    ),
    max_size=40,
)
RULES = st.builds(
    Rules,
    message_ttl_ms=st.sampled_from([None, 100]),
    max_length=st.sampled_from([None, 6]),
    delivery_limit=st.sampled_from([None, 1]),
    dead_letters=st.sampled_from(DeadLetters),
    retry=st.sampled_from([Retry.DISABLED, Retry.ALL]),
    retry_min_ms=st.just(30),
)


class Mirrored(QueueWorld):
    """Beside it a member that begins from a snapshot before each entry: it does the same with it."""

    def apply(self, data: bytes) -> list[Result]:
        late = restored(self.machine)
        results = super().apply(data)
        (theirs,) = late.apply([Entry(self.index, 1, EntryKind.COMMAND, data)])
        assert theirs == results
        assert late.state_digest() == self.machine.state_digest()
        return results


@settings(max_examples=150, deadline=None)
@given(RULES, STEPS, st.sampled_from([BOUNDED, VERSION_NEWEST]))
def test_every_message_has_one_fate_and_members_agree_on_it(
    rules: Rules, steps: list[tuple[Any, ...]], version: int
) -> None:
    """Whatever else is said in the middle; and everything is finished in the end."""
    one = Mirrored(rules)
    one.say(Upgrade(version))
    number = purged = 0
    for step in steps:
        match step:
            case ("publish", count, ttl):
                for _ in range(count):
                    one.publish(expiration_ms=ttl)
            case ("settle", first, length, outcome):
                one.settle(first, length, outcome, by=number)
            case ("cancel", held):
                one.say(Cancel(consumer(number), held))
            case ("consume", prefetch):
                number += 1
                one.consume(number, prefetch)
            case ("purge",):
                (taken,) = one.say(Purge())
                assert isinstance(taken, Purged)
                purged += taken.messages
            case ("tick", ms):
                one.now += ms
                one.say(Tick())
        figures, counters = one.machine.figures(), one.machine.counters
        assert figures.dead == (counters.dead if rules.dead_letters is DeadLetters.AT_LEAST_ONCE else 0), "all are held"
        there = figures.ready + figures.unacknowledged + figures.delayed
        assert counters.published == there + counters.acknowledged + counters.dead + purged
        assert len(one.take()) <= 3 * (ROWS + 2), "a publish of three is three entries, and may tell who is active"
    assert len(finish(one)) <= 3 * one.machine.counters.published + 5, "it would never end"
    assert not one.machine.state.returning.count
