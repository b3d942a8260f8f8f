"""The letters between nodes that only quorum queues have. Those of every replicated queue, and the head of all, are in
replicated/letters.py. Little endian:

    kind  name       what follows the head
       3  DELIVER    number u64 | first id u64 | length u32 | delivery_count u32 | acquired_count u32 | flags u8 |
                     exchange_len u8 | key_len u8 | exchange | routing key | content
       4  NEWS       applied u64 | ready u64 | its bytes u64 | unacknowledged u64 | its bytes u64 | consumers u32 |
                     flags u8: 1 in exclusive use, 2 single active, 4 an active one is named |
                     active: node u32, incarnation u64, number u64. What a node without a member shows
       5  TIMED_OUT  number u64
       6  USED       nothing: somebody declared the queue again there
      11  BROWSE     skip u32 | limit u32. An ask of a member's node; answered by: status u8 | leader node u32 | messages as in
                     broker/messages/browsed.py
      12  WAITING    order u8: 0 the next that are due, 1 as they were published | limit u32 | place: entry u64, offset u32,
                     message u32. An ask of a member's node for delayed messages; answered by: status u8 | leader node u32 |
                     count u32 | for each when it is due u64, and its place | the messages as for BROWSE

A PROPOSE has ops of quorum/fifo/commands.py. The answer to it, if that is DONE, goes on with: NEWS as above, from its applied
on | bodies u32 | for each body: size u32 | a DELIVER from its number on | results of quorum/fifo/results.py. The bodies are
those of the results that got a message, in their order.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from broker.messages.browsed import Browsed, decode, encode
from broker.queues.holding_contract import ListOrder, WaitingMessage, WaitingPlace
from native.content import take
from quorum.bodies import Body
from quorum.fifo.commands import ConsumerKey
from quorum.fifo.results import Result, TakenMessage, decode_results, encode_results
from replicated.letters import HEAD, STATUS, AnswerStatus, BadLetter, head
from storage.disk import Buffer


class LetterKind(IntEnum):
    """See the module."""

    DELIVER = 3
    NEWS = 4
    TIMED_OUT = 5
    USED = 6
    BROWSE = 11
    WAITING = 12


QUORUM_TOPIC = 3  # of PeerCalls

_DELIVER = Struct("<QQIIIBBB")
_NEWS = Struct("<QQQQQIBIQQ")
_NUMBER = Struct("<Q")
_SIZE = Struct("<I")
_BROWSE = Struct("<II")
_ASKED_WAITING = Struct("<BIQII")
_WAITING = Struct("<QQII")

_EXCLUSIVE, _SINGLE_ACTIVE, _HAS_ACTIVE = 1, 2, 4
_ALL_BYTES = 1 << 62


class Delivery(NamedTuple):
    """Messages for one consumer."""

    number: int
    first_id: int
    length: int
    delivery_count: int
    acquired_count: int
    body: Body


class AskedWaiting(NamedTuple):
    """Which of the delayed messages that wait."""

    order: ListOrder
    limit: int
    after: WaitingPlace


class QueueNews(NamedTuple):
    """How the queue is, as the leader's node sees it."""

    applied: int = 0  # index of the entry after which this was so
    ready: int = 0
    ready_bytes: int = 0
    unacknowledged: int = 0
    unacknowledged_bytes: int = 0
    consumers: int = 0
    exclusive: bool = False  # a consumer has it for itself
    single_active: bool = False
    active: ConsumerKey | None = None


class Fetched(NamedTuple):
    """A GET's result with the message."""

    got: TakenMessage
    body: Body


NO_NEWS = QueueNews()


def deliver(group: int, delivery: Delivery, end: int) -> list[Buffer]:
    """`end`: where the messages end in their content."""
    return [head(LetterKind.DELIVER, group), *_delivery(delivery, end)]


def decode_deliver(letter: bytes) -> Delivery:
    return _decode_delivery(letter, HEAD.size)


def news(group: int, told: QueueNews) -> bytes:
    return head(LetterKind.NEWS, group) + _news(told)


def decode_news(letter: bytes) -> QueueNews:
    return _decode_news(letter, HEAD.size)


def timed_out(group: int, number: int) -> bytes:
    return head(LetterKind.TIMED_OUT, group) + _NUMBER.pack(number)


def decode_timed_out(letter: bytes) -> int:
    return _number(letter)


def _number(letter: bytes) -> int:
    try:
        number: int = _NUMBER.unpack_from(letter, HEAD.size)[0]
        return number
    except struct.error as error:
        raise BadLetter(f"a {LetterKind(letter[0]).name} of {len(letter)} bytes: {error}") from error


def done(
    leader: int, told: QueueNews, results: Sequence[Result], fetched: Sequence[tuple[Delivery, int]]
) -> list[Buffer]:
    """`fetched`: what the results that got a message got, and where it ends."""
    parts: list[Buffer] = [STATUS.pack(AnswerStatus.DONE, leader), _news(told), _SIZE.pack(len(fetched))]
    for delivery, end in fetched:
        body = _delivery(delivery, end)
        parts += [_SIZE.pack(sum(map(len, body))), *body]
    parts.append(encode_results(results))
    return parts


def decode_done(answer: bytes) -> tuple[QueueNews, Sequence[Result | Fetched]]:
    """Of an answer that says DONE."""
    try:
        at = STATUS.size
        if len(answer) == at:
            return NO_NEWS, ()
        told = _decode_news(answer, at)
        at += _NEWS.size
        (count,) = _SIZE.unpack_from(answer, at)
        at += _SIZE.size
        bodies = []
        for _ in range(count):
            (size,) = _SIZE.unpack_from(answer, at)
            at += _SIZE.size
            bodies.append(_decode_delivery(answer[at : at + size], 0).body)
            at += size
        return told, with_bodies(decode_results(answer[at:]), bodies)
    except (struct.error, ValueError) as error:
        raise BadLetter(f"an answer of {len(answer)} bytes: {error}") from error


def browse(group: int, skip: int, limit: int) -> bytes:
    return head(LetterKind.BROWSE, group) + _BROWSE.pack(skip, limit)


def decode_browse(letter: bytes) -> tuple[int, int]:
    try:
        skip, limit = _BROWSE.unpack_from(letter, HEAD.size)
        return skip, limit
    except struct.error as error:
        raise BadLetter(f"a BROWSE of {len(letter)} bytes: {error}") from error


def browsed(leader: int, found: Iterable[Browsed]) -> bytes:
    return STATUS.pack(AnswerStatus.DONE, leader) + encode(found)


def decode_browsed(answer: bytes) -> list[Browsed] | None:
    """None: that node has no member."""
    try:
        status = AnswerStatus(STATUS.unpack_from(answer)[0])
        return decode(answer[STATUS.size :]) if status is AnswerStatus.DONE else None
    except (struct.error, ValueError) as error:
        raise BadLetter(f"an answer to BROWSE of {len(answer)} bytes: {error}") from error


def waiting(group: int, asked: AskedWaiting) -> bytes:
    return head(LetterKind.WAITING, group) + _ASKED_WAITING.pack(asked.order, asked.limit, *asked.after)


def decode_asked_waiting(letter: bytes) -> AskedWaiting:
    try:
        order, limit, *after = _ASKED_WAITING.unpack_from(letter, HEAD.size)
        return AskedWaiting(ListOrder(order), limit, WaitingPlace(*after))
    except (struct.error, ValueError) as error:
        raise BadLetter(f"a WAITING of {len(letter)} bytes: {error}") from error


def told_waiting(leader: int, found: Sequence[WaitingMessage]) -> bytes:
    status = STATUS.pack(AnswerStatus.DONE, leader) + _SIZE.pack(len(found))
    times = b"".join([_WAITING.pack(one.due_ms, *one.place) for one in found])
    return status + times + encode(one.message for one in found)


def decode_waiting(answer: bytes) -> list[WaitingMessage] | None:
    """None: that node has no member."""
    try:
        if AnswerStatus(STATUS.unpack_from(answer)[0]) is not AnswerStatus.DONE:
            return None
        (count,) = _SIZE.unpack_from(answer, STATUS.size)
        start = STATUS.size + _SIZE.size
        end = start + count * _WAITING.size
        times = list(_WAITING.iter_unpack(answer[start:end]))
        return [
            WaitingMessage(WaitingPlace(*place), due_ms, message)
            for (due_ms, *place), message in zip(times, decode(answer[end:]), strict=True)
        ]
    except (struct.error, ValueError) as error:
        raise BadLetter(f"an answer to WAITING of {len(answer)} bytes: {error}") from error


def with_bodies(results: Sequence[Result], bodies: Iterable[Body]) -> Sequence[Result | Fetched]:
    found = iter(bodies)
    return [Fetched(result, next(found)) if type(result) is TakenMessage else result for result in results]


def _delivery(delivery: Delivery, end: int) -> list[Buffer]:
    body = delivery.body
    exchange = body.exchange.encode("utf-8", "surrogateescape")
    key = body.routing_key.encode("utf-8", "surrogateescape")
    fixed = _DELIVER.pack(
        delivery.number, delivery.first_id, delivery.length, delivery.delivery_count, delivery.acquired_count,
        body.flags, len(exchange), len(key),
    )  # fmt: skip
    return [fixed, exchange, key, memoryview(body.content)[body.position : end]]


def _decode_delivery(data: bytes, at: int) -> Delivery:
    try:
        *numbers, flags, exchange_len, key_len = _DELIVER.unpack_from(data, at)
    except struct.error as error:
        raise BadLetter(f"a DELIVER of {len(data)} bytes: {error}") from error
    exchange_at = at + _DELIVER.size
    key_at = exchange_at + exchange_len
    content_at = key_at + key_len
    try:
        taken = take(data, content_at, numbers[2], _ALL_BYTES)[:2]
    except ValueError as error:
        raise BadLetter(f"a DELIVER of {len(data)} bytes: {error}") from error
    if not numbers[2] or taken != (numbers[2], len(data)):
        raise BadLetter(
            f"a DELIVER of {numbers[2]} messages in {len(data)} bytes has {taken[0]} that end at {taken[1]}"
        )
    exchange = data[exchange_at:key_at].decode("utf-8", "surrogateescape")
    key = data[key_at:content_at].decode("utf-8", "surrogateescape")
    number, first_id, length, delivery_count, acquired_count = numbers
    body = Body(data, content_at, exchange, key, flags)
    return Delivery(number, first_id, length, delivery_count, acquired_count, body)


def _news(told: QueueNews) -> bytes:
    flags = _EXCLUSIVE * told.exclusive | _SINGLE_ACTIVE * told.single_active | _HAS_ACTIVE * (told.active is not None)
    return _NEWS.pack(*told[:6], flags, *(told.active or (0, 0, 0)))


def _decode_news(data: bytes, at: int) -> QueueNews:
    try:
        *numbers, flags, node, incarnation, number = _NEWS.unpack_from(data, at)
    except struct.error as error:
        raise BadLetter(f"NEWS in {len(data)} bytes: {error}") from error
    applied, ready, ready_bytes, unacknowledged, unacknowledged_bytes, consumers = numbers
    return QueueNews(
        applied,
        ready,
        ready_bytes,
        unacknowledged,
        unacknowledged_bytes,
        consumers,
        exclusive=bool(flags & _EXCLUSIVE),
        single_active=bool(flags & _SINGLE_ACTIVE),
        active=ConsumerKey(node, incarnation, number) if flags & _HAS_ACTIVE else None,
    )
