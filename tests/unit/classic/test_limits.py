"""How long a queue may get: the arithmetic, and what a queue does with it."""

from __future__ import annotations

import pytest

from broker.catalog.policy import EffectiveArguments
from broker.queues.consumer import Consumer
from broker.queues.queue_type import DeathReason, Outcome
from classic.limits import REJECT_PUBLISH_DLX, dead_letters_refused, excess, over, refuses
from tests.unit.classic.classic_world import Sink, World, record_of

REJECT = "reject-publish"


@pytest.mark.parametrize(
    ("length", "size", "count", "held", "expected"),
    [
        (None, None, 1_000_000, 1 << 40, 0),
        (3, None, 3, 999, 0),
        (3, None, 5, 999, 2),
        (0, None, 1, 0, 1),
        (0, None, 0, 0, 0),
        (None, 10, 1, 10, 0),
        (None, 10, 4, 11, 1),  # by bytes one at a time: how many bytes the next one has is not known
        (None, 0, 1, 0, 0),  # an empty body is not longer than nothing
        (None, 0, 1, 1, 1),
        (3, 10, 5, 5, 2),
        (3, 10, 2, 11, 1),
        (3, 10, 6, 11, 3),
    ],
)
def test_how_many_messages_are_too_many(
    length: int | None, size: int | None, count: int, held: int, expected: int
) -> None:
    effective = EffectiveArguments(max_length=length, max_length_bytes=size)
    assert excess(effective, count, held) == expected
    assert over(effective, count, held) == (expected > 0)


def test_an_empty_queue_is_never_too_long_whatever_its_bytes() -> None:
    """Bytes of a queue that was recovered in part are an estimate."""
    assert excess(EffectiveArguments(max_length_bytes=10), 0, 11) == 0


@pytest.mark.parametrize(("overflow", "expected"), [("drop-head", False), (REJECT, True), (REJECT_PUBLISH_DLX, True)])
def test_only_a_queue_that_does_not_drop_its_head_refuses(overflow: str, expected: bool) -> None:
    effective = EffectiveArguments(max_length=1, overflow=overflow)
    assert refuses(effective, 2, 0) is expected
    assert not refuses(effective, 1, 0)


def test_what_was_refused_is_dead_lettered_where_both_are_asked_for() -> None:
    asked = {"overflow": REJECT_PUBLISH_DLX, "dead_letter_exchange": "dead"}
    assert dead_letters_refused(EffectiveArguments(**asked))  # type: ignore[arg-type]
    assert not dead_letters_refused(EffectiveArguments(overflow=REJECT_PUBLISH_DLX))
    assert not dead_letters_refused(EffectiveArguments(overflow=REJECT, dead_letter_exchange="dead"))


def world(**effective: object) -> World:
    return World([record_of("q", 1)], effective=EffectiveArguments(**effective))  # type: ignore[arg-type]


def test_the_oldest_messages_make_room_and_are_dead_lettered() -> None:
    node = world(max_length=2, dead_letter_exchange="dead")
    node.publish(["q"], [b"1", b"2", b"3", b"4"])
    assert [body for body, _ in node.waiting("q")] == [b"3", b"4"]
    assert node.host.dead == [("q", DeathReason.MAXLEN, b"1"), ("q", DeathReason.MAXLEN, b"2")]


def test_a_limit_in_bytes_takes_each_message_of_a_run_by_itself() -> None:
    node = world(max_length_bytes=5, dead_letter_exchange="dead")
    node.publish(["q"], [b"aaa", b"bb", b"c"])
    assert [body for body, _ in node.waiting("q")] == [b"bb", b"c"]
    assert [body for _, _, body in node.host.dead] == [b"aaa"]


def test_a_message_that_is_larger_than_the_limit_does_not_stay() -> None:
    node = world(max_length_bytes=5)
    node.publish(["q"], [b"a", b"much too large"])
    assert node.waiting("q") == []


def test_a_queue_that_refuses_keeps_what_it_has_and_says_no_to_the_publisher() -> None:
    node = world(max_length=2, overflow=REJECT, dead_letter_exchange="dead")
    node.publish(["q"], [b"1", b"2"], confirm=1)
    node.publish(["q"], [b"3"], confirm=3)
    node.loop.run_soon()
    assert node.confirmed.accepted == {1, 2} and node.confirmed.refused == {3}
    assert [body for body, _ in node.waiting("q")] == [b"1", b"2"]
    assert node.host.dead == []


def test_what_a_queue_refuses_goes_to_its_dead_letter_exchange_if_it_shall() -> None:
    node = world(max_length=1, overflow=REJECT_PUBLISH_DLX, dead_letter_exchange="dead")
    node.publish(["q"], [b"1"], confirm=1)
    node.publish(["q"], [b"2", b"3"], confirm=2)
    assert node.confirmed.refused == {2, 3}
    assert [body for _, _, body in node.host.dead] == [b"2", b"3"]


def test_what_consumers_hold_does_not_count_until_it_comes_back() -> None:
    node = world(max_length=1)
    node.publish(["q"], [b"held"])
    got = node.get("q")
    assert got is not None
    node.publish(["q"], [b"ready"])
    assert node.queues["q"].ready_count == 1
    node.queues["q"].settle(got.piece, Outcome.REQUEUED, node.now)
    assert [body for body, _ in node.waiting("q")] == [b"ready"]


def test_what_a_consumer_has_room_for_is_never_too_much() -> None:
    node = world(max_length=1, overflow=REJECT)
    sink = Sink()
    node.queues["q"].consume(Consumer("c", node.queues["q"], sink), node.now)
    for number in range(5):
        node.publish(["q"], [b"%d" % number], confirm=number)
    node.loop.run_soon()
    node.turn()
    assert [body for body, _ in sink.got] == [b"0", b"1", b"2", b"3", b"4"]
    assert node.confirmed.refused == set()


def test_the_lowest_priority_makes_room_first() -> None:
    node = world(max_length=2, max_priority=2)
    node.publish(["q"], [b"high"], priority=2)
    node.publish(["q"], [b"low"], priority=0)
    node.publish(["q"], [b"middle"], priority=1)
    assert [body for body, _ in node.waiting("q")] == [b"high", b"middle"]


def test_a_limit_that_a_policy_brings_later_counts_at_once() -> None:
    node = world()
    node.publish(["q"], [b"1", b"2", b"3"])
    node.queues["q"].policy_changed(EffectiveArguments(max_length=1), node.now)
    assert [body for body, _ in node.waiting("q")] == [b"3"]


def test_a_queue_that_got_a_shorter_limit_while_the_node_was_down_obeys_it_at_the_start() -> None:
    node = world()
    node.publish(["q"], [b"1", b"2", b"3"], confirm=1)
    node.loop.run_soon()
    node.disk.kill()
    node.effective = EffectiveArguments(max_length=2, dead_letter_exchange="dead")
    node.start()
    assert [body for body, _ in node.waiting("q")] == [b"2", b"3"]
    assert node.host.dead == [("q", DeathReason.MAXLEN, b"1")]
