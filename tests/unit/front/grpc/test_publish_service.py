"""Batches become runs, tags become the client's numbers, and each message is answered exactly once."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import grpc.aio
import pytest
from hypothesis import given
from hypothesis import strategies as st

import leveret
from broker.errors import BrokerError
from broker.message import Run
from front.grpc.publish_service import Numbers, pieces_of
from leveret.v1 import message_pb2, publish_pb2
from native import content
from native.frame_split import RUN_CONTENT_BYTES_MAX, RUN_MESSAGES_MAX
from tests.unit.front.grpc.fakes import Running, bounded, running, until

MESSAGE_BYTES_MAX = 16_777_216


def batch(*messages: message_pb2.Message, first: int = 1, key: str = "q", **more: Any) -> publish_pb2.PublishBatch:
    return publish_pb2.PublishBatch(routing_key=key, messages=messages, first_sequence=first, **more)


def body(data: bytes, **properties: Any) -> message_pb2.Message:
    if not properties:
        return message_pb2.Message(body=data)
    return message_pb2.Message(body=data, properties=message_pb2.Properties(**properties))


def runs(given_batch: publish_pb2.PublishBatch) -> list[Run]:
    found = list(pieces_of(given_batch, MESSAGE_BYTES_MAX))
    assert all(isinstance(piece, Run) for piece in found)
    return found  # type: ignore[return-value]


# ----------------------------------------------------------------------------- batch to runs


def test_a_uniform_batch_is_one_run() -> None:
    (run,) = runs(batch(*[body(b"%d" % number) for number in range(100)], mandatory=True))
    assert (run.count, run.body_bytes, run.persistent, run.mandatory) == (100, 190, True, True)
    assert [found for _, found in content.messages(run.content, 0, 100)] == [b"%d" % number for number in range(100)]


def test_different_identifiers_do_not_split_a_run() -> None:
    (run,) = runs(batch(*[body(b"x", message_id=str(number)) for number in range(10)]))
    assert run.count == 10


def test_a_run_ends_where_priority_expiration_or_delivery_mode_change() -> None:
    transient = message_pb2.DELIVERY_MODE_TRANSIENT
    found = runs(
        batch(body(b"1"), body(b"2", priority=3), body(b"3", expiration_ms=5), body(b"4", delivery_mode=transient))
    )
    assert [(run.priority, run.expiration_ms, run.persistent) for run in found] == [
        (0, None, True), (3, None, True), (0, 5, True), (0, None, False),
    ]  # fmt: skip


def test_runs_stay_digestible() -> None:
    assert [run.count for run in runs(batch(*[body(b"")] * (RUN_MESSAGES_MAX + 1)))] == [RUN_MESSAGES_MAX, 1]
    half = bytes(RUN_CONTENT_BYTES_MAX // 2)
    assert [run.count for run in runs(batch(body(half), body(half), body(half)))] == [1, 1, 1]


def test_a_message_that_cannot_be_taken_stands_alone_among_its_neighbours() -> None:
    found = list(pieces_of(batch(body(b"1"), body(b"2", priority=999), body(b"toolong"), body(b"4")), 5))
    assert [piece.count if isinstance(piece, Run) else type(piece).__name__ for piece in found] == [
        1, "MalformedTable", "PreconditionFailed", 1,
    ]  # fmt: skip


@given(st.lists(st.tuples(st.binary(max_size=5), st.sampled_from([0, 1, 2, 300])), max_size=30))
def test_pieces_hold_every_message_once_and_in_order(messages: list[tuple[bytes, int]]) -> None:
    seen: list[bytes | None] = []
    for piece in pieces_of(batch(*[body(data, priority=priority) for data, priority in messages]), 4):
        if isinstance(piece, BrokerError):
            seen.append(None)
        else:
            assert piece.body_bytes == content.body_bytes(piece.content, 0, piece.count)
            seen += [found for _, found in content.messages(piece.content, 0, piece.count)]
    assert seen == [None if priority > 255 or len(data) > 4 else data for data, priority in messages]


# ----------------------------------------------------------------------------- numbers


@given(st.lists(st.tuples(st.integers(1, 5), st.booleans()), max_size=20), st.integers(0, 100), st.randoms())
def test_numbers_agree_with_a_plain_dictionary(runs: list[tuple[int, bool]], first: int, random: Any) -> None:
    numbers, plain, tag, sequence = Numbers(), {}, 1, first
    for count, taken in runs:
        numbers.expect(sequence, count)
        if taken:
            plain.update({tag + place: sequence + place for place in range(count)})
            tag += count
        else:
            numbers.take_back(count)
        sequence += count
    tags = list(plain)
    random.shuffle(tags)
    for one in tags:
        assert list(numbers.answered(one, one)) == [(plain[one], plain[one])]
    assert numbers.unanswered == 0


def test_a_range_of_tags_is_cut_where_something_was_refused() -> None:
    numbers = Numbers()
    numbers.expect(10, 2)
    numbers.expect(12, 3)
    numbers.take_back(3)
    numbers.expect(15, 2)
    assert list(numbers.answered(1, 4)) == [(10, 11), (15, 16)]


def test_an_answer_for_what_was_never_published_is_a_bug() -> None:
    numbers = Numbers()
    numbers.expect(1, 2)
    with pytest.raises(AssertionError, match="only 2 of them are known"):
        list(numbers.answered(1, 3))


# ----------------------------------------------------------------------------- streams


class Raw:
    """A publishing stream without the client's help."""

    def __init__(self, node: leveret.Node) -> None:
        self.call = node.stubs.publisher.Publish(metadata=node.metadata)

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
            await work(server, Raw(node))

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


def test_after_the_last_request_owed_confirms_come_and_then_the_end() -> None:
    async def work(server: Running, raw: Raw) -> None:
        await raw.opened()
        server.broker.held = True
        await raw.send(batch=batch(body(b"1")))
        await raw.call.done_writing()
        answer = asyncio.ensure_future(raw.answer())
        await until(lambda: bool(server.broker.runs))
        server.broker.held = False
        server.broker.turn_ended(0)
        assert (await answer).confirms.accepted == [message_pb2.Range(first=1, last=1)]
        assert await raw.answer() is grpc.aio.EOF
        assert await raw.call.code() is grpc.StatusCode.OK

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
