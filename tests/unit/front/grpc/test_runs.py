"""Batches become runs: every message once, in order, with its like."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from broker.errors import BrokerError
from broker.messages.message import Run
from front.grpc.runs import RUN_MESSAGES_MAX, pieces_of
from leveret.v1 import message_pb2, publish_pb2
from native import content
from native.frame_split import RUN_CONTENT_BYTES_MAX

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


def test_a_uniform_batch_is_one_run() -> None:
    (run,) = runs(batch(*[body(b"%d" % number) for number in range(100)], mandatory=True))
    assert (run.count, run.body_bytes, run.persistent, run.mandatory) == (100, 190, True, True)
    assert [found for _, found in content.messages(run.content, 0, 100)] == [b"%d" % number for number in range(100)]


def test_mandatory_messages_for_an_exchange_travel_alone_so_that_a_return_names_one() -> None:
    given_batch = batch(body(b"1"), body(b"2"), exchange="x", mandatory=True)
    assert [run.count for run in runs(given_batch)] == [1, 1]


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
