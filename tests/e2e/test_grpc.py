"""The Python client and AMQP clients side by side on a real node."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import grpc
import pika
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

import leveret
from leveret import errors
from leveret.v1.admin_pb2 import WhoAmIRequest
from leveret.v1.admin_pb2_grpc import AdminStub
from tests.running_node import RunningNode


def target(node: RunningNode) -> str:
    return f"{node.grpc[0]}:{node.grpc[1]}"


def with_client(node: RunningNode, work: Callable[[leveret.Node], Awaitable[None]], seconds: float = 60.0) -> None:
    async def run() -> None:
        async with leveret.connect(target(node)) as client:
            await work(client)

    asyncio.run(asyncio.wait_for(run(), seconds))


def test_messages_pass_with_confirms_and_acknowledgements(node: RunningNode) -> None:
    async def work(client: leveret.Node) -> None:
        await client.topology.declare_queue("e2e.grpc.pass")
        bodies = [b"%d" % number for number in range(10_000)]
        async with await client.publisher() as publisher:
            await publisher.publish_many(bodies, routing_key="e2e.grpc.pass")
        seen = []
        async with client.consume("e2e.grpc.pass", prefetch=500) as deliveries:
            async for delivery in deliveries:
                seen.append(delivery.body)
                await delivery.ack()
                if len(seen) == len(bodies):
                    break
        assert seen == bodies
        await client.topology.delete_queue("e2e.grpc.pass", if_empty=True)

    with_client(node, work)


def test_an_amqp_client_reads_what_grpc_published_and_the_other_way_round(node: RunningNode) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(node.amqp_url))
    channel = connection.channel()
    channel.queue_declare("e2e.grpc.both", durable=True)

    async def publish(client: leveret.Node) -> None:
        publisher = await client.publisher()
        message = leveret.Message(
            b"from grpc", headers={"n": 1, "list": [True, None]}, message_id="m", priority=3, expiration_ms=600_000
        )
        await publisher.publish(message, routing_key="e2e.grpc.both")

    with_client(node, publish)
    method, properties, body = channel.basic_get("e2e.grpc.both")
    assert body == b"from grpc"
    assert properties.headers == {"n": 1, "list": [True, None]}
    assert (properties.message_id, properties.priority) == ("m", 3)
    assert (properties.expiration, properties.delivery_mode) == ("600000", 2)
    channel.basic_ack(method.delivery_tag)
    channel.confirm_delivery()
    sent = pika.BasicProperties(content_type="text/plain", headers={"k": "v"}, timestamp=1_700_000_000)
    channel.basic_publish("", "e2e.grpc.both", b"from amqp", sent)

    async def consume(client: leveret.Node) -> None:
        async with client.consume("e2e.grpc.both") as deliveries:
            delivery = await anext(deliveries)
            message = delivery.message
            assert message.body == b"from amqp"
            assert (message.content_type, message.headers, message.persistent) == ("text/plain", {"k": "v"}, False)
            assert message.timestamp is not None
            assert message.timestamp.timestamp() == 1_700_000_000
            await delivery.ack()

    with_client(node, consume)
    channel.queue_delete("e2e.grpc.both")
    connection.close()


def test_a_thousand_confirmed_messages_cross_each_way_in_their_order(node: RunningNode) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(node.amqp_url))
    channel = connection.channel()
    channel.confirm_delivery()
    for queue in ("e2e.grpc.to", "e2e.grpc.from"):
        channel.queue_declare(queue, durable=True)
    bodies = [b"%d" % number for number in range(1_000)]
    for body in bodies:
        channel.basic_publish("", "e2e.grpc.to", body, pika.BasicProperties(delivery_mode=2), mandatory=True)

    async def pass_on(client: leveret.Node) -> None:
        """Acknowledge each message only when the one made of it is confirmed."""
        async with await client.publisher() as publisher, client.consume("e2e.grpc.to", prefetch=100) as deliveries:
            for _ in bodies:
                delivery = await anext(deliveries)
                await publisher.publish(delivery.message, routing_key="e2e.grpc.from", mandatory=True)
                await delivery.ack()

    with_client(node, pass_on)
    got = []
    for method, properties, body in channel.consume("e2e.grpc.from", inactivity_timeout=20):
        assert method is not None, f"only {len(got)} of {len(bodies)} came"
        assert properties.delivery_mode == 2
        got.append(body)
        channel.basic_ack(method.delivery_tag)
        if len(got) == len(bodies):
            break
    channel.cancel()
    assert got == bodies
    assert channel.queue_declare("e2e.grpc.to", passive=True).method.message_count == 0
    for queue in ("e2e.grpc.to", "e2e.grpc.from"):
        channel.queue_delete(queue)
    connection.close()


def test_probes_and_reflection_need_no_login(node: RunningNode) -> None:
    with grpc.insecure_channel(target(node)) as channel:
        health = HealthStub(channel)
        for service in ("", "leveret.v1.Publisher"):
            assert health.Check(HealthCheckRequest(service=service), timeout=10).status == HealthCheckResponse.SERVING
        database = ProtoReflectionDescriptorDatabase(channel)
        served = set(database.get_services())
        assert {f"leveret.v1.{name}" for name in ("Publisher", "Consumer", "Topology", "Admin")} <= served
        with pytest.raises(grpc.RpcError) as refused:
            AdminStub(channel).WhoAmI(WhoAmIRequest(), timeout=10)
        assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED


def test_what_is_wrong_is_an_exception_of_its_own_kind(node: RunningNode) -> None:
    async def work(client: leveret.Node) -> None:
        with pytest.raises(errors.NotFound, match=r"no queue 'e2e\.grpc\.missing' in vhost '/'"):
            await client.topology.declare_queue("e2e.grpc.missing", passive=True)
        with pytest.raises(errors.AccessRefused):
            await client.topology.declare_exchange("amq.mine")
        publisher = await client.publisher()
        with pytest.raises(leveret.PublishRefused) as refused:
            await publisher.publish(b"x", exchange="e2e.grpc.missing")
        assert refused.value.error == "NotFound"
        with pytest.raises(leveret.Unroutable):
            await publisher.publish(b"x", routing_key="e2e.grpc.missing", mandatory=True)
        await client.topology.declare_queue("e2e.grpc.after")
        await publisher.publish(b"still open", routing_key="e2e.grpc.after")
        assert [got.body for got in await client.get("e2e.grpc.after")] == [b"still open"]
        await client.topology.delete_queue("e2e.grpc.after")

    with_client(node, work)
    with pytest.raises(leveret.Unauthenticated):
        asyncio.run(leveret.connect(target(node), password="wrong").open())


def test_unsettled_messages_go_back_and_rejected_ones_to_their_dead_letter_queue(node: RunningNode) -> None:
    async def work(client: leveret.Node) -> None:
        await client.topology.declare_queue("e2e.grpc.dead")
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "e2e.grpc.dead"}
        await client.topology.declare_queue("e2e.grpc.live", arguments=arguments)
        publisher = await client.publisher()
        await publisher.publish_many([b"1", b"2", b"3"], routing_key="e2e.grpc.live")
        async with client.consume("e2e.grpc.live") as deliveries:
            await (await anext(deliveries)).reject()
            await (await anext(deliveries)).requeue()
            again = await anext(deliveries)
            assert again.body in (b"2", b"3")
        async with client.consume("e2e.grpc.dead") as deliveries:
            dead = await anext(deliveries)
            assert (dead.body, dead.headers["x-death"][0]["reason"]) == (b"1", "rejected")
            await dead.ack()
        async with client.consume("e2e.grpc.live") as deliveries:
            returned = [await anext(deliveries) for _ in range(2)]
            assert [delivery.body for delivery in returned] == [b"2", b"3"]
        for queue in ("e2e.grpc.live", "e2e.grpc.dead"):
            await client.topology.delete_queue(queue)

    with_client(node, work)


def test_topology_and_users_from_declaring_to_deleting(node: RunningNode) -> None:
    async def work(client: leveret.Node) -> None:
        topology, admin = client.topology, client.admin
        await topology.declare_exchange("e2e.grpc.topic", "topic")
        await topology.declare_queue("e2e.grpc.bound")
        await topology.bind_queue("e2e.grpc.bound", "e2e.grpc.topic", "a.*")
        assert [binding.routing_key for binding in await topology.bindings(source="e2e.grpc.topic")] == ["a.*"]
        publisher = await client.publisher()
        await publisher.publish(b"x", exchange="e2e.grpc.topic", routing_key="a.b", mandatory=True)
        status = await admin.queue_status("e2e.grpc.bound")
        assert status.queue.ready == 1
        assert {"q1", "q2", "delta", "q3", "q4"} <= status.details.keys()
        await admin.add_user("e2e.grpc", "secret")
        with pytest.raises(errors.NotAllowed):
            async with leveret.connect(target(node), user="e2e.grpc", password="secret") as other:
                await other.publisher()
        await admin.set_permissions("e2e.grpc", "^$", "^amq", "^e2e.grpc.bound$")
        async with leveret.connect(target(node), user="e2e.grpc", password="secret") as other:
            assert len(await other.get("e2e.grpc.bound")) == 1
            with pytest.raises(errors.AccessRefused):
                await other.topology.declare_queue("e2e.grpc.forbidden")
        await admin.delete_user("e2e.grpc")
        await topology.unbind_queue("e2e.grpc.bound", "e2e.grpc.topic", "a.*")
        await topology.delete_exchange("e2e.grpc.topic")
        await topology.delete_queue("e2e.grpc.bound")

    with_client(node, work)
