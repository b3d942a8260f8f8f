"""The contract of broker/queues/queue_type.py: what holds for a queue of every kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.errors import AccessRefused
from broker.messages import browsed
from broker.messages.browsed import Browsed
from broker.queues.queue_type import DeathReason, Outcome, Queue
from native.content import messages
from tests.contract.kinds import Kind, kinds_for
from tests.contract.world import Taker, World, part


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each test is for all kinds that keep its rule. What holds for the others is in a module of their own."""
    if "kind" in metafunc.fixturenames:
        metafunc.parametrize("kind", kinds_for(metafunc.function.__name__), ids=lambda kind: kind.name)


@pytest.fixture
def world(kind: Kind, tmp_path: Path) -> Iterator[World]:
    world = World()
    world.opened = kind.open(world, tmp_path)
    yield world
    world.opened.close()


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


# ------------------------------------------------------------------------- order and presence


def test_messages_leave_in_the_order_in_which_they_came(world: World) -> None:
    queue = world.queue()
    for first in range(0, 30, 3):
        world.publish(queue, *numbered(3, first))
    world.turn()
    assert queue.ready_count == 30
    assert world.drain(queue) == numbered(30)


def test_a_run_of_a_thousand_messages_is_delivered_whole_and_in_order(world: World) -> None:
    queue = world.queue()
    _, taker = world.consumer(queue, no_ack=True)
    world.publish(queue, *numbered(1000))
    world.turn()
    assert taker.bodies == numbered(1000)


def test_a_run_published_to_several_queues_is_in_each_of_them(world: World) -> None:
    queues = [world.queue() for _ in range(3)]
    world.publish(queues, *numbered(5))
    world.turn()
    assert [world.drain(queue) for queue in queues] == [numbered(5)] * 3


def test_what_one_queue_settles_stays_in_the_others(world: World) -> None:
    one, other = queues = [world.queue() for _ in range(2)]
    world.publish(queues, *numbered(5))
    world.turn()
    world.drain(one)
    world.turn()
    assert world.drain(other) == numbered(5)


def test_large_and_empty_bodies_come_back_byte_for_byte(world: World) -> None:
    queue = world.queue()
    bodies = [b"", b"x" * 100_000, bytes(range(256)), b""]
    world.publish(queue, *bodies)
    world.turn()
    assert world.drain(queue) == bodies


def test_exchange_and_key_of_the_publish_come_with_each_delivery(world: World) -> None:
    queue = world.queue()
    _, taker = world.consumer(queue)
    world.publish(queue, b"a")
    world.turn()
    assert [(piece.exchange, piece.routing_key, piece.queue) for piece in taker.pieces] == [("", "key", queue)]


def test_the_details_that_are_shown_of_a_queue_are_not_kept_with_it(world: World) -> None:
    queue = world.queue()
    queue.statistics()
    assert not queue.counts().details


# ------------------------------------------------------------------------- get


def test_get_answers_one_message_and_how_many_are_ready_after_it(world: World) -> None:
    queue = world.queue()
    world.publish(queue, *numbered(3))
    world.turn()
    found = [world.get(queue) for _ in range(4)]
    assert [one and (one[0], one[1].remaining) for one in found] == [(b"0", 2), (b"1", 1), (b"2", 0), None]


def test_get_to_be_acknowledged_keeps_the_message_out_until_it_is_settled(world: World) -> None:
    queue = world.queue()
    world.publish(queue, b"a")
    world.turn()
    found = world.get(queue, no_ack=False)
    assert found is not None
    assert (queue.ready_count, queue.statistics().unacknowledged) == (0, 1)
    world.settle(None, found[1].piece, Outcome.REQUEUED)
    world.turn()
    again = world.get(queue)
    assert again is not None
    assert again[1].piece.redelivered


def test_get_with_automatic_acknowledgement_leaves_nothing_behind(world: World) -> None:
    queue = world.queue()
    world.publish(queue, b"a")
    world.turn()
    world.get(queue)
    assert (queue.ready_count, queue.statistics().unacknowledged) == (0, 0)


# ------------------------------------------------------------------------- browsing


def seen(found: Sequence[Browsed]) -> list[tuple[bytes, bool]]:
    """Body and redelivered flag of each."""
    return [(body, one.redelivered) for one in found for _, body in messages(one.content, 0, 1)]


def test_who_browses_sees_what_is_ready_in_its_order_and_changes_nothing(world: World) -> None:
    queue = world.queue()
    world.publish(queue, *numbered(3))
    world.publish(queue, b"3", b"4", persistent=False)
    world.turn()
    held, back = world.get(queue, no_ack=False), world.get(queue, no_ack=False)
    assert held is not None
    assert back is not None
    world.settle(None, back[1].piece, Outcome.REQUEUED)
    world.turn()
    for _ in range(2):
        assert seen(world.browse(queue)) == [(b"1", True), (b"2", False), (b"3", False), (b"4", False)]
        assert seen(world.browse(queue, 1, 2)) == [(b"2", False), (b"3", False)]
        assert world.browse(queue, 4, 1) == []
    assert (queue.ready_count, queue.statistics().unacknowledged) == (4, 1)
    first, *_, last = world.browse(queue)
    assert (first.exchange, first.routing_key, first.persistent, last.persistent) == ("", "key", True, False)
    assert world.drain(queue) == [b"1", b"2", b"3", b"4"]


def test_browsing_deep_into_a_backlog_takes_nothing_out_of_its_order(world: World) -> None:
    queue = world.queue()
    bodies = numbered(5_000)
    for start in range(0, 5_000, 10):
        world.publish(queue, *bodies[start : start + 10])
    world.turn()
    assert [body for body, _ in seen(world.browse(queue, 4_321, 50))] == bodies[4_321:4_371]
    assert [body for body, _ in seen(world.browse(queue, 4_995, 50))] == bodies[4_995:]
    assert world.browse(queue, 5_000, 1) == []
    assert world.purge(queue) == 5_000


def test_what_is_browsed_is_bounded_by_its_bytes_and_one_message_comes_in_any_case(world: World) -> None:
    queue = world.queue()
    for _ in range(3):
        world.publish(queue, bytes(browsed.BYTES_MAX // 2))
    world.publish(queue, bytes(browsed.BYTES_MAX + 1))
    world.turn()
    assert len(world.browse(queue)) == 1, "two of half the size do not fit with their properties"
    assert [len(body) for body, _ in seen(world.browse(queue, 3, 5))] == [browsed.BYTES_MAX + 1]


# ------------------------------------------------------------------------- settling


def test_acknowledged_messages_are_gone(world: World) -> None:
    queue = world.queue()
    consumer, taker = world.consumer(queue)
    world.publish(queue, *numbered(10))
    world.turn()
    world.settle_all(consumer, taker)
    world.turn()
    figures = queue.statistics()
    assert (figures.ready, figures.unacknowledged, figures.acknowledged) == (0, 0, 10)


def test_counts_are_those_of_the_statistics(world: World) -> None:
    queue = world.queue()
    world.consumer(queue, prefetch=3)
    world.publish(queue, *numbered(10))
    world.turn()
    figures = queue.statistics()
    found = (figures.ready, figures.unacknowledged, figures.published, figures.delivered)
    counts = queue.counts()
    assert (counts.ready, counts.unacknowledged, counts.published, counts.delivered) == found


def test_sizes_are_the_statistics_without_details(world: World) -> None:
    """Lists and metrics of very many queues ask for these."""
    queue = world.queue()
    consumer, taker = world.consumer(queue, prefetch=3)
    for bodies in (numbered(10), [bytes(100)]):
        world.publish(queue, *bodies)
        world.turn()
        sizes = replace(queue.sizes(), details={})
        assert sizes == replace(queue.statistics(), details={})
        assert (sizes.ready, sizes.unacknowledged, sizes.consumers) == (queue.ready_count, 3, 1)
    world.settle_all(consumer, taker)
    world.purge(queue)
    world.turn()
    sizes = replace(queue.sizes(), details={})
    assert (sizes.ready_bytes, sizes.ram, sizes.ram_bytes, sizes.memory_bytes) == (0, 0, 0, 0)
    assert sizes == replace(queue.statistics(), details={})


def test_requeued_messages_return_to_their_old_place_marked_redelivered(world: World) -> None:
    queue = world.queue()
    consumer, taker = world.consumer(queue, prefetch=3)
    world.publish(queue, *numbered(5))
    world.turn()
    assert taker.bodies == numbered(3)
    queue.cancel(consumer, world.now)
    world.settle_all(consumer, taker, Outcome.REQUEUED)
    world.turn()
    _, second = world.consumer(queue)
    world.turn()
    assert second.bodies == numbered(5)
    assert second.redelivered == [True, True, True, False, False]


def test_returned_messages_go_back_unmarked(world: World) -> None:
    queue = world.queue()
    consumer, taker = world.consumer(queue)
    world.publish(queue, *numbered(2))
    world.turn()
    queue.cancel(consumer, world.now)
    world.settle_all(consumer, taker, Outcome.RETURNED)
    _, second = world.consumer(queue)
    world.turn()
    assert (second.bodies, second.redelivered) == (numbered(2), [False, False])


def test_a_message_stays_marked_redelivered_when_it_is_returned_later(world: World) -> None:
    queue = world.queue()
    world.publish(queue, b"a")
    world.turn()
    for outcome in (Outcome.REQUEUED, Outcome.RETURNED):
        found = world.get(queue, no_ack=False)
        assert found is not None
        world.settle(None, found[1].piece, outcome)
    found = world.get(queue)
    assert found is not None
    assert found[1].piece.redelivered


def test_what_was_delivered_by_another_queue_before_comes_marked_redelivered(world: World) -> None:
    queue = world.queue()
    world.publish(queue, b"new")
    world.publish(queue, b"dead-lettered", redelivered=True)
    world.publish(queue, b"new")
    _, taker = world.consumer(queue)
    world.turn()
    assert taker.redelivered == [False, True, False]


def test_parts_of_a_slice_are_settled_in_any_order_each_its_own_way(world: World) -> None:
    queue = world.queue()
    consumer, taker = world.consumer(queue)
    world.publish(queue, *numbered(10))
    world.turn()
    (piece,) = taker.pieces
    queue.cancel(consumer, world.now)
    world.settle(consumer, part(piece, 8, 2), Outcome.REQUEUED)
    world.settle(consumer, part(piece, 3, 4), Outcome.ACKNOWLEDGED)
    world.settle(consumer, part(piece, 0, 1), Outcome.REQUEUED)
    world.settle(consumer, part(piece, 7, 1), Outcome.REJECTED)
    world.settle(consumer, part(piece, 1, 2), Outcome.REQUEUED)
    world.turn()
    assert queue.statistics().unacknowledged == 0
    assert world.drain(queue) == [b"0", b"1", b"2", b"8", b"9"]


def test_requeued_messages_are_delivered_again_to_a_consumer_with_room(world: World) -> None:
    queue = world.queue()
    consumer, taker = world.consumer(queue, prefetch=2)
    world.publish(queue, b"a", b"b", b"c")
    world.turn()
    world.settle_all(consumer, taker, Outcome.REQUEUED)
    world.turn()
    assert taker.bodies == [b"a", b"b", b"a", b"b"]
    assert taker.redelivered == [False, False, True, True]


# ------------------------------------------------------------------------- purge and delete


def test_purge_drops_what_is_ready_counts_it_and_leaves_what_is_out(world: World) -> None:
    queue = world.queue()
    consumer, taker = world.consumer(queue, prefetch=2)
    world.publish(queue, *numbered(7))
    world.turn()
    assert world.purge(queue) == 5
    assert queue.ready_count == 0
    queue.cancel(consumer, world.now)
    world.settle_all(consumer, taker, Outcome.REQUEUED)
    world.turn()
    assert world.drain(queue) == numbered(2)


def test_purged_messages_are_not_dead_lettered(world: World) -> None:
    queue = world.queue(x_dead_letter_exchange="dlx")
    world.publish(queue, *numbered(3))
    world.turn()
    world.purge(queue)
    assert world.dead == []


def test_deleting_answers_how_many_were_ready(world: World) -> None:
    queue = world.queue()
    world.publish(queue, *numbered(4))
    world.turn()
    world.get(queue, no_ack=False)
    assert world.opened.kind.delete(queue, world.now) == 3


def test_a_deleted_queue_ignores_what_still_comes_back_to_it(world: World) -> None:
    queue = world.queue(x_dead_letter_exchange="dlx")
    consumer, taker = world.consumer(queue)
    world.publish(queue, *numbered(3))
    world.turn()
    world.opened.kind.delete(queue, world.now)
    (piece,) = taker.pieces
    for number, outcome in enumerate((Outcome.ACKNOWLEDGED, Outcome.REQUEUED, Outcome.REJECTED)):
        world.settle(consumer, part(piece, number, 1), outcome)
    world.turn()
    assert (taker.bodies, world.dead) == (numbered(3), [])


# ------------------------------------------------------------------------- confirms


def test_every_publish_is_answered_exactly_once(world: World) -> None:
    queue = world.queue()
    expected = [tag for _ in range(20) for tag in world.publish(queue, *numbered(3), confirm=True)]
    world.turn()
    assert sorted(world.answers.accepted) == expected
    assert world.answers.refused == []


def test_a_run_for_several_queues_is_accepted_when_each_has_it(world: World) -> None:
    queues = [world.queue() for _ in range(3)]
    tags = world.publish(queues, b"a", b"b", confirm=True)
    world.turn()
    assert world.answers.accepted == tags


def test_a_transient_message_is_accepted_too(world: World) -> None:
    queue = world.queue()
    tags = world.publish(queue, b"a", confirm=True, persistent=False)
    world.turn()
    assert world.answers.accepted == tags


def test_what_was_delivered_and_acknowledged_at_once_is_still_confirmed(world: World) -> None:
    queue = world.queue()
    world.consumer(queue, no_ack=True)
    tags = world.publish(queue, b"a", confirm=True)
    world.turn()
    assert world.answers.accepted == tags


def test_what_was_published_to_a_queue_that_is_deleted_counts_as_confirmed(world: World) -> None:
    queue = world.queue()
    tags = world.publish(queue, b"a", b"b", confirm=True)
    world.opened.kind.delete(queue, world.now)
    world.turn()
    assert world.answers.accepted == tags


# ------------------------------------------------------------------------- consumers


def test_prefetch_is_never_exceeded(world: World) -> None:
    queue = world.queue()
    consumer, taker = world.consumer(queue, prefetch=4)
    for _ in range(5):
        world.publish(queue, *numbered(7))
        world.turn()
    assert (taker.most_outstanding, len(taker.bodies)) == (4, 4)
    world.settle_all(consumer, taker)
    world.turn()
    assert (taker.most_outstanding, len(taker.bodies)) == (4, 8)


def test_prefetch_does_not_limit_automatic_acknowledgement(world: World) -> None:
    queue = world.queue()
    _, taker = world.consumer(queue, prefetch=1, no_ack=True)
    world.publish(queue, *numbered(50))
    world.turn()
    assert len(taker.bodies) == 50
    assert queue.statistics().unacknowledged == 0


def test_more_than_one_portion_reaches_a_consumer_without_limits(world: World) -> None:
    queue = world.queue()
    _, taker = world.consumer(queue)
    for first in range(0, 5_000, 500):
        world.publish(queue, *numbered(500, first))
    world.turn()
    assert taker.bodies == numbered(5_000)


def test_a_sink_that_is_not_writable_gets_nothing_until_it_is(world: World) -> None:
    queue = world.queue()
    _, taker = world.consumer(queue)
    taker.writable = False
    world.publish(queue, *numbered(3))
    world.turn()
    assert taker.bodies == []
    taker.writable = True
    world.wake(queue)
    world.turn()
    assert taker.bodies == numbered(3)


def test_equal_consumers_take_turns(world: World) -> None:
    queue = world.queue()
    takers = [world.consumer(queue, tag, prefetch=1)[1] for tag in ("a", "b", "c")]
    world.publish(queue, *numbered(3))
    world.turn()
    assert sorted(body for taker in takers for body in taker.bodies) == numbered(3)
    assert [len(taker.bodies) for taker in takers] == [1, 1, 1]


def test_turns_go_on_from_batch_to_batch(world: World) -> None:
    queue = world.queue()
    takers = [world.consumer(queue, tag)[1] for tag in ("a", "b")]
    for number in range(6):
        world.publish(queue, b"%d" % number)
        world.turn()
    assert [len(taker.bodies) for taker in takers] == [3, 3]


def test_a_consumer_of_higher_priority_is_served_first_as_long_as_it_has_room(world: World) -> None:
    queue = world.queue()
    _, low = world.consumer(queue, "low", prefetch=10)
    _, high = world.consumer(queue, "high", prefetch=2, priority=5)
    world.publish(queue, *numbered(3))
    world.turn()
    assert (high.bodies, low.bodies) == ([b"0", b"1"], [b"2"])


def test_a_consumer_of_higher_priority_that_cannot_be_written_to_does_not_hold_up_others(world: World) -> None:
    queue = world.queue()
    _, low = world.consumer(queue, "low")
    _, high = world.consumer(queue, "high", priority=5)
    high.writable = False
    world.publish(queue, b"a")
    world.turn()
    assert (high.bodies, low.bodies) == ([], [b"a"])


def test_a_queue_starves_while_it_is_empty_and_an_own_consumer_has_room(world: World) -> None:
    """Consumers below priority 0 take messages to another cluster, and do not count."""
    queue = world.queue()
    world.consumer(queue, "far", prefetch=10, priority=-1)
    world.turn()
    assert not queue.is_starving
    consumer, taker = world.consumer(queue, "own", prefetch=1)
    world.turn()
    assert queue.is_starving == queue.accounted_here
    world.publish(queue, b"a")
    world.turn()
    assert (taker.bodies, queue.is_starving) == ([b"a"], False)
    world.settle_all(consumer, taker)
    world.turn()
    assert queue.is_starving == queue.accounted_here


def test_cancelling_leaves_what_is_out_with_the_client(world: World) -> None:
    queue = world.queue()
    consumer, taker = world.consumer(queue)
    world.publish(queue, b"a")
    world.turn()
    queue.cancel(consumer, world.now)
    world.publish(queue, b"b")
    world.turn()
    assert (taker.bodies, queue.statistics().unacknowledged, queue.ready_count) == ([b"a"], 1, 1)
    world.settle_all(consumer, taker)
    world.turn()
    assert queue.statistics().unacknowledged == 0


def test_cancelling_twice_does_nothing(world: World) -> None:
    queue = world.queue()
    consumer, _ = world.consumer(queue)
    queue.cancel(consumer, world.now)
    queue.cancel(consumer, world.now)
    assert queue.consumer_count == 0


def test_an_exclusive_consumer_keeps_others_out(world: World) -> None:
    queue = world.queue()
    consumer, _ = world.consumer(queue, exclusive=True)
    with pytest.raises(AccessRefused, match="queue 'queue-1' in vhost '/' in exclusive use"):
        world.consumer(queue, "other")
    assert queue.consumer_count == 1
    queue.cancel(consumer, world.now)
    world.consumer(queue, "other")


def test_where_others_consume_nobody_may_consume_exclusively(world: World) -> None:
    queue = world.queue()
    world.consumer(queue)
    with pytest.raises(AccessRefused, match="in exclusive use"):
        world.consumer(queue, "other", exclusive=True)


def test_get_goes_past_an_exclusive_consumer(world: World) -> None:
    queue = world.queue()
    _, taker = world.consumer(queue, exclusive=True)
    taker.writable = False
    world.publish(queue, b"a")
    world.turn()
    found = world.get(queue)
    assert found is not None
    assert found[0] == b"a"


# ------------------------------------------------------------------------- single active consumer


def test_with_a_single_active_consumer_only_the_first_gets_messages(world: World) -> None:
    queue = world.queue(x_single_active_consumer=True)
    first, first_taker = world.consumer(queue, "first", prefetch=1)
    second, second_taker = world.consumer(queue, "second")
    world.publish(queue, *numbered(3))
    world.turn()
    assert (first_taker.bodies, second_taker.bodies) == ([b"0"], [])
    assert (first.active, second.active) == (True, False)
    assert queue.statistics().single_active_consumer_tag == "first"


def test_the_next_in_line_takes_over_when_the_active_consumer_leaves(world: World) -> None:
    queue = world.queue(x_single_active_consumer=True)
    first, first_taker = world.consumer(queue, "first", prefetch=1)
    _, second = world.consumer(queue, "second")
    _, third = world.consumer(queue, "third")
    world.publish(queue, *numbered(3))
    world.turn()
    queue.cancel(first, world.now)
    world.settle_all(first, first_taker, Outcome.REQUEUED)
    world.turn()
    assert (second.bodies, second.redelivered, third.bodies) == (numbered(3), [True, False, False], [])


def test_a_waiting_consumer_that_leaves_changes_nothing(world: World) -> None:
    queue = world.queue(x_single_active_consumer=True)
    _, first = world.consumer(queue, "first")
    second, _ = world.consumer(queue, "second")
    queue.cancel(second, world.now)
    world.publish(queue, b"a")
    world.turn()
    assert first.bodies == [b"a"]


def test_nobody_consumes_exclusively_where_there_is_a_single_active_consumer(world: World) -> None:
    queue = world.queue(x_single_active_consumer=True)
    with pytest.raises(AccessRefused, match="in exclusive use"):
        world.consumer(queue, exclusive=True)


# ------------------------------------------------------------------------- time to live


def test_a_message_of_the_queues_ttl_dies_and_is_dead_lettered_as_expired(world: World) -> None:
    queue = world.queue(x_message_ttl=1_000, x_dead_letter_exchange="dlx")
    world.publish(queue, b"a")
    world.turn()
    world.pass_time(999)
    assert (queue.ready_count, world.dead) == (1, [])
    world.pass_time(2)
    assert queue.ready_count == 0
    assert world.dead == [(DeathReason.EXPIRED, "", "key", b"a", True)]


def test_of_the_queues_ttl_and_the_messages_own_the_shorter_counts(world: World) -> None:
    queue = world.queue(x_message_ttl=1_000)
    world.publish(queue, b"short", expiration_ms=100)
    world.publish(queue, b"long", expiration_ms=100_000)
    world.turn()
    world.pass_time(101)
    assert queue.ready_count == 1
    world.pass_time(900)
    assert queue.ready_count == 0


def test_a_message_expires_at_the_head_only(world: World) -> None:
    queue = world.queue()
    world.publish(queue, b"lives on")
    world.publish(queue, b"short", expiration_ms=100)
    world.turn()
    world.pass_time(1_000)
    assert queue.ready_count == 2
    found = world.get(queue)
    assert found is not None
    assert found[0] == b"lives on"
    assert world.get(queue) is None


def test_a_message_that_expired_behind_another_is_not_delivered_after_it(world: World) -> None:
    queue = world.queue()
    _, taker = world.consumer(queue)
    taker.writable = False
    world.publish(queue, b"lives on")
    world.publish(queue, b"short", expiration_ms=100)
    world.publish(queue, b"too")
    world.turn()
    world.pass_time(1_000)
    taker.writable = True
    world.wake(queue)
    world.turn()
    assert taker.bodies == [b"lives on", b"too"]


def test_requeueing_does_not_begin_a_new_life(world: World) -> None:
    queue = world.queue(x_message_ttl=1_000)
    world.publish(queue, b"a")
    world.turn()
    found = world.get(queue, no_ack=False)
    assert found is not None
    world.pass_time(1_500)
    world.settle(None, found[1].piece, Outcome.REQUEUED)
    world.pass_time(1)
    assert queue.ready_count == 0


def test_a_message_that_is_out_does_not_expire(world: World) -> None:
    queue = world.queue(x_message_ttl=1_000, x_dead_letter_exchange="dlx")
    consumer, taker = world.consumer(queue)
    world.publish(queue, b"a")
    world.turn()
    world.pass_time(5_000)
    world.settle_all(consumer, taker)
    world.turn()
    assert (taker.bodies, world.dead) == ([b"a"], [])


def test_a_ttl_of_zero_reaches_a_consumer_with_room_or_nobody(world: World) -> None:
    queue = world.queue()
    consumer, taker = world.consumer(queue, prefetch=1)
    world.publish(queue, b"now", expiration_ms=0)
    world.publish(queue, b"never", expiration_ms=0)
    world.pass_time(1)
    assert (taker.bodies, queue.ready_count) == ([b"now"], 0)
    world.settle_all(consumer, taker)
    world.pass_time(1)
    assert taker.bodies == [b"now"]


# ------------------------------------------------------------------------- length limits


def test_drop_head_drops_the_oldest_and_dead_letters_it(world: World) -> None:
    queue = world.queue(x_max_length=3, x_dead_letter_exchange="dlx")
    world.publish(queue, *numbered(5))
    world.turn()
    assert [(reason, body) for reason, _, _, body, _ in world.dead] == [
        (DeathReason.MAXLEN, b"0"),
        (DeathReason.MAXLEN, b"1"),
    ]
    assert world.drain(queue) == numbered(3, 2)


def test_the_length_limit_counts_ready_messages_only(world: World) -> None:
    queue = world.queue(x_max_length=2)
    consumer, taker = world.consumer(queue, prefetch=2)
    world.publish(queue, *numbered(2))
    world.turn()
    world.publish(queue, *numbered(2, 2))
    world.turn()
    assert (queue.ready_count, taker.bodies) == (2, numbered(2))
    world.settle_all(consumer, taker)
    world.turn()
    assert taker.bodies == numbered(4)


def test_the_limit_in_bytes_counts_bodies(world: World) -> None:
    queue = world.queue(x_max_length_bytes=10)
    world.publish(queue, b"aaaa")
    world.publish(queue, b"bbbb")
    world.publish(queue, b"cc")
    world.turn()
    assert queue.ready_count == 3
    world.publish(queue, b"d")
    world.turn()
    assert world.drain(queue) == [b"bbbb", b"cc", b"d"]


@pytest.mark.parametrize("overflow", ["drop-head", "reject-publish", "reject-publish-dlx"])
def test_what_consumers_have_room_for_is_never_too_much(world: World, overflow: str) -> None:
    """A batch is as good as its messages one by one: each would have left before the next came."""
    queue = world.queue(x_max_length=1, x_overflow=overflow)
    _, taker = world.consumer(queue, prefetch=3)
    tags = [tag for body in numbered(4) for tag in world.publish(queue, body, confirm=True)]
    world.turn()
    assert (taker.bodies, queue.ready_count) == (numbered(3), 1)
    assert (sorted(world.answers.accepted), world.answers.refused) == (tags, [])


def test_of_two_limits_whichever_is_reached_first_holds(world: World) -> None:
    queue = world.queue(x_max_length=2, x_max_length_bytes=1_000)
    for body in numbered(3):
        world.publish(queue, body)
    world.turn()
    assert world.drain(queue) == numbered(2, 1)


def test_drop_head_accepts_what_it_drops(world: World) -> None:
    queue = world.queue(x_max_length=1)
    tags = world.publish(queue, *numbered(3), confirm=True)
    world.turn()
    assert world.answers.accepted == tags


def test_reject_publish_refuses_what_has_no_room_and_keeps_the_rest(world: World) -> None:
    queue = world.queue(x_max_length=2, x_overflow="reject-publish", x_dead_letter_exchange="dlx")
    tags = [tag for body in numbered(4) for tag in world.publish(queue, body, confirm=True)]
    world.turn()
    assert (sorted(world.answers.accepted), sorted(world.answers.refused)) == (tags[:2], tags[2:])
    assert world.drain(queue) == numbered(2)
    assert world.dead == []


@pytest.mark.parametrize("limit", [{"x_max_length": 2}, {"x_max_length_bytes": 2}])
def test_of_a_run_what_has_room_is_taken_and_only_the_rest_refused(world: World, limit: dict[str, int]) -> None:
    queue, other = world.queue(x_overflow="reject-publish", **limit), world.queue()
    tags = world.publish([queue, other], *numbered(4), confirm=True)
    world.turn()
    assert (sorted(world.answers.accepted), sorted(world.answers.refused)) == (tags[:2], tags[2:])
    assert (world.drain(queue), world.drain(other)) == (numbered(2), numbered(4))


def test_a_limit_that_comes_by_policy_looks_at_each_message_of_the_next_run(world: World) -> None:
    queue = world.queue()
    before = world.publish(queue, *numbered(2), confirm=True)
    world.turn()
    queue.policy_changed(world.effective_with_policy(queue, max_length_bytes=3, overflow="reject-publish"), world.now)
    world.turn()
    after = world.publish(queue, b"2", b"long", b"", confirm=True)
    world.turn()
    assert (sorted(world.answers.accepted), world.answers.refused) == ([*before, after[0], after[2]], [after[1]])
    assert world.drain(queue) == [b"0", b"1", b"2", b""]


def test_where_publishes_are_rejected_nothing_is_dropped_for_what_comes_back_or_for_a_new_limit(world: World) -> None:
    queue = world.queue(x_max_length=2, x_overflow="reject-publish")
    consumer, taker = world.consumer(queue, prefetch=2)
    world.publish(queue, *numbered(2))
    world.turn()
    world.publish(queue, *numbered(2, 2))
    world.turn()
    queue.cancel(consumer, world.now)
    world.settle_all(consumer, taker, Outcome.REQUEUED)
    queue.policy_changed(world.effective_with_policy(queue, max_length=1), world.now)
    world.turn()
    assert world.drain(queue) == numbered(4)


def test_reject_publish_takes_messages_again_when_there_is_room(world: World) -> None:
    queue = world.queue(x_max_length=1, x_overflow="reject-publish")
    world.publish(queue, b"a")
    world.turn()
    world.drain(queue)
    (tag,) = world.publish(queue, b"b", confirm=True)
    world.turn()
    assert world.answers.accepted == [tag]


def test_reject_publish_dlx_refuses_and_dead_letters(world: World) -> None:
    queue = world.queue(x_max_length=1, x_overflow="reject-publish-dlx", x_dead_letter_exchange="dlx")
    world.publish(queue, b"a")
    (tag,) = world.publish(queue, b"b", confirm=True)
    world.turn()
    assert world.answers.refused == [tag]
    assert [(reason, body) for reason, _, _, body, _ in world.dead] == [(DeathReason.MAXLEN, b"b")]


def test_one_full_queue_refuses_a_run_that_others_take(world: World) -> None:
    full, other = world.queue(x_max_length=0, x_overflow="reject-publish"), world.queue()
    tags = world.publish([full, other], b"a", confirm=True)
    world.turn()
    assert world.answers.refused == tags
    assert (full.ready_count, other.ready_count) == (0, 1)


# ------------------------------------------------------------------------- dead letters


def test_rejected_messages_are_dead_lettered_one_by_one(world: World) -> None:
    queue = world.queue(x_dead_letter_exchange="dlx")
    consumer, taker = world.consumer(queue)
    world.publish(queue, *numbered(3), persistent=False)
    world.turn()
    world.settle_all(consumer, taker, Outcome.REJECTED)
    world.turn()
    assert world.dead == [(DeathReason.REJECTED, "", "key", body, False) for body in numbered(3)]
    assert queue.statistics().unacknowledged == 0


def test_a_message_is_dead_lettered_before_its_queue_forgets_it(world: World) -> None:
    queue = world.queue(x_message_ttl=10, x_dead_letter_exchange="dlx")
    order: list[str] = []
    world.on_dead_letter = lambda: order.append("dead-lettered")
    world.publish(queue, b"a")
    world.turn()
    world.pass_time(11)
    order.append("forgotten" if queue.ready_count == 0 else "kept")
    assert order == ["dead-lettered", "forgotten"]


def test_without_a_dead_letter_exchange_nobody_is_asked(world: World) -> None:
    queue = world.queue(x_max_length=1, x_message_ttl=10)
    consumer, taker = world.consumer(queue, prefetch=1)
    world.publish(queue, *numbered(4))
    world.turn()
    world.settle_all(consumer, taker, Outcome.REJECTED)
    world.pass_time(11)
    assert world.dead == []


@pytest.mark.parametrize("death", ["rejected", "expired", "maxlen"])
def test_a_dead_letter_may_come_back_to_its_own_queue_while_it_still_dies(world: World, death: str) -> None:
    limits: dict[str, dict[str, Any]] = {
        "rejected": {},
        "expired": {"x_message_ttl": 100},
        "maxlen": {"x_max_length": 2},
    }
    queue = world.queue(x_dead_letter_exchange="dlx", **limits[death])
    deaths: list[None] = []

    def publish_again() -> None:
        deaths.append(None)
        if len(deaths) == 1:
            world.publish(queue, b"again")

    world.on_dead_letter = publish_again
    world.publish(queue, b"a", b"b")
    world.turn()
    if death == "rejected":
        found = world.get(queue, no_ack=False)
        assert found is not None
        world.settle(None, found[1].piece, Outcome.REJECTED)
    elif death == "expired":
        world.pass_time(101)
    else:
        world.publish(queue, b"c")
    world.turn()
    left = {"rejected": [b"b", b"again"], "expired": [b"again"], "maxlen": [b"c", b"again"]}[death]
    assert world.drain(queue) == left
    bodies = [body for _, _, _, body, _ in world.dead]
    assert sorted(bodies + left) == sorted({b"a", b"b", b"again", *left}), "each message died or is here, and once"


# ------------------------------------------------------------------------- priorities


def test_higher_priorities_leave_first_and_equals_in_order(world: World) -> None:
    queue = world.queue(x_max_priority=5)
    for number, priority in enumerate((0, 3, 9, 5, 1, 3)):
        world.publish(queue, b"%d" % number, priority=priority)
    world.turn()
    assert world.drain(queue) == [b"2", b"3", b"1", b"5", b"4", b"0"]


def test_without_priorities_the_property_changes_nothing(world: World) -> None:
    queue = world.queue()
    for number, priority in enumerate((0, 3, 9)):
        world.publish(queue, b"%d" % number, priority=priority)
    world.turn()
    assert world.drain(queue) == numbered(3)


def test_a_requeued_message_returns_to_its_place_within_its_priority(world: World) -> None:
    queue = world.queue(x_max_priority=2)
    for number, priority in enumerate((1, 1, 2)):
        world.publish(queue, b"%d" % number, priority=priority)
    world.turn()
    world.get(queue)
    found = world.get(queue, no_ack=False)
    assert found is not None
    assert found[0] == b"0"
    world.settle(None, found[1].piece, Outcome.REQUEUED)
    assert world.drain(queue) == [b"0", b"1"]


# ------------------------------------------------------------------------- queues that go by their own rules


def test_an_auto_delete_queue_asks_to_go_when_its_last_consumer_leaves(world: World) -> None:
    queue = world.queue(auto_delete=True)
    first, _ = world.consumer(queue, "a")
    second, _ = world.consumer(queue, "b")
    queue.cancel(first, world.now)
    assert world.to_delete == []
    queue.cancel(second, world.now)
    world.turn()
    assert world.to_delete == [queue]


def test_an_auto_delete_queue_that_never_had_a_consumer_stays(world: World) -> None:
    queue = world.queue(auto_delete=True)
    world.publish(queue, b"a")
    world.pass_time(1_000_000)
    assert world.to_delete == []


def test_an_unused_queue_asks_to_go_after_x_expires(world: World) -> None:
    queue = world.queue(x_expires=1_000)
    world.publish(queue, b"publishing is no use")
    world.pass_time(999)
    assert world.to_delete == []
    world.pass_time(2)
    assert world.to_delete == [queue]


@pytest.mark.parametrize("use", ["get", "declare again"])
def test_use_begins_the_time_of_x_expires_anew(world: World, use: str) -> None:
    queue = world.queue(x_expires=1_000)
    world.pass_time(600)
    if use == "get":
        world.get(queue)
    else:
        queue.used(world.now)
        world.turn()
    world.pass_time(600)
    assert world.to_delete == []
    world.pass_time(1_000)
    assert world.to_delete == [queue]


def test_a_queue_with_a_consumer_does_not_expire_and_one_without_does(world: World) -> None:
    queue = world.queue(x_expires=1_000)
    consumer, _ = world.consumer(queue)
    for _ in range(5):
        world.pass_time(900)
    assert world.to_delete == []
    queue.cancel(consumer, world.now)
    world.pass_time(900)
    assert world.to_delete == []
    for _ in range(3):
        world.pass_time(1_000)
    assert world.to_delete == [queue]


# ------------------------------------------------------------------------- policies


def test_a_new_length_limit_holds_at_once_for_what_is_here(world: World) -> None:
    queue = world.queue()
    world.publish(queue, *numbered(5))
    world.turn()
    queue.policy_changed(world.effective_with_policy(queue, max_length=2), world.now)
    world.turn()
    assert world.drain(queue) == numbered(2, 3)


def test_a_new_dead_letter_exchange_is_used_at_once(world: World) -> None:
    queue = world.queue()
    consumer, taker = world.consumer(queue)
    world.publish(queue, b"a")
    world.turn()
    queue.policy_changed(world.effective_with_policy(queue, dead_letter_exchange="dlx"), world.now)
    world.settle_all(consumer, taker, Outcome.REJECTED)
    world.turn()
    assert [body for _, _, _, body, _ in world.dead] == [b"a"]


def test_a_new_expiry_counts_from_the_last_use(world: World) -> None:
    queue = world.queue()
    world.pass_time(10)
    queue.policy_changed(world.effective_with_policy(queue, expires=1_000), world.now)
    world.turn()
    world.pass_time(1_001)
    assert world.to_delete == [queue]


# ------------------------------------------------------------------------- figures


def test_the_figures_add_up(world: World) -> None:
    queue = world.queue()
    _, taker = world.consumer(queue, prefetch=2)
    world.publish(queue, b"aaaa", b"bbbb", b"cccc", b"dddd", b"eeee")
    world.turn()
    figures = queue.statistics()
    assert (figures.ready, figures.unacknowledged, figures.consumers) == (3, 2, 1)
    assert (figures.ready_bytes, figures.unacknowledged_bytes) == (12, 8)
    assert (figures.published, figures.delivered, len(taker.bodies)) == (5, 2, 2)


# ------------------------------------------------------------------------- against the dumb twin

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 5)),
        st.tuples(st.just("get"), st.integers(0, 0)),
        st.tuples(st.sampled_from([one for one in Outcome if one is not Outcome.REJECTED]), st.integers(0, 30)),
        st.tuples(st.just("take"), st.integers(1, 7)),
        st.tuples(st.just("purge"), st.integers(0, 0)),
    ),
    max_size=40,
)


class Twin:
    """A queue as two lists of numbers: what is ready, in order, and what is out."""

    def __init__(self) -> None:
        self.next = 0
        self.ready: list[int] = []
        self.out: list[int] = []
        self.marked: set[int] = set()

    def publish(self, count: int) -> list[bytes]:
        new = list(range(self.next, self.next + count))
        self.next += count
        self.ready += new
        return [b"%d" % number for number in new]

    def take(self, count: int) -> list[int]:
        taken, self.ready = self.ready[:count], self.ready[count:]
        self.out += taken
        return taken

    def back(self, number: int, outcome: Outcome) -> None:
        self.out.remove(number)
        if outcome is not Outcome.ACKNOWLEDGED:
            self.ready = sorted([*self.ready, number])
            if outcome is not Outcome.RETURNED:
                self.marked.add(number)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_any_sequence_of_steps_ends_as_it_does_for_a_list(
    kind: Kind, tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str | Outcome, int]]
) -> None:
    world = World()
    world.opened = kind.open(world, tmp_path_factory.mktemp("queue"))
    queue, twin = world.queue(), Twin()
    held: dict[int, object] = {}
    try:
        for step, number in steps:
            play(world, queue, twin, held, step, number)
            world.turn()
            figures = queue.statistics()
            assert (figures.ready, figures.unacknowledged) == (len(twin.ready), len(twin.out))
        assert world.drain(queue) == [b"%d" % number for number in twin.ready]
    finally:
        world.opened.close()


def play(world: World, queue: Queue, twin: Twin, held: dict[int, object], step: str | Outcome, number: int) -> None:
    if step == "publish":
        world.publish(queue, *twin.publish(number))
    elif step == "purge":
        assert world.purge(queue) == len(twin.ready)
        twin.ready.clear()
    elif step == "take":
        taken = take_with_a_consumer(world, queue, number)
        expected = twin.take(number)
        assert [body for body, _, _ in taken] == [b"%d" % one for one in expected]
        assert [mark for _, mark, _ in taken] == [one in twin.marked for one in expected]
        held.update(zip(expected, [piece for _, _, piece in taken], strict=True))
    elif step == "get":
        found = world.get(queue, no_ack=False)
        expected = twin.take(1)
        assert (found is None) == (not expected)
        if found is not None:
            assert found[0] == b"%d" % expected[0]
            held[expected[0]] = found[1].piece
    elif twin.out:
        assert isinstance(step, Outcome)
        one = twin.out[number % len(twin.out)]
        twin.back(one, step)
        world.settle(None, held.pop(one), step)  # type: ignore[arg-type]


def take_with_a_consumer(world: World, queue: Queue, count: int) -> list[tuple[bytes, bool, object]]:
    """Up to this many messages, each with its own part of the slice that brought it."""
    consumer, taker = world.consumer(queue, prefetch=count)
    world.turn()
    queue.cancel(consumer, world.now)
    return list(zip(taker.bodies, taker.redelivered, singles(taker), strict=True))


def singles(taker: Taker) -> list[object]:
    return [part(piece, number, 1) for piece in taker.pieces for number in range(piece.count)]
