"""Several nodes: the first that answers is used, and another one when it is lost."""

from __future__ import annotations

import asyncio
import socket

import pytest

import leveret
from broker.errors import ConnectionForced
from leveret.channels import addresses
from tests.unit.front.grpc.fakes import Running, bounded, running


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("broker", ("broker:5680",)),
        ("broker:1", ("broker:1",)),
        ("a, b:2 ,[::1]", ("a:5680", "b:2", "[::1]:5680")),
        (["::1", "[fe80::1%eth0]:7"], ("[::1]:5680", "[fe80::1%eth0]:7")),
        ("dns:///broker:1", ("dns:///broker:1",)),
        ("unix:/run/leveret", ("unix:/run/leveret",)),
    ],
)
def test_an_address_has_a_port_also_when_none_is_given(given: str | list[str], found: tuple[str, ...]) -> None:
    assert addresses(given) == found


@pytest.mark.parametrize("given", ["", "a,,b", [], "a:", "a:http", "a:0", "a:70000"])
def test_what_is_no_address_is_refused(given: str | list[str]) -> None:
    with pytest.raises(ValueError, match=r"node|port"):
        leveret.connect(given)


def nobody() -> str:
    """An address at which nothing listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{one.getsockname()[1]}"


def test_the_first_node_that_answers_is_used() -> None:
    async def run() -> None:
        async with running() as server, leveret.connect([nobody(), server.target]) as node:
            assert node.target == server.target
            assert await node.topology.queues() == []

    bounded(run())


def test_when_nobody_answers_all_are_named() -> None:
    async def run() -> None:
        one, other = nobody(), nobody()
        with pytest.raises(leveret.ConnectionLost, match=f"no connection to any of {one}, {other}"):
            async with leveret.connect([one, other]):
                pass

    bounded(run())


def test_a_wrong_password_is_not_tried_on_all_nodes() -> None:
    async def run() -> None:
        async with running() as one, running() as other:
            with pytest.raises(leveret.Unauthenticated):
                async with leveret.connect([one.target, other.target], password="wrong"):
                    pass
            assert (one.broker.authentications, other.broker.authentications) == (1, 0)

    bounded(run())


def test_what_comes_after_a_node_is_lost_goes_to_another() -> None:
    async def run() -> None:
        async with running() as other:
            async with running() as first:
                node = leveret.connect(f"{first.target},{other.target}")
                await node.open()
                assert node.target == first.target
            try:
                await node.topology.declare_queue("q")
            except leveret.ConnectionLost:  # it was on its way when the connection broke
                await node.topology.declare_queue("q")
            assert node.target == other.target
            assert ("/", "q") in other.broker.fake_queues
            await node.close()

    bounded(run())


async def stop_serving(server: Running) -> None:
    await server.server.stop(grace_s=0)


def test_a_publisher_that_resends_and_a_consumer_that_reconnects_go_on_at_another_node() -> None:
    async def run() -> None:
        async with running() as first, running() as other:
            for server in (first, other):
                async with leveret.connect(server.target) as admin:
                    await admin.topology.declare_queue("q")
            async with leveret.connect([first.target, other.target]) as node:
                publisher = await node.publisher(resend=True)
                consumer = await node.consume("q", reconnect=True).start()
                await publisher.publish(b"one", routing_key="q")
                got = await anext(consumer)
                await stop_serving(first)
                await publisher.publish(b"two", routing_key="q")
                assert (got.body, (await anext(consumer)).body, node.target) == (b"one", b"two", other.target)
                await consumer.close()
                await publisher.close()

    bounded(run())


def test_a_node_that_sends_its_clients_away_is_left() -> None:
    async def run() -> None:
        async with running() as first, running() as other, leveret.connect([first.target, other.target]) as node:
            for server in (first, other):
                async with leveret.connect(server.target) as admin:
                    await admin.topology.declare_queue("q")
            publisher = await node.publisher(resend=True)
            for connection in list(first.broker.open_connections):
                connection.close(ConnectionForced("the node is drained"))
            await publisher.publish(b"x", routing_key="q")
            assert [len(server.broker.runs) for server in (first, other)] == [0, 1]
            await publisher.close()

    bounded(run())


def test_an_unsent_request_of_a_closed_node_says_how_to_open_it() -> None:
    async def run() -> None:
        with pytest.raises(leveret.ConnectionLost, match=r"use `async with leveret\.connect"):
            await asyncio.wait_for(leveret.connect("a,b").topology.queues(), 5)

    bounded(run())
