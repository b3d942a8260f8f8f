"""Subscriptions get what they have room for, in digestible batches, and give back what they do not settle."""

from __future__ import annotations

from typing import Any

import grpc
import grpc.aio
import pytest

import leveret
from broker.queues.queue_type import Slice
from front.grpc import consume_service
from leveret import errors
from leveret.channels import Stubs
from leveret.message import Delivery
from leveret.v1 import consume_pb2, message_pb2
from native.content import encode
from tests.unit.front.grpc.fakes import Running, bounded, running, until
from wire.amqp.tables import encode_properties


class Raw:
    """A consuming stream without the client's help."""

    def __init__(self, node: leveret.Node, stubs: Stubs) -> None:
        self.call = stubs.consumer.Consume(metadata=node.metadata)

    async def send(self, **request: Any) -> None:
        await self.call.write(consume_pb2.ConsumeRequest(**request))

    async def answer(self) -> Any:
        return await self.call.read()

    async def subscribed(self, **how: Any) -> Raw:
        await self.send(open=message_pb2.Open())
        assert (await self.answer()).opened.node == "n1"
        await self.send(subscribe=consume_pb2.Subscribe(queue="q", consumer_tag="t", **how))
        assert (await self.answer()).subscribed == consume_pb2.Subscribed(consumer_tag="t", queue="q")
        return self


def with_stream(work: Any, *bodies: bytes) -> None:
    async def run() -> None:
        async with running() as server, leveret.connect(server.target) as node:
            await node.topology.declare_queue("q")
            async with await node.publisher() as publisher:
                await publisher.publish_many(bodies, routing_key="q")
            await work(server, node, Raw(node, await node.stubs()))

    bounded(run())


async def status(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        while await call.read() is not grpc.aio.EOF:
            pass
    return caught.value.code(), str(caught.value.details())


def settle(first: int, last: int, outcome: consume_pb2.Outcome) -> consume_pb2.Settle:
    return consume_pb2.Settle(tags=[message_pb2.Range(first=first, last=last)], outcome=outcome)


def test_what_is_not_settled_goes_back_when_the_stream_ends() -> None:
    async def work(server: Running, node: leveret.Node, raw: Raw) -> None:
        await raw.subscribed()
        assert [(await raw.answer()).deliveries.messages[0].body for _ in range(3)] == [b"1", b"2", b"3"]
        await raw.send(settle=settle(2, 2, consume_pb2.OUTCOME_ACCEPTED))
        await raw.call.done_writing()
        assert await raw.answer() is grpc.aio.EOF
        assert [(got.body, got.redelivered) for got in await node.get("q", count=9)] == [(b"1", True), (b"3", True)]

    with_stream(work, b"1", b"2", b"3")


def test_tags_go_on_where_a_slice_is_cut_into_several_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consume_service, "BATCH_BYTES_MAX", 100)
    bodies = [b"%d" % number * 30 for number in range(1, 6)]

    async def work(server: Running, node: leveret.Node, raw: Raw) -> None:
        await raw.subscribed()
        session = server.broker.open_sessions[-1]
        content = b"".join(encode(encode_properties({}), body) for body in bodies)
        piece = Slice(server.broker.fake_queues["/", "q"], None, 0, len(bodies), 0, "x", "k", False)  # type: ignore[arg-type]
        session.sink.deliver(session.subscriptions["t"], 7, piece, content)
        found: list[tuple[int, bytes]] = []
        batches = 0
        while len(found) < len(bodies):
            batch = (await raw.answer()).deliveries
            found += [(tag, message.body) for tag, message in enumerate(batch.messages, batch.first_tag)]
            batches += 1
        assert found == list(enumerate(bodies, 7))
        assert batches > 1

    with_stream(work)


def test_offsets_of_a_stream_go_on_where_a_slice_is_cut_into_several_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consume_service, "BATCH_BYTES_MAX", 100)

    async def work(server: Running, node: leveret.Node, raw: Raw) -> None:
        await raw.subscribed()
        session = server.broker.open_sessions[-1]
        content = encode(encode_properties({}), b"x" * 40) * 5
        queue: Any = server.broker.fake_queues["/", "q"]
        session.sink.deliver(
            session.subscriptions["t"], 7, Slice(queue, None, 0, 5, 0, "x", "k", offset=2**40), content
        )
        batches: list[consume_pb2.DeliveryBatch] = []
        while sum(len(batch.messages) for batch in batches) < 5:
            batches.append((await raw.answer()).deliveries)
        assert len(batches) > 1
        consumer: Any = None
        seen = [
            Delivery(consumer, 1, tag, batch, message).queue_headers
            for batch in batches
            for tag, message in enumerate(batch.messages, batch.first_tag)
        ]
        assert seen == [{"x-stream-offset": 2**40 + place} for place in range(5)]

    with_stream(work)


def test_other_kinds_of_queue_deliver_no_offset() -> None:
    async def work(server: Running, node: leveret.Node, raw: Raw) -> None:
        await raw.subscribed()
        batch = (await raw.answer()).deliveries
        assert batch.messages and not batch.HasField("first_offset")

    with_stream(work, b"1")


def test_a_rejected_message_goes_and_a_requeued_one_comes_again() -> None:
    async def work(server: Running, node: leveret.Node, raw: Raw) -> None:
        await raw.subscribed(prefetch=1)
        await raw.answer()
        await raw.send(settle=settle(1, 1, consume_pb2.OUTCOME_REQUEUED))
        again = (await raw.answer()).deliveries
        assert (again.first_tag, again.redelivered, again.messages[0].body) == (2, True, b"1")
        await raw.send(settle=settle(2, 2, consume_pb2.OUTCOME_REJECTED))
        assert (await raw.answer()).deliveries.messages[0].body == b"2"

    with_stream(work, b"1", b"2")


def test_credit_moves_the_window_of_a_running_subscription() -> None:
    async def work(server: Running, node: leveret.Node, raw: Raw) -> None:
        await raw.subscribed(prefetch=1)
        await raw.answer()
        await raw.send(credit=consume_pb2.Credit(consumer_tag="t", prefetch=3))
        assert [(await raw.answer()).deliveries.messages[0].body for _ in range(2)] == [b"2", b"3"]
        assert len(server.broker.fake_queues["/", "q"].ready) == 1

    with_stream(work, b"1", b"2", b"3", b"4")


@pytest.mark.parametrize(
    ("request_", "code", "text"),
    [
        (
            {"settle": settle(7, 7, consume_pb2.OUTCOME_ACCEPTED)},
            grpc.StatusCode.FAILED_PRECONDITION, "unknown delivery tag 7",
        ),
        (
            {"settle": settle(2, 1, consume_pb2.OUTCOME_ACCEPTED)},
            grpc.StatusCode.INVALID_ARGUMENT, "a range of tags from 2 to 1",
        ),
        (
            {"settle": settle(1, 1, consume_pb2.OUTCOME_UNSPECIFIED)},
            grpc.StatusCode.INVALID_ARGUMENT, "outcome 0 is none of accepted, requeued, rejected",
        ),
        (
            {"settle": settle(1, 2**64 - 1, consume_pb2.OUTCOME_REJECTED)},
            grpc.StatusCode.FAILED_PRECONDITION, "unknown delivery tag 2",
        ),
        (
            {"credit": consume_pb2.Credit(consumer_tag="nobody", prefetch=1)},
            grpc.StatusCode.NOT_FOUND, "no subscription 'nobody' on this stream",
        ),
        (
            {"subscribe": consume_pb2.Subscribe(queue="missing")},
            grpc.StatusCode.NOT_FOUND, "no queue 'missing' in vhost '/'",
        ),
        (
            {"subscribe": consume_pb2.Subscribe(queue="q", prefetch=65_536)},
            grpc.StatusCode.INVALID_ARGUMENT, "prefetch is at most 65535, not 65536; 0 is no limit",
        ),
        (
            {"open": message_pb2.Open()},
            grpc.StatusCode.INVALID_ARGUMENT,
            "after `open` a consumer sends subscribe, unsubscribe, credit or settle, not `open`",
        ),
    ],
)  # fmt: skip
def test_a_wrong_request_ends_the_stream_and_says_why(request_: Any, code: grpc.StatusCode, text: str) -> None:
    async def work(server: Running, node: leveret.Node, raw: Raw) -> None:
        await raw.subscribed()
        await raw.send(**request_)
        assert await status(raw.call) == (code, text)
        await until(lambda: not server.broker.open_sessions)

    with_stream(work, b"1")


def test_unsubscribing_is_answered_after_the_last_delivery() -> None:
    async def work(server: Running, node: leveret.Node, raw: Raw) -> None:
        await raw.subscribed(prefetch=1)
        await raw.send(unsubscribe=consume_pb2.Unsubscribe(consumer_tag="t"))
        assert (await raw.answer()).WhichOneof("kind") == "deliveries"
        assert (await raw.answer()).cancelled == consume_pb2.Cancelled(consumer_tag="t", by_node=False)

    with_stream(work, b"1", b"2")


def test_a_deleted_queue_cancels_its_subscriptions() -> None:
    async def work(server: Running, node: leveret.Node, raw: Raw) -> None:
        await raw.subscribed()
        await node.topology.delete_queue("q")
        assert (await raw.answer()).cancelled == consume_pb2.Cancelled(consumer_tag="t", by_node=True)

    with_stream(work)


def test_a_client_that_does_not_read_gets_only_what_the_outbox_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consume_service, "OUTBOX_BYTES_HIGH", 200_000)
    monkeypatch.setattr(consume_service, "OUTBOX_BYTES_LOW", 50_000)
    count, size = 600, 20_000

    async def work(server: Running, node: leveret.Node, raw: Raw) -> None:
        await raw.subscribed(no_ack=True)
        waiting = server.broker.fake_queues["/", "q"].ready
        stream = server.broker.open_sessions[0].sink
        await until(lambda: not stream.writable)
        held = len(waiting)
        assert held > count // 2, f"{count - held} of {count} messages left their queue for a client that reads nothing"
        for _ in range(count):
            assert (await raw.answer()).deliveries.messages[0].body == bytes(size)
        assert not waiting

    with_stream(work, *[bytes(size)] * count)


def test_get_takes_or_looks() -> None:
    async def work(server: Running, node: leveret.Node, raw: Raw) -> None:
        looked = await node.get("q", count=2, requeue=True)
        assert [(got.body, got.redelivered) for got in looked] == [(b"1", False), (b"2", False)]
        taken = await node.get("q", count=5)
        assert [(got.body, got.redelivered) for got in taken] == [(b"1", True), (b"2", True), (b"3", False)]
        assert await node.get("q") == []
        with pytest.raises(errors.InvalidRequest, match="at most 1000 messages, not 1001"):
            await node.get("q", count=1001)

    with_stream(work, b"1", b"2", b"3")


def test_browse_shows_and_changes_nothing() -> None:
    async def work(server: Running, node: leveret.Node, raw: Raw) -> None:
        await node.get("q", requeue=True)
        for _ in range(2):
            (first,) = await node.browse("q")
            assert (first.body, first.redelivered) == (b"1", True)
            assert first.queue_headers == {"x-acquired-count": 2, "x-delivery-count": 1}
            rest = await node.browse("q", skip=1, limit=9)
            assert [(one.body, one.redelivered, one.queue_headers) for one in rest] == [
                (b"2", False, {}),
                (b"3", False, {}),
            ]
        assert await node.browse("q", skip=3) == []
        assert len(await node.get("q", count=9)) == 3

    with_stream(work, b"1", b"2", b"3")


def test_a_stream_is_browsed_from_an_offset_and_each_message_tells_its_own() -> None:
    async def work(server: Running, node: leveret.Node, raw: Raw) -> None:
        found = await node.browse("q", stream_offset=1, limit=5)
        assert [(one.body, one.queue_headers) for one in found] == [
            (b"2", {"x-stream-offset": 1}),
            (b"3", {"x-stream-offset": 2}),
        ]
        (first,) = await node.browse("q", stream_offset=0)
        assert first.queue_headers == {"x-stream-offset": 0}, "an offset of 0 is one, too"
        with pytest.raises(errors.PreconditionFailed, match="'soon' is no place"):
            await node.browse("q", stream_offset="soon")
        with pytest.raises(errors.InvalidRequest, match="either stream_offset, where to begin, or skip"):
            await node.browse("q", stream_offset=1, skip=1)

    with_stream(work, b"1", b"2", b"3")
