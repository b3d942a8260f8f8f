"""Records of a classic queue, folded: the lives are what a list of single messages says."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics.fold.classic_queue import ClassicQueueFold
from analytics.fold.lives import NODE_KILLED, Life, LifeState
from broker.queues.queue_type import BackReason
from classic.store.log_records import Death, DoneReason, Part, Published, PublishOrigin
from classic.stored_run import LEVEL_SHIFT

AT = 1_700_000_000_000  # ms


UNKNOWN_ORIGIN = PublishOrigin()


def record(count: int, origin: PublishOrigin = UNKNOWN_ORIGIN) -> Published:
    return Published(0, [(7, 0)], 4, count, 10 * count, None, "amq.topic", "key", origin)


def told(lives: list[Life]) -> list[tuple[int, int, LifeState]]:
    return [(life.entry + life.first, life.count, life.state) for life in lives]


def test_a_run_that_is_acknowledged_together_is_one_life() -> None:
    fold = ClassicQueueFold()
    fold.published(100, record(50), AT)
    fold.done(3, DoneReason.ACKNOWLEDGED, [(100, 150)], AT + 20)
    (life,) = fold.lives.take_ended()
    assert (life.entry, life.first, life.count, life.state) == (100, 0, 50, LifeState.ACKED)
    assert (life.publish.at, life.ended_at, life.times_out, life.last_consumer) == (AT, AT + 20, 1, 3)
    assert life.first_out_at is None, "the log does not say when it was handed out"
    assert fold.lives.going_on() == []


def test_each_publisher_of_a_run_has_its_part() -> None:
    fold = ClassicQueueFold()
    origin = PublishOrigin((Part(1, 5, 2), Part(2, 0, 3)), True, Death(9, (4, 0, 0), 1))
    fold.published(10, record(5, origin), AT)
    first, second = fold.lives.going_on()
    assert (first.first, first.count, first.publish.actor, first.publish.publish_no) == (0, 2, 1, 5)
    assert (second.first, second.count, second.publish.actor, second.publish.publish_no) == (2, 3, 2, None)
    assert first.publish.confirm and first.publish.died_in == (9, (4, 0, 0), 1)
    assert first.publish.body_bytes + second.publish.body_bytes == 50


def test_a_range_over_several_runs_ends_the_messages_of_each() -> None:
    fold = ClassicQueueFold()
    for first in (0, 10, 20):
        fold.published(first, record(10), AT)
    fold.done(1, DoneReason.EXPIRED, [(5, 25)], AT)
    assert told(fold.lives.take_ended()) == [
        (5, 5, LifeState.EXPIRED),
        (10, 10, LifeState.EXPIRED),
        (20, 5, LifeState.EXPIRED),
    ]
    assert told(fold.lives.going_on()) == [(0, 5, LifeState.READY), (25, 5, LifeState.READY)]
    assert all(life.times_out == 0 for life in fold.lives.going_on())


def test_what_came_back_had_been_out() -> None:
    fold = ClassicQueueFold()
    fold.published(0, record(4), AT)
    fold.came_back(6, BackReason.CONNECTION_LOST, [(1, 3)], AT)
    fold.came_back(7, BackReason.NACKED, [(1, 2)], AT)
    lives = {life.first: life for life in fold.lives.going_on()}
    assert lives[1].returned == {"connection lost": 1, "nacked": 1}
    assert (lives[1].times_out, lives[1].first_consumer, lives[1].last_consumer) == (2, 6, 7)
    assert (lives[2].returned, lives[0].returned) == ({"connection lost": 1}, {})


def test_who_had_it_when_the_node_was_killed_is_not_taken_for_the_one_who_settled_it_later() -> None:
    """The first word of the next process may be that somebody else has it, or has acknowledged it already."""
    fold = ClassicQueueFold(with_steps=True)
    fold.published(0, record(4), AT)
    for first in range(4):
        fold.handed_out(5, [(first, first + 1)], AT + 10)
    fold.done(5, DoneReason.ACKNOWLEDGED, [(0, 1)], AT + 20)
    fold.done(6, DoneReason.ACKNOWLEDGED, [(1, 2)], AT + 9_000)
    fold.handed_out(5, [(2, 3)], AT + 9_000)  # another one: processes number them anew
    fold.came_back(6, BackReason.NACKED, [(3, 4)], AT + 9_000)
    lives = {life.first: life for life in [*fold.lives.take_ended(), *fold.lives.going_on()]}
    killed = {NODE_KILLED: 1}
    assert [lives[at].returned for at in range(4)] == [{}, killed, killed, {**killed, "nacked": 1}]
    assert [lives[at].times_out for at in range(4)] == [1, 2, 2, 2]
    assert [lives[at].last_consumer for at in range(4)] == [5, 6, 5, 6]
    assert [lives[at].hold_ms for at in (0, 1)] == [10, None], "nobody says when the other one was given it"
    assert [(step.what, step.consumer) for step in fold.lives.take_steps() if step.first == 1] == [
        ("delivered", 5), ("returned", 5), ("acked", 6),
    ]  # fmt: skip


def test_messages_from_before_what_is_read_are_partial() -> None:
    fold = ClassicQueueFold()
    fold.came_back(6, BackReason.NACKED, [(5, 9)], AT)
    fold.published(20, record(5), AT)
    fold.done(6, DoneReason.ACKNOWLEDGED, [(5, 7), (18, 22)], AT)
    assert told(fold.lives.take_ended()) == [
        (5, 2, LifeState.ACKED),
        (18, 2, LifeState.ACKED),
        (20, 2, LifeState.ACKED),
    ]
    going_on = fold.lives.going_on()
    assert told(going_on) == [(7, 2, LifeState.READY), (22, 3, LifeState.READY)]
    assert [life.partial for life in going_on] == [True, False]


def test_records_without_a_reason_say_that_messages_are_gone() -> None:
    fold = ClassicQueueFold()
    fold.published(0, record(3), None)
    fold.done(0, DoneReason.NOT_SAID, [(0, 1)], None)
    fold.done(0, 200, [(1, 2)], None)  # a later version has a reason that is not known here
    fold.deleted(None)
    assert [life.state for life in fold.lives.take_ended()] == [LifeState.UNKNOWN, LifeState.UNKNOWN, LifeState.DELETED]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["publish", "publish", "out", "back", "done", "done"]),
        st.integers(0, 40),
        st.integers(1, 12),
        st.sampled_from([DoneReason.ACKNOWLEDGED, DoneReason.EXPIRED, DoneReason.PURGED, DoneReason.REJECTED]),
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(STEPS, st.integers(0, 8))
def test_lives_are_what_single_messages_say(steps: list[tuple[str, int, int, DoneReason]], unseen: int) -> None:
    """`unseen` messages were published before what is read."""
    fold, end = ClassicQueueFold(), unseen
    state = dict.fromkeys(range(unseen), LifeState.READY)
    out, gone = dict.fromkeys(range(unseen), 0), {}
    touched: set[int] = set()
    for step, at, count, reason in steps:
        if step == "publish":
            fold.published(end, record(count), AT)
            state |= dict.fromkeys(range(end, end + count), LifeState.READY)
            out |= dict.fromkeys(range(end, end + count), 0)
            touched |= set(range(end, end + count))
            end += count
            continue
        chosen = [number for number in sorted(state) if at <= number < at + count]
        ranges = [(number, number + 1) for number in chosen]
        touched |= set(chosen)
        if step == "out":
            chosen = [number for number in chosen if state[number] is LifeState.READY]
            fold.handed_out(1, [(number, number + 1) for number in chosen], AT)
            for number in chosen:
                state[number], out[number] = LifeState.OUT, out[number] + 1
        elif step == "back":
            fold.came_back(1, BackReason.NACKED, joined(ranges), AT)
            for number in chosen:
                out[number] += state[number] is LifeState.READY
                state[number] = LifeState.READY
        else:
            fold.done(1, reason, joined(ranges), AT)
            for number in chosen:
                gone[number] = reason.name
                out[number] += state.pop(number) is LifeState.READY and reason in (
                    DoneReason.ACKNOWLEDGED,
                    DoneReason.REJECTED,
                )
    going_on = {
        number: (life.state, life.times_out)
        for life in fold.lives.going_on()
        for number in range(life.entry + life.first, life.entry + life.end)
    }
    assert going_on == {number: (state[number], out[number]) for number in state if number in touched}
    ended = {
        number: (life.state, life.times_out, life.partial)
        for life in fold.lives.take_ended()
        for number in range(life.entry + life.first, life.entry + life.end)
    }
    names = {"ACKNOWLEDGED": LifeState.ACKED}
    assert ended == {
        number: (names.get(name) or LifeState[name], out[number], number < unseen) for number, name in gone.items()
    }


def joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for first, end in ranges:
        if found and found[-1][1] == first:
            found[-1] = (found[-1][0], end)
        else:
            found.append((first, end))
    return found


def test_messages_of_a_lower_priority_may_come_later() -> None:
    high = 3 << LEVEL_SHIFT
    fold = ClassicQueueFold()
    fold.published(high, record(4), AT)
    fold.published(0, record(4), AT)
    fold.published(high + 4, record(2), AT)
    fold.done(3, DoneReason.ACKNOWLEDGED, [(high + 2, high + 5), (1, 2)], AT)
    assert told(fold.lives.take_ended()) == [
        (high + 2, 2, LifeState.ACKED),
        (high + 4, 1, LifeState.ACKED),
        (1, 1, LifeState.ACKED),
    ]


def test_a_sequence_that_was_given_away_is_not_given_again() -> None:
    fold = ClassicQueueFold()
    fold.published(10, record(5), AT)
    for first in (6, 12, 14):
        with pytest.raises(ValueError, match=f"sequence {first} was published twice"):
            fold.published(first, record(5), AT)


def test_what_a_start_settles_again_has_ended_as_it_was_told_first() -> None:
    """A start after a crash writes settlements that index segments know to the log once more, without a reason."""
    fold = ClassicQueueFold()
    fold.published(0, record(4), AT)
    fold.done(3, DoneReason.ACKNOWLEDGED, [(1, 3)], AT)
    fold.done(0, DoneReason.NOT_SAID, [(0, 4)], AT + 5)
    lives = sorted(fold.lives.take_ended(), key=lambda life: life.first)
    assert told(lives) == [(0, 1, LifeState.UNKNOWN), (1, 2, LifeState.ACKED), (3, 1, LifeState.UNKNOWN)]
    assert not any(life.partial for life in lives)
