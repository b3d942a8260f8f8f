"""When messages and queues come to their end of life."""

from __future__ import annotations

import pytest

from broker.catalog.policy import EffectiveArguments
from broker.queues.consumer import Consumer
from broker.queues.queue_type import EXPIRES_RETRY_MS, DeathReason, Outcome
from broker.records import QueueRecord
from classic.expiry import Alarm, expiry_of
from tests.unit.classic.classic_world import Host, Sink, World, record_of

NOW = 5_000


@pytest.mark.parametrize(
    ("own", "queue", "expected"),
    [
        (None, None, None),
        (None, 100, NOW + 100),
        (70, None, NOW + 70),
        (70, 100, NOW + 70),
        (100, 70, NOW + 70),
        (0, 100, NOW),
        (100, 0, NOW),
        (0, None, NOW),
    ],
)
def test_the_shorter_of_two_times_to_live_counts(own: int | None, queue: int | None, expected: int | None) -> None:
    assert expiry_of(own, EffectiveArguments(message_ttl_ms=queue), NOW) == expected


class Rung:
    """An alarm and when it rang."""

    def __init__(self) -> None:
        self.host = Host()
        self.alarm = Alarm(self.host)
        self.at: list[int] = []

    def due(self) -> list[int]:
        return [when for when, _ in self.host.calls]

    def ring(self) -> None:
        (when,) = self.due()
        self.host.make_calls(when)


def test_an_alarm_rings_once_at_its_time() -> None:
    rung = Rung()
    rung.alarm.set(10, rung.at.append)
    assert rung.due() == [10]
    rung.ring()
    assert rung.at == [10] and rung.due() == []


def test_an_alarm_that_is_set_anew_forgets_the_time_before() -> None:
    rung = Rung()
    rung.alarm.set(10, rung.at.append)
    rung.alarm.set(20, rung.at.append)
    assert rung.due() == [20]


def test_an_alarm_set_to_the_time_it_has_asks_the_host_for_nothing() -> None:
    rung = Rung()
    rung.alarm.set(10, rung.at.append)
    (before,) = rung.host.calls
    rung.alarm.set(10, lambda now: pytest.fail("the call that was set first counts"))
    assert rung.host.calls == [before]
    rung.ring()
    assert rung.at == [10]


def test_an_alarm_may_be_set_to_the_same_time_again_after_it_rang() -> None:
    rung = Rung()
    rung.alarm.set(10, rung.at.append)
    rung.ring()
    rung.alarm.set(10, rung.at.append)
    assert rung.due() == [10]


def test_a_cancelled_alarm_is_silent_and_may_be_cancelled_twice() -> None:
    rung = Rung()
    rung.alarm.cancel()
    rung.alarm.set(10, rung.at.append)
    rung.alarm.cancel()
    rung.alarm.cancel()
    assert rung.due() == []


def world(**effective: object) -> World:
    return World([record_of("q", 1)], effective=EffectiveArguments(**effective))  # type: ignore[arg-type]


def test_an_old_message_is_dead_lettered_and_the_one_behind_it_served() -> None:
    node = world(dead_letter_exchange="dead")
    node.publish(["q"], [b"brief"], expiration_ms=200)
    node.publish(["q"], [b"long"], expiration_ms=100_000)
    node.tick(3)
    assert node.host.dead == [("q", DeathReason.EXPIRED, b"brief")]
    assert node.waiting("q") == [(b"long", False)]


def test_a_message_waits_behind_one_that_lives_longer() -> None:
    """Only the head is looked at: an old message dies when it gets there."""
    node = world(dead_letter_exchange="dead")
    node.publish(["q"], [b"long"])
    node.publish(["q"], [b"brief"], expiration_ms=200)
    node.tick(5)
    assert node.queues["q"].ready_count == 2 and node.host.dead == []
    assert node.get("q", no_ack=True) is not None
    assert node.get("q") is None
    assert node.host.dead == [("q", DeathReason.EXPIRED, b"brief")]


def test_what_a_length_limit_brings_to_the_head_dies_in_time() -> None:
    """The message that made room had no time to live, so nothing was armed for the one behind it."""
    node = world(max_length=1, dead_letter_exchange="dead")
    node.publish(["q"], [b"makes room"])
    node.publish(["q"], [b"brief"], expiration_ms=200)
    node.tick(3)
    assert node.host.dead == [("q", DeathReason.MAXLEN, b"makes room"), ("q", DeathReason.EXPIRED, b"brief")]
    assert node.queues["q"].ready_count == 0


def test_a_get_counts_only_messages_that_can_still_be_had() -> None:
    node = world()
    node.publish(["q"], [b"long"])
    node.publish(["q"], [b"brief"], expiration_ms=200)
    node.tick(3)
    got = node.get("q")
    assert got is not None and got.remaining == 0


def test_what_the_only_consumer_has_no_room_for_dies_in_time() -> None:
    """Its queue looks no further then, but at how long what is next may live."""
    node = world(dead_letter_exchange="dead")
    queue, sink = node.queues["q"], Sink()
    queue.consume(Consumer("c", queue, sink, prefetch=1), node.now)
    node.publish(["q"], [b"held"])
    node.publish(["q"], [b"brief"], expiration_ms=200)
    node.turn()
    assert [body for body, _ in sink.got] == [b"held"]
    node.tick(3)
    assert node.host.dead == [("q", DeathReason.EXPIRED, b"brief")]


def test_a_time_to_live_of_zero_is_delivered_at_once_or_never() -> None:
    node = world(message_ttl_ms=0, dead_letter_exchange="dead")
    sink = Sink()
    node.publish(["q"], [b"nobody is there"])
    assert node.host.dead == [("q", DeathReason.EXPIRED, b"nobody is there")]
    node.queues["q"].consume(Consumer("c", node.queues["q"], sink), node.now)
    node.publish(["q"], [b"somebody is"])
    node.turn()
    assert sink.got == [(b"somebody is", False)]
    assert len(node.host.dead) == 1


def test_what_a_consumer_holds_does_not_age_until_it_comes_back() -> None:
    node = world(message_ttl_ms=200, dead_letter_exchange="dead")
    node.publish(["q"], [b"held"])
    got = node.get("q")
    assert got is not None
    node.tick(5)
    assert node.host.dead == []
    node.queues["q"].settle(got.piece, Outcome.REQUEUED, node.now)
    node.turn()
    assert node.host.dead == [("q", DeathReason.EXPIRED, b"held")]


def test_a_message_that_grew_old_while_the_node_was_down_is_dead_lettered_at_the_start() -> None:
    node = world(message_ttl_ms=200, dead_letter_exchange="dead")
    node.publish(["q"], [b"old"], confirm=1)
    node.loop.run_soon()
    node.disk.kill()
    node.now += 1_000
    node.start()
    assert node.host.dead == [("q", DeathReason.EXPIRED, b"old")]
    assert node.waiting("q") == []


def test_an_unused_queue_is_deleted_and_a_used_one_is_not() -> None:
    node = world(expires_ms=300)
    node.tick(2)
    node.get("q")
    node.tick(2)
    assert node.host.deleted == []
    node.tick(1)
    assert node.host.deleted == ["q"]


def test_a_queue_with_a_consumer_is_in_use_and_its_time_begins_when_the_last_one_leaves() -> None:
    node = world(expires_ms=300)
    consumer = Consumer("c", node.queues["q"], Sink())
    node.queues["q"].consume(consumer, node.now)
    node.tick(10)
    assert node.host.deleted == []
    node.queues["q"].cancel(consumer, node.now)
    node.tick(2)
    assert node.host.deleted == []
    node.tick(1)
    assert node.host.deleted == ["q"]


def test_a_queue_that_could_not_be_deleted_when_it_expired_is_asked_for_again_unless_it_was_used() -> None:
    node = world(expires_ms=300)
    node.tick(3)
    assert node.host.deleted == ["q"]
    node.tick(EXPIRES_RETRY_MS // 100)
    assert node.host.deleted == ["q", "q"]
    node.get("q")
    assert [unused() for unused in node.host.still_unused] == [False, False]
    node.tick(2)
    node.tick(EXPIRES_RETRY_MS // 100 - 3)
    assert node.host.deleted == ["q", "q"]


def test_a_publish_is_no_use_of_a_queue() -> None:
    node = world(expires_ms=300)
    node.tick(2)
    node.publish(["q"], [b"1"])
    node.tick(1)
    assert node.host.deleted == ["q"]


def test_a_deleted_queue_has_no_alarms() -> None:
    node = world(expires_ms=300, message_ttl_ms=100)
    node.publish(["q"], [b"1"])
    assert node.host.calls
    node.kind.delete(node.queues["q"], node.now)
    assert node.host.calls == []


class OneFleeting(World):
    """Messages live for a second in the queue `fleeting`, and for ever elsewhere."""

    def effective_of(self, record: QueueRecord) -> EffectiveArguments:
        return EffectiveArguments(message_ttl_ms=1_000 if record.name == "fleeting" else None)


@pytest.mark.parametrize("first", ["fleeting", "lasting"])
def test_of_a_message_in_two_queues_each_keeps_its_own_time_to_live_over_a_crash(first: str) -> None:
    world = OneFleeting([record_of("fleeting", 1), record_of("lasting", 2)])
    world.publish(sorted(["fleeting", "lasting"], key=lambda name: name != first), [b"a"], confirm=1)
    world.loop.run_soon()
    world.disk.kill()
    world.start()
    world.now += 2_000
    world.tick()
    assert world.waiting("lasting") == [(b"a", True)]
    assert world.waiting("fleeting") == []
