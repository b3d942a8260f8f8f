"""What is declared over gRPC is what the session was asked for, and listings show it."""

from __future__ import annotations

from typing import Any

import pytest

import leveret
from leveret import errors, records
from leveret.v1 import topology_pb2
from tests.unit.front.grpc.fakes import Running, bounded, running


def with_node(work: Any) -> None:
    async def run() -> None:
        async with running() as server, leveret.connect(server.target) as node:
            await work(server, node)
            assert (server.broker.open_connections, server.broker.open_sessions) == ([], [])

    bounded(run())


def test_an_exchange_is_declared_listed_and_deleted() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        arguments = {"alternate-exchange": "amq.fanout"}
        await node.topology.declare_exchange("x", "topic", auto_delete=True, internal=True, arguments=arguments)
        await node.topology.declare_exchange("x", passive=True)
        found = {exchange.name: exchange for exchange in await node.topology.exchanges()}
        assert found["x"] == records.Exchange("/", "x", "topic", True, True, True, arguments)
        assert {"amq.direct", "amq.topic", "amq.headers", "amq.fanout"} <= found.keys()
        await node.topology.delete_exchange("x")
        with pytest.raises(errors.NotFound, match="no exchange 'x' in vhost '/'"):
            await node.topology.declare_exchange("x", passive=True)

    with_node(work)


def test_a_queue_is_declared_with_a_kind_or_a_name_of_the_nodes_choice() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        named = await node.topology.declare_queue("q", kind="classic", arguments={"x-max-length": 5})
        assert named == records.DeclaredQueue("q", 0, 0)
        assert (await node.topology.declare_queue()).name.startswith("amq.gen-")
        (queue, _) = await node.topology.queues()
        assert (queue.name, queue.kind, queue.durable, queue.arguments["x-max-length"]) == ("q", "classic", True, 5)
        with pytest.raises(errors.InvalidRequest, match="kind is 'classic', argument x-queue-type 'quorum'"):
            await node.topology.declare_queue("r", kind="classic", arguments={"x-queue-type": "quorum"})

    with_node(work)


def test_deleting_and_purging_need_a_name() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        for call in (node.topology.delete_queue(""), node.topology.purge_queue("")):
            with pytest.raises(errors.InvalidRequest, match="the name of the queue is missing"):
                await call
        assert await node.topology.delete_queue("never declared") == 0

    with_node(work)


def test_bindings_are_made_selected_and_removed() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        topology = node.topology
        await topology.declare_queue("q")
        await topology.bind_queue("q", "amq.topic", "a.#", arguments={"n": 1})
        await topology.bind_queue("q", "amq.direct", "k")
        await topology.bind_exchange("amq.fanout", "amq.topic", "b")
        expected = records.Binding("/", "amq.topic", "q", "queue", "a.#", {"n": 1})
        assert await topology.bindings(queue="q", source="amq.topic") == [expected]
        assert {binding.source for binding in await topology.bindings(queue="q")} >= {"amq.topic", "amq.direct"}
        kinds = {
            binding.destination: binding.destination_kind for binding in await topology.bindings(source="amq.topic")
        }
        assert kinds == {"q": "queue", "amq.fanout": "exchange"}
        await topology.unbind_queue("q", "amq.topic", "a.#", arguments={"n": 1})
        await topology.unbind_exchange("amq.fanout", "amq.topic", "b")
        assert await topology.bindings(source="amq.topic") == []

    with_node(work)


def test_a_destination_that_is_neither_queue_nor_exchange_is_refused() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        binding = topology_pb2.Binding(source="amq.topic", destination="q", destination_kind=9)  # type: ignore[arg-type]
        with pytest.raises(errors.InvalidRequest, match="destination_kind 9 is neither queue nor exchange"):
            await node.call("topology", "Bind", topology_pb2.BindRequest(binding=binding))

    with_node(work)


def test_a_vhost_that_does_not_exist_is_refused() -> None:
    async def run() -> None:
        async with running() as server, leveret.connect(server.target, vhost="missing") as node:
            with pytest.raises(errors.NotAllowed, match="vhost missing not found"):
                await node.topology.declare_queue("q")

    bounded(run())
