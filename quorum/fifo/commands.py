"""What an entry of a quorum queue's log says: what one node's session had to say in one turn, at one time.

An entry, little endian:

    offset  size  field
         0     1  version     1; of these tables
         1     8  time_ms     what time it was in the queue, by its leader's node (replicated/queue_time.py); it never goes back
         9     …  ops, one behind the other

    an op:  kind u8 | size u32: of the payload | payload

An op is named by its *offset*, where its kind stands in the entry; so who reads a body finds it at once.

    kind  name          payload
       1  ENQUEUE       session 12 | sequence u64 | answered u64 | count u32 | body_bytes u64 | expiration_ms u64 | flags u8 |
                        priority u8 | exchange_len u8 | key_len u8 | exchange | routing key | producer, if flags say so |
                        content (native/content.py)
       2  SETTLE        consumer 20 | outcome u8: 0 acknowledged, 1 requeued and failed, 2 rejected, 3 never seen, 4 requeued
                        and not failed | ranges
       3  CONSUME       consumer 20 | flags u8: 1 no_ack, 2 exclusive | prefetch u32: 0 no limit | priority i64 |
                        timeout_ms u64: 2^64 - 1 the queue's, 0 none | tag
       4  CANCEL        consumer 20 | held u8: what becomes of messages that it holds
       5  GET           consumer 20 | no_ack u8
       6  PURGE
       7  POLICY        rules (quorum/fifo/rules.py)
       8  NODE_DOWN     session 12
       9  NODE_UP       session 12
      10  SESSION_GONE  session 12
      11  TICK
      12  DEAD_SETTLED  ranges
      13  UPGRADE       version u32
      14  PURGE_ONCE    consumer 20: who asks, which never consumes | answered u64
      15  WINDOW        consumer 20 | window u32: messages that it may hold from now on, 0 none
      16  WHO           consumer 20, or a get, PURGE_ONCE or WITHDRAW | actor u32: who that is, as the log of its node names it
                        (storage/history/name_records.py). Machines do nothing with it
      17  ORIGINS       who published the messages of the ENQUEUE ops behind it in the entry, part after part, each within one
                        of them: actor u32, as the log of the session's node names it, 0: nobody | number u64: of the first
                        one among all that the actor has published, 0: not known | count u32 | flags u8: 1 a confirm was
                        waited for, 2 a dead letter | if so: queue id u64 in which it died | position there: u64, u32, u32 |
                        reason u8, as in classic/store/log_records.py. Machines do nothing with it
      18  WITHDRAW      consumer 20: who asks, as for a purge | answered u64 | entry u64, offset u32, message u32: one that is
                        ready and was never handed out, which is to go

    producer   number u64 | name_len u8 | name: one message that its client has numbered; see quorum/fifo/producers.py
    session    node u32 | incarnation u64
    consumer   session 12 | number u64
    ranges     first u64 | count u32, one behind the other

Numbers that make saying it again harmless: the `sequence` of an enqueuer's first message is 1, and grows by one for each
message; `answered` is the sequence below which its session has an answer to everything and will not ask again; of a purge or
WITHDRAW, the number below which it has an answer to every one of these. They, consumers and gets of a session share one
ascending `number`, which begins at 1; one that is not above all before it is not begun anew.
Later additions get new kinds. An op of a kind that the machine's version does not have does nothing, on all members.

What the machine answers to each op is in quorum/fifo/results.py.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from broker.queues.queue_type import Outcome
from quorum.fifo.origins import OriginPart, encode_part, read_parts
from quorum.fifo.rules import Rules, decode_rules

ENTRY_VERSION = 1

FIRST_SEQUENCE = 1  # of an enqueuer
FIRST_NUMBER = 1  # of a session's consumers, gets and purges
FIRST_ID = 1  # of what a consumer is given
ID_END = 1 << 62  # above all sequences and ids

TAG_BYTES_MAX = (1 << 16) - 1  # of a consumer: what a snapshot has room for

PRIORITY_MAX = 31
PRIORITY_DEFAULT = 4

PERSISTENT = 1  # flags of ENQUEUE
REDELIVERED = 2  # clients have had them before, in the queue that dead-lettered them
NUMBERED = 4  # a producer stands before the content

NO_EXPIRATION = (1 << 64) - 1
QUEUE_TIMEOUT = (1 << 64) - 1  # the consumer has no timeout of its own


class CommandKind(IntEnum):
    ENQUEUE = 1
    SETTLE = 2
    CONSUME = 3
    CANCEL = 4
    GET = 5
    PURGE = 6
    POLICY = 7
    NODE_DOWN = 8
    NODE_UP = 9
    SESSION_GONE = 10
    TICK = 11
    DEAD_SETTLED = 12
    UPGRADE = 13
    PURGE_ONCE = 14
    WINDOW = 15
    WHO = 16
    ORIGINS = 17
    WITHDRAW = 18


class UponCancel(IntEnum):
    """What becomes of the messages that a cancelled consumer holds."""

    STAYS = 0  # out until they are settled
    REQUEUED = 1  # Outcome.REQUEUED: the delivery failed
    RETURNED = 2  # Outcome.RETURNED: the client has never seen them


class SessionKey(NamedTuple):
    """One node's dealings with the queue, for one life of its process."""

    node: int
    incarnation: int


class ConsumerKey(NamedTuple):
    """A consumer, a get or a purge of a session."""

    node: int
    incarnation: int
    number: int


class Piece(NamedTuple):
    """Messages of one ENQUEUE: `length` of them from its `first` on, which counts from 0."""

    entry: int  # its index in the log
    offset: int  # of the op in it
    first: int
    length: int


Ranges = Sequence[tuple[int, int]]  # first and count of each


class Producer(NamedTuple):
    """Who has numbered a message, and how."""

    name: bytes
    number: int


class Enqueue(NamedTuple):
    """What stands beside the messages of a run in the log."""

    key: SessionKey
    sequence: int
    answered: int
    messages: int
    body_bytes: int
    expiration_ms: int | None
    flags: int
    priority: int  # 0 to PRIORITY_MAX, see `level`
    exchange: str
    routing_key: str
    content: tuple[int, int]  # where it starts and ends in the entry: who reads it needs no copy
    producer: Producer | None = None


class Settle(NamedTuple):
    consumer: ConsumerKey
    outcome: Outcome
    ranges: Ranges


class Consume(NamedTuple):
    consumer: ConsumerKey
    tag: str
    prefetch: int = 0
    no_ack: bool = False
    exclusive: bool = False
    priority: int = 0
    timeout_ms: int | None = None  # None: as the queue's rules say; 0: none


class Cancel(NamedTuple):
    consumer: ConsumerKey
    held: UponCancel = UponCancel.STAYS


class Get(NamedTuple):
    consumer: ConsumerKey
    no_ack: bool = False


class Purge(NamedTuple):
    pass


class Policy(NamedTuple):
    rules: Rules


class NodeDown(NamedTuple):
    key: SessionKey


class NodeUp(NamedTuple):
    key: SessionKey


class SessionGone(NamedTuple):
    key: SessionKey


class Tick(NamedTuple):
    pass


class DeadSettled(NamedTuple):
    ranges: Ranges


class Upgrade(NamedTuple):
    version: int


class PurgeOnce(NamedTuple):
    asker: ConsumerKey
    answered: int


class Withdraw(NamedTuple):
    asker: ConsumerKey
    answered: int
    entry: int
    offset: int
    message: int  # of its run


class Window(NamedTuple):
    consumer: ConsumerKey
    messages: int


class Who(NamedTuple):
    consumer: ConsumerKey
    actor: int


class Origins(NamedTuple):
    parts: Sequence[OriginPart]


Op = (
    Enqueue | Settle | Consume | Cancel | Get | Purge | Policy | NodeDown | NodeUp | SessionGone | Tick | DeadSettled
    | Upgrade | PurgeOnce | Withdraw | Window | Who | Origins
)  # fmt: skip


ENTRY_HEAD = Struct("<BQ")
OP_HEAD = Struct("<BI")
ENQUEUE_HEAD = Struct("<BIIQQQIQQBBBB")  # with the head of the op
SETTLE_HEAD = Struct("<BIIQQB")  # with the head of the op
RANGE = Struct("<QI")
_CONSUME = Struct("<IQQBIqQ")
_CANCEL = Struct("<IQQB")
_SESSION = Struct("<IQ")
_PRODUCER = Struct("<QB")
_VERSION = Struct("<I")
_OF_CONSUMER = Struct("<IQQI")  # WINDOW, WHO
_PURGE_ONCE, _WITHDRAW = Struct("<IQQQ"), Struct("<IQQQQII")
# Of each entry: looking a member up in its Enum takes Python 3.11 a fifth of a microsecond.
_ENQUEUE, _SETTLE, _ORIGINS = int(CommandKind.ENQUEUE), int(CommandKind.SETTLE), int(CommandKind.ORIGINS)
_NO_ACK, _EXCLUSIVE = 1, 2
_OF_SESSIONS: dict[int, type[NodeDown | NodeUp | SessionGone]] = {
    CommandKind.NODE_DOWN: NodeDown, CommandKind.NODE_UP: NodeUp, CommandKind.SESSION_GONE: SessionGone,
}  # fmt: skip
_OF_CONSUMERS: dict[int, type[Window | Who]] = {CommandKind.WINDOW: Window, CommandKind.WHO: Who}
_KIND_OF: dict[type[Op], CommandKind] = {Cancel: CommandKind.CANCEL, Get: CommandKind.GET}
_KIND_OF |= {op: CommandKind(kind) for kind, op in (_OF_SESSIONS | _OF_CONSUMERS).items()}


def level(priority: int | None) -> int:
    """The priority at which a message with this property is queued."""
    return PRIORITY_DEFAULT if priority is None else min(priority, PRIORITY_MAX)


def entry_head(time_ms: int) -> bytes:
    """What the leader's node puts before the ops of an entry."""
    return ENTRY_HEAD.pack(ENTRY_VERSION, time_ms)


def encode_enqueue(
    key: SessionKey,
    sequence: int,
    messages: int,
    body_bytes: int,
    exchange: str,
    routing_key: str,
    *contents: bytes,
    answered: int = 0,
    expiration_ms: int | None = None,
    flags: int = 0,
    priority: int = PRIORITY_DEFAULT,
    producer: Producer | None = None,
) -> list[bytes]:
    """The op in pieces, its contents last and not copied. With a producer it is one message."""
    assert producer is None or messages == 1, f"{messages} messages with the number {producer}"
    numbered = b"" if producer is None else _PRODUCER.pack(producer.number, len(producer.name)) + producer.name
    exchange_name = exchange.encode("utf-8", "surrogateescape")
    key_name = routing_key.encode("utf-8", "surrogateescape")
    names = exchange_name + key_name + numbered
    size = ENQUEUE_HEAD.size - OP_HEAD.size + len(names) + sum(map(len, contents))
    head = ENQUEUE_HEAD.pack(
        _ENQUEUE, size, *key, sequence, answered, messages, body_bytes,
        NO_EXPIRATION if expiration_ms is None else expiration_ms,
        flags | NUMBERED * (producer is not None), priority, len(exchange_name), len(key_name),
    )  # fmt: skip
    return [head + names, *contents]


def encode_settle(consumer: ConsumerKey, outcome: Outcome, ranges: Ranges) -> bytes:
    size = SETTLE_HEAD.size - OP_HEAD.size + RANGE.size * len(ranges)
    head = SETTLE_HEAD.pack(_SETTLE, size, *consumer, outcome)
    return head + b"".join([RANGE.pack(first, count) for first, count in ranges])


def encode_origins(parts: Sequence[bytes]) -> bytes:
    """Of what `encode_part` has made."""
    payload = parts[0] if len(parts) == 1 else b"".join(parts)
    return OP_HEAD.pack(_ORIGINS, len(payload)) + payload


def encode(op: Op) -> bytes:
    """Any op but Enqueue, whose content is elsewhere."""
    match op:
        case Settle(consumer, outcome, ranges):
            return encode_settle(consumer, outcome, ranges)
        case Consume():
            flags = _NO_ACK * op.no_ack | _EXCLUSIVE * op.exclusive
            timeout = QUEUE_TIMEOUT if op.timeout_ms is None else op.timeout_ms
            fixed = _CONSUME.pack(*op.consumer, flags, op.prefetch, op.priority, timeout)
            return _op(CommandKind.CONSUME, fixed + op.tag.encode("utf-8", "surrogateescape"))
        case Cancel(consumer) | Get(consumer):
            return _op(_KIND_OF[type(op)], _CANCEL.pack(*consumer, op[1]))
        case Purge():
            return _op(CommandKind.PURGE)
        case Policy(rules):
            return _op(CommandKind.POLICY, rules.encode())
        case NodeDown(key) | NodeUp(key) | SessionGone(key):
            return _op(_KIND_OF[type(op)], _SESSION.pack(*key))
        case Tick():
            return _op(CommandKind.TICK)
        case DeadSettled(ranges):
            return _op(CommandKind.DEAD_SETTLED, b"".join([RANGE.pack(*one) for one in ranges]))
        case Upgrade(version):
            return _op(CommandKind.UPGRADE, _VERSION.pack(version))
        case PurgeOnce(asker, answered):
            return _op(CommandKind.PURGE_ONCE, _PURGE_ONCE.pack(*asker, answered))
        case Withdraw(asker):
            return _op(CommandKind.WITHDRAW, _WITHDRAW.pack(*asker, *op[1:]))
        case Window(consumer) | Who(consumer):
            return _op(_KIND_OF[type(op)], _OF_CONSUMER.pack(*consumer, op[1]))
        case Origins(parts):
            return encode_origins([encode_part(*part) for part in parts])
        case _:
            raise TypeError(f"{type(op).__name__} is not encoded here: use encode_enqueue")


def decode(data: bytes, at: int) -> Op:
    """The op at this offset. Raises ValueError when there is none, or none that is known."""
    try:
        kind, size = OP_HEAD.unpack_from(data, at)
        start = at + OP_HEAD.size
        end = start + size
        if end > len(data):
            raise ValueError(f"the op at {at} has {size} bytes, and the entry ends at {len(data)}")
        return _decode(kind, data, at, start, end)
    except struct.error as error:
        raise ValueError(f"no whole op at {at} of {len(data)} bytes: {error}") from error


def decode_entry(data: bytes) -> tuple[int, list[tuple[int, Op]]]:
    """Time and ops, each with its offset. Raises ValueError for what is no entry of this version."""
    if len(data) < ENTRY_HEAD.size:
        raise ValueError(f"an entry of {len(data)} bytes has no head of {ENTRY_HEAD.size}")
    version, time_ms = ENTRY_HEAD.unpack_from(data)
    if version != ENTRY_VERSION:
        raise ValueError(f"an entry of version {version}: {ENTRY_VERSION} is known here")
    ops = []
    at = ENTRY_HEAD.size
    while at < len(data):
        ops.append((at, decode(data, at)))
        at += OP_HEAD.size + OP_HEAD.unpack_from(data, at)[1]
    return time_ms, ops


def read_ranges(data: bytes, start: int, end: int) -> list[tuple[int, int]]:
    """Raises ValueError where the bytes end within a range."""
    if (end - start) % RANGE.size:
        raise ValueError(f"{end - start} bytes are no ranges of {RANGE.size} each")
    return list(RANGE.iter_unpack(data[start:end]))


def _decode(kind: int, data: bytes, at: int, start: int, end: int) -> Op:
    match kind:
        case CommandKind.ENQUEUE:
            return _decode_enqueue(data, at, end)
        case CommandKind.SETTLE:
            _, _, node, incarnation, number, outcome = SETTLE_HEAD.unpack_from(data, at)
            ranges = read_ranges(data, at + SETTLE_HEAD.size, end)
            return Settle(ConsumerKey(node, incarnation, number), Outcome(outcome), ranges)
        case CommandKind.CONSUME:
            node, incarnation, number, flags, prefetch, priority, timeout = _CONSUME.unpack_from(data, start)
            return Consume(
                ConsumerKey(node, incarnation, number),
                data[start + _CONSUME.size : end].decode("utf-8", "surrogateescape"),
                prefetch,
                bool(flags & _NO_ACK),
                bool(flags & _EXCLUSIVE),
                priority,
                None if timeout == QUEUE_TIMEOUT else timeout,
            )
        case CommandKind.CANCEL:
            node, incarnation, number, held = _CANCEL.unpack_from(data, start)
            return Cancel(ConsumerKey(node, incarnation, number), UponCancel(held))
        case CommandKind.GET:
            node, incarnation, number, no_ack = _CANCEL.unpack_from(data, start)
            return Get(ConsumerKey(node, incarnation, number), bool(no_ack))
        case CommandKind.PURGE:
            return Purge()
        case CommandKind.POLICY:
            return Policy(decode_rules(data[start:end]))
        case CommandKind.NODE_DOWN | CommandKind.NODE_UP | CommandKind.SESSION_GONE:
            return _OF_SESSIONS[kind](SessionKey(*_SESSION.unpack_from(data, start)))
        case CommandKind.TICK:
            return Tick()
        case CommandKind.DEAD_SETTLED:
            return DeadSettled(read_ranges(data, start, end))
        case CommandKind.UPGRADE:
            return Upgrade(_VERSION.unpack_from(data, start)[0])
        case CommandKind.PURGE_ONCE:
            *key, answered = _PURGE_ONCE.unpack_from(data, start)
            return PurgeOnce(ConsumerKey(*key), answered)
        case CommandKind.WITHDRAW:
            *key, answered, entry, offset, message = _WITHDRAW.unpack_from(data, start)
            return Withdraw(ConsumerKey(*key), answered, entry, offset, message)
        case CommandKind.WINDOW | CommandKind.WHO:
            *key, told = _OF_CONSUMER.unpack_from(data, start)
            return _OF_CONSUMERS[kind](ConsumerKey(*key), told)
        case CommandKind.ORIGINS:
            return Origins(read_parts(data, start, end))
        case _:
            raise ValueError(f"an op of kind {kind} is unknown here")


def _decode_enqueue(data: bytes, at: int, end: int) -> Enqueue:
    (
        _, _, node, incarnation, sequence, answered, count, body_bytes, expiration, flags, priority, exchange_len, key_len
    ) = ENQUEUE_HEAD.unpack_from(data, at)  # fmt: skip
    exchange_at = at + ENQUEUE_HEAD.size
    key_at = exchange_at + exchange_len
    producer_at = content_at = key_at + key_len
    producer = None
    if flags & NUMBERED:
        number, name_len = _PRODUCER.unpack_from(data, producer_at)
        name_at = producer_at + _PRODUCER.size
        content_at = name_at + name_len
        producer = Producer(data[name_at:content_at], number)
    if content_at > end:
        raise ValueError(f"the names of the op at {at} reach to {content_at}, and it ends at {end}")
    return Enqueue(
        SessionKey(node, incarnation),
        sequence,
        answered,
        count,
        body_bytes,
        None if expiration == NO_EXPIRATION else expiration,
        flags,
        priority,
        data[exchange_at:key_at].decode("utf-8", "surrogateescape"),
        data[key_at:producer_at].decode("utf-8", "surrogateescape"),
        (content_at, end),
        producer,
    )


def _op(kind: CommandKind, payload: bytes = b"") -> bytes:
    return OP_HEAD.pack(kind, len(payload)) + payload
