"""Deliveries come as an iterator, settlements go as ranges, and the end of a subscription has a reason."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import leveret
from broker.errors import ConnectionForced
from leveret import errors
from leveret.consumer import ranges
from tests.unit.front.grpc.fakes import Running, bounded, running, until


def with_node(work: Any, *bodies: bytes) -> None:
    async def run() -> None:
        async with running() as server, leveret.connect(server.target) as node:
            await node.topology.declare_queue("q")
            async with await node.publisher() as publisher:
                await publisher.publish_many(bodies, routing_key="q")
            await work(server, node)

    bounded(run())


@given(st.sets(st.integers(1, 60)))
def test_ranges_hold_just_the_numbers(numbers: set[int]) -> None:
    found = ranges(list(numbers))
    assert [number for one in found for number in range(one.first, one.last + 1)] == sorted(numbers)
    assert all(one.last + 1 < other.first for one, other in pairwise(found))


def test_prefetch_bounds_what_is_out_and_acknowledging_makes_room() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        async with node.consume("q", prefetch=2) as deliveries:
            for number in range(20):
                delivery = await anext(deliveries)
                assert delivery.body == b"%d" % number
                assert len(server.broker.open_sessions[-1].unacknowledged) <= 2
                await delivery.ack()
        await until(lambda: not server.broker.open_sessions)
        assert not server.broker.fake_queues["/", "q"].ready, "what was settled before closing is settled"

    with_node(work, *[b"%d" % number for number in range(20)])


def test_a_delivery_tells_what_it_is() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        async with await node.publisher() as publisher:
            await publisher.publish(leveret.Message(b"x", headers={"a": 1}, message_id="m"), routing_key="q")
        async with node.consume("q", prefetch=1) as deliveries:
            delivery = await anext(deliveries)
            assert (delivery.routing_key, delivery.exchange, delivery.redelivered) == ("q", "", False)
            assert (delivery.headers, delivery.message.message_id, delivery.message.persistent) == ({"a": 1}, "m", True)
            await delivery.requeue()
            again = await anext(deliveries)
            assert again.redelivered
            await again.reject()
        assert await node.get("q") == []

    with_node(work)


def test_leaving_gives_back_what_is_not_settled() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        async with node.consume("q") as deliveries:
            await (await anext(deliveries)).ack()
            await anext(deliveries)
        await until(lambda: not server.broker.open_sessions)
        assert [got.body for got in await node.get("q", count=9)] == [b"2", b"3"]

    with_node(work, b"1", b"2", b"3")


def test_giving_up_on_a_wait_does_not_end_the_subscription() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        async with node.consume("q") as deliveries:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(deliveries), 0.01)
            async with await node.publisher() as publisher:
                await publisher.publish(b"late", routing_key="q")
            assert (await anext(deliveries)).body == b"late"

    with_node(work)


def test_a_no_ack_subscription_has_nothing_to_settle() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        async with node.consume("q", no_ack=True) as deliveries:
            delivery = await anext(deliveries)
            with pytest.raises(errors.InvalidRequest, match="nothing to settle"):
                await delivery.ack()

    with_node(work, b"1")


def test_a_deleted_queue_ends_the_iteration_with_its_reason() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        async with node.consume("q") as deliveries:
            await node.topology.delete_queue("q")
            with pytest.raises(leveret.SubscriptionEnded, match="'q': the queue is gone"):
                await anext(deliveries)

    with_node(work)


def test_a_queue_that_does_not_exist_is_an_error_on_entering_and_on_iterating() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        with pytest.raises(errors.NotFound, match="no queue 'missing'"):
            async with node.consume("missing"):
                raise AssertionError("subscribed to a queue that does not exist")
        with pytest.raises(errors.NotFound, match="no queue 'missing'"):
            await anext(node.consume("missing"))

    with_node(work)


def test_settling_on_a_connection_that_is_gone_says_that_the_message_comes_again() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        async with node.consume("q", reconnect=True) as deliveries:
            old = await anext(deliveries)
            server.broker.open_connections[0].close(ConnectionForced("broken by the test"))
            again = await anext(deliveries)
            assert (again.body, again.redelivered) == (b"1", True)
            with pytest.raises(leveret.ConnectionLost, match="it will be delivered again"):
                await old.ack()
            await again.ack()

    with_node(work, b"1")


def test_nothing_of_a_connection_that_is_gone_is_passed_on_or_said_by_the_next_one() -> None:
    """Its tags mean other messages there."""

    async def work(server: Running, node: leveret.Node) -> None:
        async with node.consume("q", reconnect=True) as deliveries:
            first = await anext(deliveries)
            await until(lambda: len(deliveries._arrived) == 1)
            await first.ack()
            deliveries._connection_gone()  # at this moment: the settlement has not been written
            assert not deliveries._arrived
            assert deliveries._take_requests() == []

    with_node(work, b"1", b"2")


def test_without_reconnect_a_broken_connection_ends_the_iteration() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        async with node.consume("q") as deliveries:
            server.broker.open_connections[0].close(ConnectionForced("maintenance"))
            with pytest.raises(leveret.ConnectionLost, match="maintenance"):
                await anext(deliveries)

    with_node(work)


def test_the_window_can_be_moved() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        async with node.consume("q", prefetch=1) as deliveries:
            await anext(deliveries)
            await deliveries.set_prefetch(3)
            assert [(await anext(deliveries)).body for _ in range(2)] == [b"2", b"3"]

    with_node(work, b"1", b"2", b"3", b"4")
