"""What classic queues write to the node's log. All integers are little endian.

    CLASSIC_PUBLISH        one run, in one or more queues; the content follows and is what the record's end leaves
        head_len u16 | queue_count u16 | flags u8 | priority u8 | count u32 | body_bytes u64 | expires_at i64 (-1: never)
        per queue: id u64 | first sequence u64
        exchange and key as in broker/messages/route_names.py
        flag 4: the message died in another queue
            queue id u64 | position: u64, u32, u32 | reason u8: 0 rejected | 1 expired | 2 maxlen | 3 delivery limit
        flag 8: each of the messages died in another queue, in a place of its own: for each what flag 4 has for all
        flag 1: who published, for each part of the run; up to head_len
            actor u32 | number u64 | count u32
    CLASSIC_SETTLE         messages of one queue that are done with
        queue id u64 | per range: first u64 | end u64
    CLASSIC_PURGE          the same, because the queue was purged
    CLASSIC_QUEUE_DELETED  nothing of this queue counts any more
        queue id u64
    CLASSIC_DONE           messages of one queue that are done with, for one reason
        queue id u64 | actor u32: who took them, 0: not known | reason u8: see DoneReason | per range: first u64 | count u32
    CLASSIC_BACK           messages of one queue that were out and are ready again
        queue id u64 | actor u32: who had them | reason u8: broker/queues/queue_type.py, BackReason | ranges as in CLASSIC_DONE
    CLASSIC_OUT            messages of one queue that were handed out since the tick before, and still are out: at
                           `history.level = "full"`
        queue id u64 | actor u32: who has them | flags u8: 1: they had been out before | ranges as in CLASSIC_DONE
    CLASSIC_CHECKPOINT     what a queue has, as far as records before this one tell: at `history.level = "full"`
        queue id u64 | ready u64 | out u64: how many | levels u16 | ready_ranges u16 | out_ranges u16
        per level, the lowest priority first: the sequence that comes next, u64
        ranges of what is ready, then of what is out, as in CLASSIC_DONE; none where there are more than 1,024

`head_len` is the length of everything before the content. The record's index counts the records of classic queues, without a
gap; CLASSIC_OUT and checkpoints are not counted, belong to no writer (0) and change nothing of what a start finds. Flag 2 of a
publish says that a confirm, or the end of a transaction, waited for it. Actors are named in the same file
(storage/history/name_records.py); a part's number is that of its first message among all that the actor has published, as in
confirms; 0: not known. A position is that in a classic queue (sequence, 0, 0) or in a quorum queue (entry, offset, nth).

CLASSIC_DONE says more than CLASSIC_SETTLE and CLASSIC_PURGE, and takes their place unless `history.level` is off. CLASSIC_DONE
and CLASSIC_BACK are gathered between two ticks: what came back and was settled in between is in both, in this order, and what
is in a CLASSIC_OUT behind them went out after that. What is settled within a tick is in no CLASSIC_OUT. A file has a
CLASSIC_CHECKPOINT of each queue that it tells of, behind the name of the queue and before all else; a node that is started
begins another file. What its next CLASSIC_DONE is about to settle is in it, as what was out or as ready, and what its next
CLASSIC_BACK has is out.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from broker.messages import route_names
from native.sequence_set import Range, SequenceSet

QUEUES_PER_RECORD_MAX = 1_000  # the head's length has 16 bits
_FIXED = struct.Struct("<HHBBIQq")
_QUEUE = struct.Struct("<QQ")
_TO_ONE = struct.Struct(_FIXED.format + _QUEUE.format[1:])  # nearly every run goes to one queue
_ID = struct.Struct("<Q")
_DEATH = struct.Struct("<QQIIB")
_PART = struct.Struct("<IQI")
_REASONED = struct.Struct("<QIB")
_RANGE = struct.Struct("<QI")
_CHECKPOINT = struct.Struct("<QQQHHH")
RANGE_COUNT_MAX = (1 << 32) - 1
CHECKPOINT_RANGES_MAX = 1_024
NEVER = -1

BY_ACTORS = 1  # flags of CLASSIC_PUBLISH
WAITED_FOR = 2
DIED_BEFORE = 4
DIED_EACH = 8
OUT_BEFORE = 1  # flag of CLASSIC_OUT
DEATHS_PER_RECORD_MAX = 1_024  # the head's length has 16 bits, and queues are in it, too


class DoneReason(IntEnum):
    """Why messages are done with."""

    NOT_SAID = 0  # found settled by a start
    ACKNOWLEDGED = 1
    GOT = 2  # by a get that does not acknowledge
    SENT = 3  # to a consumer that does not acknowledge
    REJECTED = 4
    EXPIRED = 5
    MAXLEN = 6
    PURGED = 7


class Death(NamedTuple):
    """In which queue a dead letter died, where it was there, and why."""

    queue_id: int
    position: tuple[int, int, int]
    reason: int


class Part(NamedTuple):
    """Neighbours in a run that one actor published."""

    actor: int
    number: int
    message_count: int


class PublishOrigin(NamedTuple):
    """Where a run comes from."""

    parts: tuple[Part, ...] = ()
    waited_for: bool = False
    death: Death | None = None
    deaths: tuple[Death, ...] = ()  # of each message, where they differ


class Published(NamedTuple):
    """One CLASSIC_PUBLISH record without its content."""

    head_len: int
    queues: list[tuple[int, int]]  # (queue id, first sequence)
    priority: int
    message_count: int
    body_bytes: int
    expires_at: int | None
    exchange: str
    routing_key: str
    origin: PublishOrigin = PublishOrigin()


class Checkpoint(NamedTuple):
    """One CLASSIC_CHECKPOINT record."""

    queue_id: int
    ready: int
    out: int
    next_sequences: list[int]
    ready_ranges: list[Range]
    out_ranges: list[Range]

    @property
    def has_ranges(self) -> bool:
        """Whether it says which messages there are, not only how many."""
        return bool(self.ready_ranges or self.out_ranges) or not (self.ready or self.out)


def encode_published(
    queues: Sequence[tuple[int, int]],
    priority: int,
    count: int,
    body_bytes: int,
    expires_at: int | None,
    exchange: str,
    routing_key: str,
    flags: int = 0,
    origin: bytes = b"",
) -> bytes:
    """`origin`: what the flags say is there."""
    tail = route_names.encode(exchange, routing_key) + origin
    expires = NEVER if expires_at is None else expires_at
    queue_count = len(queues)
    head_len = _FIXED.size + _QUEUE.size * queue_count + len(tail)
    if queue_count == 1:
        return _TO_ONE.pack(head_len, 1, flags, priority, count, body_bytes, expires, *queues[0]) + tail
    fixed = _FIXED.pack(head_len, queue_count, flags, priority, count, body_bytes, expires)
    return b"".join((fixed, *(_QUEUE.pack(*queue) for queue in queues), tail))


# Of an actor, a number and a count; goes with BY_ACTORS, behind a death. Most records have one.
encode_part: Callable[[int, int, int], bytes] = _PART.pack


def encode_death(queue_id: int, position: tuple[int, int, int], reason: int) -> bytes:
    """Goes with DIED_BEFORE; one for each message goes with DIED_EACH."""
    return _DEATH.pack(queue_id, *position, reason)


def _origin(payload: memoryview, at: int, head_len: int, flags: int, count: int) -> PublishOrigin:
    death, deaths = None, list[Death]()
    if flags & DIED_BEFORE:
        death = _death(payload, at)
        at += _DEATH.size
    if flags & DIED_EACH:
        end = at + _DEATH.size * count
        deaths = [_death(payload, place) for place in range(at, end, _DEATH.size)]
        at = end
    parts = _PART.iter_unpack(payload[at:head_len]) if flags & BY_ACTORS else ()
    return PublishOrigin(tuple(Part(*part) for part in parts), bool(flags & WAITED_FOR), death, tuple(deaths))


def _death(payload: memoryview, at: int) -> Death:
    queue_id, *position, reason = _DEATH.unpack_from(payload, at)
    return Death(queue_id, (position[0], position[1], position[2]), reason)


def decode_published(payload: memoryview) -> Published:
    head_len, queue_count, flags, priority, count, body_bytes, expires = _FIXED.unpack_from(payload)
    at = _FIXED.size
    queues = list(_QUEUE.iter_unpack(payload[at : at + _QUEUE.size * queue_count]))
    name, key, end = route_names.read(payload, at + _QUEUE.size * queue_count)
    origin = _origin(payload, end, head_len, flags, count) if flags else PublishOrigin()
    expires_at = None if expires == NEVER else expires
    return Published(head_len, queues, priority, count, body_bytes, expires_at, name, key, origin)


def read_published(payload: memoryview) -> tuple[int, int, int, int, int, list[tuple[int, int]], bytes]:
    """Head length, priority, count, body bytes, expiry (-1: never), queues, and exchange and routing key as they are encoded.
    For a start, which reads a million of them."""
    head_len, queue_count, flags, priority, count, body_bytes, expires = _FIXED.unpack_from(payload)
    at = _FIXED.size + _QUEUE.size * queue_count
    queues = list(_QUEUE.iter_unpack(payload[_FIXED.size : at]))
    name_end = route_names.end_of(payload, at) if flags else head_len
    return head_len, priority, count, body_bytes, expires, queues, bytes(payload[at:name_end])


def encode_settled(queue_id: int, settled: SequenceSet) -> bytes:
    return _ID.pack(queue_id) + b"".join(_QUEUE.pack(*pair) for pair in settled.ranges())


def decode_settled(payload: memoryview) -> tuple[int, list[tuple[int, int]]]:
    return _ID.unpack_from(payload)[0], list(_QUEUE.iter_unpack(payload[_ID.size :]))


def encode_reasoned(queue_id: int, actor: int, reason: int, settled: SequenceSet) -> bytes:
    """The payload of CLASSIC_DONE, of CLASSIC_BACK, and with flags for a reason of CLASSIC_OUT."""
    return b"".join(
        [_REASONED.pack(queue_id, actor, reason), *(_RANGE.pack(*one) for one in _counted(settled.ranges()))]
    )


def _counted(ranges: Iterable[Range]) -> Iterator[tuple[int, int]]:
    """Each range as its first and how many."""
    for first, end in ranges:
        while end - first > RANGE_COUNT_MAX:  # more than 32 bits hold
            yield first, RANGE_COUNT_MAX
            first += RANGE_COUNT_MAX
        yield first, end - first


def decode_reasoned(payload: memoryview) -> tuple[int, int, int, list[tuple[int, int]]]:
    """Queue, actor, reason, and ranges from first to end."""
    queue_id, actor, reason = _REASONED.unpack_from(payload)
    return queue_id, actor, reason, _ranges(payload[_REASONED.size :])


def _ranges(counted: memoryview) -> list[Range]:
    return [(first, first + count) for first, count in _RANGE.iter_unpack(counted)]


def encode_checkpoint(made: Checkpoint) -> bytes:
    ready, out = list(_counted(made.ready_ranges)), list(_counted(made.out_ranges))
    if len(ready) + len(out) > CHECKPOINT_RANGES_MAX:
        ready = out = []
    levels = made.next_sequences
    head = _CHECKPOINT.pack(made.queue_id, made.ready, made.out, len(levels), len(ready), len(out))
    return b"".join([head, *map(_ID.pack, levels), *(_RANGE.pack(*one) for one in (*ready, *out))])


def decode_checkpoint(payload: memoryview) -> Checkpoint:
    """Raises ValueError and struct.error."""
    queue_id, ready, out, levels, ready_ranges, out_ranges = _CHECKPOINT.unpack_from(payload)
    at = _CHECKPOINT.size + _ID.size * levels
    ranges = _ranges(payload[at:])
    if len(ranges) != ready_ranges + out_ranges:
        raise ValueError(f"a checkpoint of {ready_ranges} and {out_ranges} ranges has {len(ranges)}")
    next_sequences = [sequence for (sequence,) in _ID.iter_unpack(payload[_CHECKPOINT.size : at])]
    return Checkpoint(queue_id, ready, out, next_sequences, ranges[:ready_ranges], ranges[ready_ranges:])


def encode_deleted(queue_id: int) -> bytes:
    return _ID.pack(queue_id)


def decode_deleted(payload: memoryview) -> int:
    return int(_ID.unpack_from(payload)[0])
