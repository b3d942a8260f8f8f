"""What nodes say to each other about classic queues: topic CLASSIC of node/peers/calls.py. Little endian; `names` are
exchange and key as in broker/messages/route_names.py. The first byte says what it is.

The node of the clients; what is asked, not told, is followed by what a good answer says:

     1 publish    flags u8 (1: persistent, 2: redelivered, 4: expires, 8: may be refused in part, 16: a dead letter) |
                  priority u8 | queues u32 | count u32 | body_bytes u64 | number u64 (0: nobody waits for a receipt) |
                  expiration_ms u64 | queue ids, each u64 | of a dead letter: queue id u64 in which it died, position there
                  u64, u32, u32, reason u8 as in classic/store/log_records.py | names | content
                  A death is told to nodes only that say that they read it (node/membership/news.py)
     2 settle     outcome u8 | number u64 of the consumer or get | tags: first u64 | end u64, not included
     3 credit     number u64 | bytes u64 that may come beside those that may come already
     4 cancel     number u64 | tag u64 of the first message that its client has not seen, and will not see: these return
     5 prefetch   number u64 | prefetch u32
     6 consume    queue u64 | number u64 | exclusive u8 | prefetch u32 | priority i64 | credit u64 | tag, all that follows
                  -> active u8
     7 get        queue u64 | number u64
                  -> nothing, or remaining u64 | redelivered u8 | names | content; it is out, with the tag 1
     8 purge      queue u64
                  -> purged u64
     9 use        queue u64
                  -> MessagePack: its broker.queues.queue_type.QueueStatistics
    10 stop       number u64: it has no credit any more; what comes until this is heard is returned
    11 browse     queue u64 | skip u32 | limit u32
                  -> messages as in broker/messages/browsed.py
    12 passed     queue u64 that has become another one, as both know or will
                  -> nothing, once all that this node has published to it before is in the other one

The home node:

    16 deliver    redelivered u8 | number u64 | first tag u64 | count u32 | names | content
    17 confirm    ranges of publishes: first u64 | last u64 | accepted u8
    18 active     number u64 | active u8
    19 figures    MessagePack: pairs of a queue's id and its statistics
    20 hold       yes u8: publish nothing more until it is no
    21 partial    number u64 of a publish | which of its messages are refused, each u32, from 0; its confirm, with accepted,
                  follows. Only to a node that says that it may be refused in part; else all of it is refused

An answer begins with 0, then what is said above; or with 1, then MessagePack: the name of an error of broker/errors.py and its
text; or with 2: the queue is gone.

Numbers of publishes, and of consumers and gets, are given by the node of the clients, ascending, none twice on one link. Tags
of a consumer or get count its messages from 1. Whatever the bytes are, decoding returns what they say or raises BadBytes, which
ends the link.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import wraps
from struct import Struct
from typing import NamedTuple, TypeVar

import msgspec

from broker import errors
from broker.messages import browsed, route_names
from broker.messages.browsed import Browsed
from broker.messages.message import DiedIn, Run
from broker.queues.queue_type import Outcome, QueueStatistics
from native.content import skip, take
from raft.core.errors import BadBytes
from storage.disk import Buffer


class Op(IntEnum):
    """The first byte."""

    PUBLISH = 1
    SETTLE = 2
    CREDIT = 3
    CANCEL = 4
    PREFETCH = 5
    CONSUME = 6
    GET = 7
    PURGE = 8
    USE = 9
    STOP = 10
    BROWSE = 11
    PASSED = 12
    DELIVER = 16
    CONFIRM = 17
    ACTIVE = 18
    FIGURES = 19
    HOLD = 20
    PARTIAL = 21


FROM_HOME = Op.DELIVER  # from here on it is the home node that speaks

DONE, REFUSED, GONE = 0, 1, 2

PREFETCH_MAX = (1 << 32) - 1
_ALL_BYTES = 1 << 62
_PERSISTENT, _REDELIVERED, _EXPIRES, _IN_PART, _DIED = 1, 2, 4, 8, 16

_PUBLISH = Struct("<BBBIIQQQ")
_SETTLE = Struct("<BBQQQ")
_PAIR = Struct("<BQQ")
_NUMBER = Struct("<BQ")
_PREFETCH = Struct("<BQI")
_CONSUME = Struct("<BQQBIqQ")
_FLAG = Struct("<BB")
_NUMBER_FLAG = Struct("<BQB")
_DELIVER = Struct("<BBQQI")
_GOT = Struct("<BQB")
_RANGE = Struct("<QQB")
_BROWSE = Struct("<BQII")
_DEATH = Struct("<QQIIB")
_U64 = Struct("<Q")
_U32 = Struct("<I")

_encode_pack = msgspec.msgpack.encode
_error_of = msgspec.msgpack.Decoder(tuple[str, str])
_statistics_of = msgspec.msgpack.Decoder(QueueStatistics)
_figures_of = msgspec.msgpack.Decoder(list[tuple[int, QueueStatistics]])

ERRORS = {
    kind.__name__: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, errors.BrokerError)
}


T = TypeVar("T")


def _decoder(decode: Callable[[bytes], T]) -> Callable[[bytes], T]:
    """Have everything that wrong bytes make it raise raised as BadBytes, so that no fault of this node looks like them."""

    @wraps(decode)
    def decoded(payload: bytes) -> T:
        try:
            return decode(payload)
        except (struct.error, ValueError, IndexError, msgspec.MsgspecError) as error:
            raise BadBytes(f"{decode.__name__} of {len(payload)} bytes: {error}") from error

    return decoded


# ------------------------------------------------------------------------- contents


def _check_content(payload: bytes, at: int, count: int) -> int:
    """The bytes of its bodies. Raises ValueError or BadBytes unless these are so many messages and nothing else."""
    taken, end, body_bytes = take(payload, at, count, _ALL_BYTES)
    if not count or taken != count or end != len(payload):
        raise BadBytes(f"{taken} messages end at {end}: not {count} that end at {len(payload)}")
    return body_bytes


def _must_end(payload: bytes, size: int) -> None:
    if len(payload) != size:
        raise BadBytes(f"{len(payload)} bytes where {size} were due")


# ------------------------------------------------------------------------- publish


class Publish(NamedTuple):
    queues: Sequence[int]
    number: int
    run: Run
    in_part: bool  # its sender understands `partial`


def encode_publish(queues: Sequence[int], number: int, run: Run, *, tells_death: bool = False) -> list[Buffer]:
    """`tells_death`: its reader knows what a death is."""
    death = run.died_in if tells_death else None
    flags = _PERSISTENT * run.persistent | _REDELIVERED * run.redelivered | _EXPIRES * (run.expiration_ms is not None)
    flags |= _IN_PART | _DIED * (death is not None)
    fixed = _PUBLISH.pack(
        Op.PUBLISH, flags, run.priority, len(queues), run.count, run.body_bytes, number, run.expiration_ms or 0
    )
    ids = [_U64.pack(queue) for queue in queues]
    died = b"" if death is None else _DEATH.pack(death.queue_id, *death.position, death.reason)
    return [fixed, *ids, died, route_names.encode(run.exchange, run.routing_key), run.content]


@_decoder
def decode_publish(payload: bytes) -> Publish:
    _, flags, priority, queue_count, count, body_bytes, number, expiration_ms = _PUBLISH.unpack_from(payload)
    at = _PUBLISH.size + _U64.size * queue_count
    if not queue_count or at >= len(payload):
        raise BadBytes(f"{queue_count} queues in {len(payload)} bytes")
    queues = [queue for (queue,) in _U64.iter_unpack(payload[_PUBLISH.size : at])]
    died_in = None
    if flags & _DIED:
        queue_id, *position, reason = _DEATH.unpack_from(payload, at)
        died_in = DiedIn(queue_id, tuple(position), reason)
        at += _DEATH.size
    exchange, routing_key, at = route_names.read(payload, at)
    if _check_content(payload, at, count) != body_bytes:
        raise BadBytes(f"{count} bodies have not {body_bytes} bytes")
    run = Run(
        exchange,
        routing_key,
        payload[at:],
        count,
        body_bytes,
        persistent=bool(flags & _PERSISTENT),
        priority=priority,
        expiration_ms=expiration_ms if flags & _EXPIRES else None,
        redelivered=bool(flags & _REDELIVERED),
        died_in=died_in,
    )
    return Publish(queues, number, run, bool(flags & _IN_PART))


def encode_confirm(ranges: Sequence[tuple[int, int, bool]]) -> bytes:
    return b"".join((bytes((Op.CONFIRM,)), *[_RANGE.pack(*one) for one in ranges]))


@_decoder
def decode_confirm(payload: bytes) -> list[tuple[int, int, bool]]:
    return [(first, last, bool(accepted)) for first, last, accepted in _RANGE.iter_unpack(payload[1:])]


def encode_partial(number: int, refused: Sequence[int]) -> bytes:
    return _NUMBER.pack(Op.PARTIAL, number) + b"".join([_U32.pack(one) for one in refused])


def decode_partial(payload: bytes) -> tuple[int, list[int]]:
    """The publish, and which of its messages."""
    number: int = _NUMBER.unpack_from(payload)[1]
    return number, [one for (one,) in _U32.iter_unpack(payload[_NUMBER.size :])]


# ------------------------------------------------------------------------- consume


class RemoteConsume(NamedTuple):
    queue: int
    number: int
    exclusive: bool
    prefetch: int
    priority: int
    credit: int
    tag: str


def encode_consume(wish: RemoteConsume) -> bytes:
    prefetch = min(wish.prefetch, PREFETCH_MAX)
    fixed = _CONSUME.pack(Op.CONSUME, wish.queue, wish.number, wish.exclusive, prefetch, wish.priority, wish.credit)
    return fixed + wish.tag.encode("utf-8", "surrogateescape")


@_decoder
def decode_consume(payload: bytes) -> RemoteConsume:
    _, queue, number, exclusive, prefetch, priority, credit = _CONSUME.unpack_from(payload)
    tag = payload[_CONSUME.size :].decode("utf-8", "surrogateescape")
    return RemoteConsume(queue, number, bool(exclusive), prefetch, priority, credit, tag)


class RemoteDelivery(NamedTuple):
    """`payload` holds the messages from `position` on."""

    redelivered: bool
    number: int
    first: int
    message_count: int
    exchange: str
    routing_key: str
    payload: bytes
    position: int


def encode_deliver(
    redelivered: bool, number: int, first: int, count: int, exchange: str, routing_key: str, content: Buffer
) -> list[Buffer]:
    return [
        _DELIVER.pack(Op.DELIVER, redelivered, number, first, count),
        route_names.encode(exchange, routing_key),
        content,
    ]


@_decoder
def decode_deliver(payload: bytes) -> RemoteDelivery:
    _, redelivered, number, first, count = _DELIVER.unpack_from(payload)
    exchange, routing_key, at = route_names.read(payload, _DELIVER.size)
    _check_content(payload, at, count)
    return RemoteDelivery(bool(redelivered), number, first, count, exchange, routing_key, payload, at)


def divided(delivery: RemoteDelivery, count: int) -> tuple[RemoteDelivery, RemoteDelivery]:
    """The first `count` messages of more, and the rest."""
    position = skip(delivery.payload, delivery.position, count)
    rest = delivery._replace(
        first=delivery.first + count, message_count=delivery.message_count - count, position=position
    )
    return delivery._replace(message_count=count), rest


def encode_settle(outcome: int, number: int, first: int, end: int) -> bytes:
    return _SETTLE.pack(Op.SETTLE, outcome, number, first, end)


@_decoder
def decode_settle(payload: bytes) -> tuple[Outcome, int, int, int]:
    """Outcome, number, first tag, and the one behind the last."""
    _must_end(payload, _SETTLE.size)
    _, outcome, number, first, end = _SETTLE.unpack(payload)
    if first >= end:
        raise BadBytes(f"tags from {first} on, and before {end}")
    return Outcome(outcome), number, first, end


@_decoder
def consumer_of(payload: bytes) -> int:
    """Whom a credit, stop, prefetch or cancel is for."""
    number: int = _NUMBER.unpack_from(payload)[1]
    return number


def encode_credit(number: int, size: int) -> bytes:
    return _PAIR.pack(Op.CREDIT, number, size)


@_decoder
def decode_pair(payload: bytes) -> tuple[int, int]:
    """Credit: number and bytes. Cancel: number and tag. Get: queue and number."""
    _must_end(payload, _PAIR.size)
    _, number, value = _PAIR.unpack(payload)
    return number, value


def encode_prefetch(number: int, prefetch: int) -> bytes:
    return _PREFETCH.pack(Op.PREFETCH, number, min(prefetch, PREFETCH_MAX))


@_decoder
def decode_prefetch(payload: bytes) -> tuple[int, int]:
    _must_end(payload, _PREFETCH.size)
    _, number, prefetch = _PREFETCH.unpack(payload)
    return number, prefetch


def encode_cancel(number: int, unseen: int) -> bytes:
    return _PAIR.pack(Op.CANCEL, number, unseen)


def encode_active(number: int, active: bool) -> bytes:
    return _NUMBER_FLAG.pack(Op.ACTIVE, number, active)


@_decoder
def decode_active(payload: bytes) -> tuple[int, bool]:
    _must_end(payload, _NUMBER_FLAG.size)
    _, number, active = _NUMBER_FLAG.unpack(payload)
    return number, bool(active)


# ------------------------------------------------------------------------- get, purge, use


def encode_get(queue: int, number: int) -> bytes:
    return _PAIR.pack(Op.GET, queue, number)


class GotFar(NamedTuple):
    """`payload` holds the message from `position` on."""

    remaining: int
    redelivered: bool
    exchange: str
    routing_key: str
    payload: bytes
    position: int


def encode_got(remaining: int, redelivered: bool, exchange: str, routing_key: str, content: Buffer) -> list[Buffer]:
    return [_GOT.pack(DONE, remaining, redelivered), route_names.encode(exchange, routing_key), content]


NOTHING_GOT = bytes((DONE,))


@_decoder
def decode_got(payload: bytes) -> GotFar | None:
    if payload == NOTHING_GOT:
        return None
    _, remaining, redelivered = _GOT.unpack_from(payload)
    exchange, routing_key, at = route_names.read(payload, _GOT.size)
    _check_content(payload, at, 1)
    return GotFar(remaining, bool(redelivered), exchange, routing_key, payload, at)


def encode_number(op: Op, number: int) -> bytes:
    """Purge, use and stop: the queue, or the consumer."""
    return _NUMBER.pack(op, number)


@_decoder
def decode_number(payload: bytes) -> int:
    """The same, and the answer of purge."""
    _must_end(payload, _NUMBER.size)
    number: int = _NUMBER.unpack(payload)[1]
    return number


def encode_browse(queue: int, skip: int, limit: int) -> bytes:
    return _BROWSE.pack(Op.BROWSE, queue, skip, limit)


@_decoder
def decode_browse(payload: bytes) -> tuple[int, int, int]:
    """Queue, skip and limit."""
    _must_end(payload, _BROWSE.size)
    _, queue, skip, limit = _BROWSE.unpack(payload)
    return queue, skip, limit


def encode_browsed(found: Sequence[Browsed]) -> bytes:
    return bytes((DONE,)) + browsed.encode(found)


@_decoder
def decode_browsed(payload: bytes) -> list[Browsed]:
    return browsed.decode(payload[1:])


def encode_count(count: int) -> bytes:
    return _NUMBER.pack(DONE, count)


def encode_flag(first: int, flag: bool) -> bytes:
    """Hold, and the answer of consume."""
    return _FLAG.pack(first, flag)


@_decoder
def decode_flag(payload: bytes) -> bool:
    _must_end(payload, _FLAG.size)
    return bool(payload[1])


def encode_statistics(statistics: QueueStatistics) -> bytes:
    return bytes((DONE,)) + _encode_pack(statistics)


@_decoder
def decode_statistics(payload: bytes) -> QueueStatistics:
    return _statistics_of.decode(payload[1:])


def encode_figures(figures: Sequence[tuple[int, QueueStatistics]]) -> bytes:
    return bytes((Op.FIGURES,)) + _encode_pack(figures)


@_decoder
def decode_figures(payload: bytes) -> list[tuple[int, QueueStatistics]]:
    return _figures_of.decode(payload[1:])


# ------------------------------------------------------------------------- refusals

QUEUE_GONE = bytes((GONE,))


def encode_refusal(error: errors.BrokerError) -> bytes:
    return bytes((REFUSED,)) + _encode_pack((type(error).__name__, error.text))


@_decoder
def decode_refusal(payload: bytes) -> errors.BrokerError:
    name, text = _error_of.decode(payload[1:])
    return ERRORS.get(name, errors.InternalError)(text)
