"""A publishing stream answers each message exactly once, and ends for a reason."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import grpc.aio
import pytest

import leveret
from broker.pending import Pending
from front.grpc.runs import RUN_MESSAGES_MAX
from leveret.channels import Stubs
from leveret.v1 import message_pb2, publish_pb2
from tests.unit.front.grpc.fakes import Running, bounded, running, until
from tests.unit.front.grpc.test_runs import batch, body


class Raw:
    """A publishing stream without the client's help."""

    def __init__(self, node: leveret.Node, stubs: Stubs) -> None:
        self.call = stubs.publisher.Publish(metadata=node.metadata)

    async def send(self, **request: Any) -> None:
        await self.call.write(publish_pb2.PublishRequest(**request))

    async def answer(self) -> Any:
        return await self.call.read()

    async def opened(self) -> Raw:
        await self.send(open=message_pb2.Open())
        assert (await self.answer()).WhichOneof("kind") == "opened"
        return self


def with_stream(work: Any) -> None:
    async def run() -> None:
        async with running() as server, leveret.connect(server.target) as node:
            await node.topology.declare_queue("q")
            await work(server, Raw(node, await node.stubs()))

    bounded(run())


async def status(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        while await call.read() is not grpc.aio.EOF:
            pass
    return caught.value.code(), str(caught.value.details())


def test_the_first_request_must_open_the_stream() -> None:
    async def work(server: Running, raw: Raw) -> None:
        await raw.send(batch=batch(body(b"x")))
        code, text = await status(raw.call)
        assert (code, text) == (
            grpc.StatusCode.INVALID_ARGUMENT, "the first request of a stream is `open`, not `batch`",
        )  # fmt: skip

    with_stream(work)


def test_sequence_numbers_may_begin_anywhere_and_then_continue() -> None:
    async def work(server: Running, raw: Raw) -> None:
        await raw.opened()
        await raw.send(batch=batch(body(b"1"), body(b"2"), first=1000))
        assert (await raw.answer()).confirms.accepted == [message_pb2.Range(first=1000, last=1001)]
        await raw.send(batch=batch(body(b"3"), first=1003))
        code, text = await status(raw.call)
        assert (code, text) == (grpc.StatusCode.INVALID_ARGUMENT, "a batch begins with sequence 1003, expected 1002")

    with_stream(work)


def test_sequence_numbers_that_no_answer_could_name_are_refused_before_anything_is_published() -> None:
    async def work(server: Running, raw: Raw) -> None:
        await raw.opened()
        await raw.send(batch=batch(body(b"1"), first=2**64 - 2))
        assert (await raw.answer()).confirms.accepted == [message_pb2.Range(first=2**64 - 2, last=2**64 - 2)]
        await raw.send(batch=batch(body(b"2"), body(b"3"), first=2**64 - 1))
        code, text = await status(raw.call)
        assert code == grpc.StatusCode.INVALID_ARGUMENT
        assert text.startswith(f"2 messages from sequence {2**64 - 1} on: a sequence is below {2**64}")

    with_stream(work)


def test_after_the_last_request_owed_confirms_come_and_then_the_end() -> None:
    async def work(server: Running, raw: Raw) -> None:
        await raw.opened()
        server.broker.held = True
        await raw.send(batch=batch(body(b"1")))
        await raw.call.done_writing()
        answer = asyncio.ensure_future(raw.answer())
        await until(lambda: bool(server.broker.runs))
        server.broker.held = False
        server.broker.end_turn()
        assert (await answer).confirms.accepted == [message_pb2.Range(first=1, last=1)]
        assert await raw.answer() is grpc.aio.EOF
        assert await raw.call.code() is grpc.StatusCode.OK

    with_stream(work)


def test_a_batch_of_very_many_messages_is_published_a_run_at_a_time() -> None:
    """Seven million empty ones, 14 MB, held a node for 4 seconds."""

    async def work(server: Running, raw: Raw) -> None:
        await raw.opened()
        first = server.broker.under_way = Pending()
        await raw.send(batch=batch(*[body(b"")] * (RUN_MESSAGES_MAX + 1)))
        assert (await raw.answer()).confirms.accepted == [message_pb2.Range(first=1, last=RUN_MESSAGES_MAX)]
        server.broker.under_way = None
        async with leveret.connect(server.target) as node:
            await node.admin.connections()
        assert [run.count for run in server.broker.runs] == [RUN_MESSAGES_MAX]
        first.resolve(None)
        last = RUN_MESSAGES_MAX + 1
        assert (await raw.answer()).confirms.accepted == [message_pb2.Range(first=last, last=last)]
        await raw.send(batch=batch(body(b"next"), first=last + 1))
        assert (await raw.answer()).confirms.accepted == [message_pb2.Range(first=last + 1, last=last + 1)]

    with_stream(work)


def test_the_next_batch_waits_for_one_that_is_still_under_way() -> None:
    async def work(server: Running, raw: Raw) -> None:
        await raw.opened()
        first = server.broker.under_way = Pending()
        await raw.send(batch=batch(body(b"1")))
        assert (await raw.answer()).confirms.accepted == [message_pb2.Range(first=1, last=1)]
        server.broker.under_way = None
        await raw.send(batch=batch(body(b"2"), first=2))
        async with leveret.connect(server.target) as node:
            await node.admin.connections()
        assert len(server.broker.runs) == 1
        first.resolve(None)
        assert (await raw.answer()).confirms.accepted == [message_pb2.Range(first=2, last=2)]

    with_stream(work)


def test_an_alarm_stops_reading_and_tells_the_client() -> None:
    async def work(server: Running, raw: Raw) -> None:
        await raw.opened()
        (connection,) = server.broker.open_connections
        connection.set_blocked("memory")
        assert (await raw.answer()).blocked.reason == "memory"
        await raw.send(batch=batch(body(b"1")))
        await raw.send(batch=batch(body(b"2"), first=2))
        connection.set_blocked(None)
        unblocked, confirmed = False, 0
        while not unblocked or confirmed < 2:
            answer = await raw.answer()
            unblocked |= answer.WhichOneof("kind") == "blocked"
            confirmed += sum(item.last - item.first + 1 for item in answer.confirms.accepted)
        assert len(server.broker.runs) == 2

    with_stream(work)


def test_an_operator_closes_the_stream_with_a_reason() -> None:
    async def work(server: Running, raw: Raw) -> None:
        await raw.opened()
        async with leveret.connect(server.target) as node:
            (connection,) = await node.admin.connections()
            await node.admin.close_connection(connection.id, "maintenance")
        assert await status(raw.call) == (grpc.StatusCode.UNAVAILABLE, "maintenance")
        assert server.broker.open_connections == server.broker.open_sessions == []

    with_stream(work)


def test_a_client_that_vanishes_leaves_nothing_behind() -> None:
    async def work(server: Running, raw: Raw) -> None:
        await raw.opened()
        raw.call.cancel()
        await until(lambda: not server.broker.open_connections and not server.broker.open_sessions)

    with_stream(work)
