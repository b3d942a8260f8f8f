"""The bytes of entries and results."""

from __future__ import annotations

import pytest

from broker.queues.queue_type import Outcome
from quorum.fifo.commands import (
    NUMBERED,
    Cancel,
    Consume,
    ConsumerKey,
    DeadSettled,
    Enqueue,
    Get,
    NodeDown,
    NodeUp,
    Op,
    Origins,
    Piece,
    Policy,
    Producer,
    Purge,
    PurgeOnce,
    SessionGone,
    SessionKey,
    Settle,
    Tick,
    Upgrade,
    UponCancel,
    Who,
    Window,
    Withdraw,
    decode,
    decode_entry,
    encode,
    encode_enqueue,
    encode_settle,
    entry_head,
    level,
)
from quorum.fifo.origins import DeathPlace, OriginPart
from quorum.fifo.results import Gap, Purged, ResultCode, TakenMessage, decode_results, encode_results
from quorum.fifo.rules import DeadLetters, Retry, Rules, decode_rules

SESSION = SessionKey(3, 1 << 40)
CONSUMER = ConsumerKey(3, 1 << 40, 7)
OPS: list[Op] = [
    Settle(CONSUMER, Outcome.REJECTED, [(1, 3), (9, 1)]),
    Consume(CONSUMER, "tag-ü", 100, True, True, -5, 0),
    Consume(CONSUMER, ""),
    Cancel(CONSUMER, UponCancel.RETURNED),
    Get(CONSUMER, True),
    Purge(),
    PurgeOnce(ConsumerKey(3, 1 << 60, 17), 16),
    Withdraw(ConsumerKey(3, 1 << 60, 17), 16, 1 << 50, 9, 2),
    Window(CONSUMER, 0),
    Who(CONSUMER, 9),
    Origins([]),
    Origins([OriginPart(9, 1 << 40, 3, True), OriginPart(0, 0, 1, died_in=DeathPlace(7, 1 << 40, 9, 2, 3))]),
    Policy(
        Rules(
            10, 1000, 60_000, 5000, None, 7000, 100, Retry.FAILED, 10, 100, DeadLetters.AT_LEAST_ONCE, True, True, True
        )
    ),
    Policy(Rules()),
    NodeDown(SESSION),
    NodeUp(SESSION),
    SessionGone(SESSION),
    Tick(),
    DeadSettled([(5, 2)]),
    Upgrade(2),
]


def test_every_op_comes_back_from_its_bytes_with_its_offset() -> None:
    content = b"\3\0\0\0\2\0\0\0ppphi"
    run = encode_enqueue(
        SESSION, 5, 1, 2, "amq.topic", "a.b", content, answered=4, expiration_ms=0, flags=1, priority=level(40)
    )
    data = b"".join([entry_head(123), *run, *map(encode, OPS)])
    time_ms, ops = decode_entry(data)
    assert time_ms == 123
    (first, enqueue), *others = ops
    assert [op for _, op in others] == OPS
    assert all(decode(data, at) == op for at, op in ops)
    assert enqueue == Enqueue(
        SESSION, 5, 4, 1, 2, 0, 1, 31, "amq.topic", "a.b", (others[0][0] - len(content), others[0][0])
    )
    assert isinstance(enqueue, Enqueue)
    assert data[slice(*enqueue.content)] == content
    assert first == len(entry_head(0))


def test_a_message_without_priority_is_at_the_default_and_none_is_above_the_highest() -> None:
    assert [level(None), level(0), level(31), level(32), level(255)] == [4, 0, 31, 31, 31]


@pytest.mark.parametrize("op", OPS, ids=lambda op: type(op).__name__)
def test_bytes_that_end_too_early_are_refused(op: Op) -> None:
    data = encode(op)
    for end in range(len(data)):
        with pytest.raises(ValueError):
            decode(data[:end], 0)


@pytest.mark.parametrize(
    "data",
    [b"", b"\1", entry_head(1) + b"\xff\0\0\0\0", b"\2" + entry_head(1)[1:], entry_head(1) + b"\1"],
    ids=["nothing", "half a head", "unknown kind", "unknown version", "half an op"],
)
def test_what_is_no_entry_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        decode_entry(data)


def test_names_longer_than_their_op_are_refused() -> None:
    head, _ = encode_enqueue(SESSION, 1, 1, 0, "exchange", "key", b"")
    with pytest.raises(ValueError, match="names"):
        decode(head[:-13] + b"\xff" + head[-12:], 0)


def test_a_numbered_message_names_its_producer_before_its_content() -> None:
    producer = Producer(b"shop-7", 1 << 60)
    data = b"".join(encode_enqueue(SESSION, 1, 1, 2, "x", "key", b"content", producer=producer))
    op = decode(data, 0)
    assert isinstance(op, Enqueue)
    assert (op.producer, op.flags, data[slice(*op.content)]) == (producer, NUMBERED, b"content")
    assert (op.exchange, op.routing_key) == ("x", "key")
    with pytest.raises(ValueError):
        decode(data[:-14] + b"\xff" + data[-13:], 0)


def test_an_enqueue_is_not_encoded_without_its_content() -> None:
    with pytest.raises(TypeError, match="encode_enqueue"):
        encode(Enqueue(SESSION, 1, 0, 1, 0, None, 0, 4, "", "q", (0, 0)))


def test_settling_takes_any_number_of_ranges() -> None:
    ranges = [(at * 10 + 1, 3) for at in range(1000)]
    assert decode(encode_settle(CONSUMER, Outcome.ACKNOWLEDGED, ranges), 0) == Settle(
        CONSUMER, Outcome.ACKNOWLEDGED, ranges
    )


def test_results_come_back_from_their_bytes() -> None:
    results = [None, *ResultCode, Gap(1 << 50), Purged(17), TakenMessage(1, Piece(5, 9, 2, 1), 1, 2, 30)]
    assert decode_results(encode_results(results)) == results
    for end in range(1, len(encode_results(results[-1:]))):
        with pytest.raises(ValueError):
            decode_results(encode_results(results[-1:])[:end])
    with pytest.raises(ValueError):
        decode_results(b"\xff")


def test_rules_of_another_size_or_with_unknown_flags_are_refused() -> None:
    data = Rules().encode()
    assert decode_rules(data) == Rules()
    for damaged in (data[:-1], data + b"\0", data[:-1] + b"\x08", data[:-3] + b"\4\0\0", data[:-2] + b"\3\0"):
        with pytest.raises(ValueError):
            decode_rules(damaged)
