"""The blocking client: what the asynchronous one does, from any thread, without an event loop of the program's own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import leveret
from leveret.sync import _Loop
from tests.unit.client.test_ctl import Node
from tests.unit.front.grpc.fakes import Running


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    started = Node()
    yield started.server
    started.stop()


@pytest.fixture
def node(server: Running) -> Iterator[leveret.SyncNode]:
    with leveret.connect_sync(server.target) as connected:
        connected.topology.declare_queue("q")
        yield connected
        connected.topology.delete_queue("q")


def test_a_message_from_publish_to_acknowledgement(node: leveret.SyncNode, server: Running) -> None:
    with node.publisher() as publisher:
        publisher.publish(b"one book", routing_key="q")
        publisher.publish_many([b"two", leveret.Message(b"three", headers={"n": 1})], routing_key="q")
        assert publisher.blocked_reason is None
        publisher.flush()
    assert [got.body for got in node.browse("q", limit=3)] == [b"one book", b"two", b"three"]
    with node.consume("q", prefetch=10) as deliveries:
        first = next(deliveries)
        assert (first.body, first.routing_key, first.exchange, first.redelivered) == (b"one book", "q", "", False)
        first.ack()
        for delivery in deliveries:
            delivery.reject()
            if delivery.headers:
                assert delivery.message.headers == {"n": 1}
                break
    assert node.get("q") == []
    assert [queue.name for queue in node.topology.queues()] == ["q"]
    assert node.target == server.target


def test_what_has_no_method_is_called_on_the_asynchronous_node(node: leveret.SyncNode) -> None:
    assert [user.name for user in node.call(lambda connected: connected.admin.users())] == ["guest"]


def test_topology_is_declared_listed_and_deleted(node: leveret.SyncNode) -> None:
    node.topology.declare_exchange("e", "topic")
    node.topology.bind_queue("q", "e", "a.*")
    assert [binding.routing_key for binding in node.topology.bindings(queue="q", source="e")] == ["a.*"]
    node.topology.unbind_queue("q", "e", "a.*")
    assert "e" in {exchange.name for exchange in node.topology.exchanges()}
    node.topology.delete_exchange("e")
    assert node.topology.purge_queue("q") == 0


def test_errors_are_those_of_the_asynchronous_client(node: leveret.SyncNode) -> None:
    with node.publisher() as publisher, pytest.raises(leveret.Unroutable, match="there is no queue 'nowhere'"):
        publisher.publish(b"x", routing_key="nowhere")
    with pytest.raises(leveret.errors.NotFound):
        node.consume("nowhere")
    with pytest.raises(leveret.Unauthenticated), leveret.connect_sync(node.target, password="wrong"):
        pass


def test_a_wait_ends_when_its_time_is_up(node: leveret.SyncNode, server: Running) -> None:
    with node.consume("q") as deliveries, pytest.raises(leveret.TimedOut, match=r"not done within 0\.05 s"):
        deliveries.receive(timeout_s=0.05)
    with node.publisher() as publisher:
        server.broker.held = True
        with pytest.raises(leveret.TimedOut, match="it may still happen"):
            publisher.publish(b"x", routing_key="q", timeout_s=0.05)
        server.broker.held = False
        publisher.publish(b"y", routing_key="q", timeout_s=10)


def test_many_threads_share_a_publisher(node: leveret.SyncNode) -> None:
    with node.publisher() as publisher, ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: publisher.publish(b"%d" % number, routing_key="q"), range(200)))
    bodies = [int(got.body) for got in node.get("q", count=200)]
    assert sorted(bodies) == list(range(200))


def test_nothing_is_left_running(server: Running) -> None:
    with leveret.connect_sync(server.target) as node:
        publisher = node.publisher()
    assert not [thread for thread in threading.enumerate() if thread.name == "leveret"]
    with pytest.raises(leveret.ConnectionLost):
        publisher.publish(b"x", routing_key="q")
    with pytest.raises(leveret.ConnectionLost):
        node.get("q")


def test_a_blocking_call_on_the_clients_own_loop_is_an_error_and_no_deadlock(node: leveret.SyncNode) -> None:
    async def blocks(_: leveret.Node) -> None:
        node.get("q")

    with pytest.raises(RuntimeError, match="would wait for itself"):
        node.call(blocks, timeout_s=10)


def test_a_call_of_another_thread_ends_when_the_connection_is_closed(server: Running) -> None:
    """Its loop was stopped with the call under way, and the thread waited for ever."""
    under_way, errors = threading.Event(), list[BaseException]()

    async def never_done(_: leveret.Node) -> None:
        under_way.set()
        await asyncio.Event().wait()

    def call() -> None:
        try:
            node.call(never_done)
        except BaseException as error:
            errors.append(error)

    with leveret.connect_sync(server.target) as node:
        thread = threading.Thread(target=call, daemon=True)
        thread.start()
        assert under_way.wait(10)
    thread.join(10)
    assert [type(error) for error in errors] == [leveret.ConnectionLost]
    assert "it may have happened" in str(errors[0])


def test_work_that_comes_to_a_loop_that_has_ended_is_refused() -> None:
    """A thread may have found the loop just before another one closed the connection."""
    loop = _Loop()
    loop.stop()

    async def work() -> None:
        pass

    with pytest.raises(leveret.ConnectionLost, match="the connection is closed"):
        loop.run(work())
