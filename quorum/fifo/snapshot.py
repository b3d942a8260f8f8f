"""A queue's state as bytes, little endian. Bodies are not in it: the entries that hold them are live (raft/machine.py).

offset  size  field
     0     4  "LQQS"
     4     4  version     of the machine
     8     8  applied     index of the last entry
    16     8  now         ms
    24     8  digest
    32     8  used_at     ms
    40     8  next id of the dead that are held
    48     8  ready messages
    56     8  their bytes
    64     4  each        sessions | lives that are over | consumers | consumers in line | returned | delayed | ready rows
    92    75  rules       quorum/fifo/rules.py
   167     …  the rows, one kind behind the other, in this order:

session     session 12 | next_sequence u64 | last_number u64 | suspected u8 | rejected set | overtaken set |
            purges, from version 4 on
life        node u32 | incarnation u64
consumer    consumer 20 | flags u8: 1 no_ack, 2 exclusive, 4 active, 8 quiescing | status u8 | prefetch u32 | priority i64 |
            timeout_ms u64: 2^64 - 1 the queue's | suspected_at u64: 2^64 - 1 not | next_id u64 | tag_len u16 | tag |
            window u32, from version 6 on | overdue set | checked out
in line     place of the consumer in the list above u32; in their order
returned    from version 8 on: how many of them go before all others, u32 | message: of each
delayed     due u64 | message
dead        checked out; one for each reason of dying
returning   from version 7 on: count u32 | fate u8, message: of each row (quorum/fifo/returning.py)
ready rows  priority u8 | rows u64 | rows (quorum/fifo/ready_rows.py)
checksum    CRC-32C of all before, u32

purges      count u32 | number u64, messages u64: of each
set         count u32 | start u64, end u64 without: of each range
checked out  count u32 | of each: first id u64 | since u64 | message
message     entry u64 | offset u32 | first u32 | length u32 | run_length u32 | run_bytes u64 | expires_at u64: 2^64 - 1 never |
            priority u8 | delivery_count u32 | acquired_count u32
"""

from __future__ import annotations

import struct
from struct import Struct
from typing import Any

from broker.queues.queue_type import DeathReason
from native.crc32c import crc32c
from native.sequence_set import SequenceSet
from quorum.fifo.checked_out import CheckedOut
from quorum.fifo.commands import PRIORITY_MAX, ConsumerKey, SessionKey
from quorum.fifo.consumers import ConsumerState, MachineConsumer
from quorum.fifo.queue_state import QueueState
from quorum.fifo.ready_rows import ROW_BYTES, ReadyRows
from quorum.fifo.returning import Fate
from quorum.fifo.rules import RULES_BYTES, decode_rules
from quorum.fifo.sessions import SessionProgress
from quorum.fifo.stored import STORED, StoredMessages
from quorum.fifo.versions import BOUNDED, ORDER_KEPT, PURGED_ONCE, WINDOWS_CHANGE, must_know
from storage.disk import Buffer

MAGIC = b"LQQS"

_HEAD = Struct("<4sIQQQQQQQ8I")
_SESSION = Struct("<IQQQ?")
_LIFE = Struct("<IQ")
_PRODUCER = Struct("<QB")
_CONSUMER = Struct("<IQQBBIqQQQH")
_PLACE = Struct("<I")
_COUNT = Struct("<I")
_RANGE = Struct("<QQ")
_PURGE = Struct("<QQ")
_HELD = Struct("<QQ")
_DUE = Struct("<Q")
_FATE = Struct("<B")
_READY_ROWS = Struct("<BQ")
_CHECKSUM = Struct("<I")
_NONE = _COUNT.pack(0)  # most consumers have an empty set and nothing checked out
_NOT_SET = (1 << 64) - 1
_NO_ACK, _EXCLUSIVE, _ACTIVE, _QUIESCING = 1, 2, 4, 8


def encode_snapshot(state: QueueState) -> list[Buffer]:
    """Copies, so nothing that happens later shows in them."""
    consumers, ready, sessions = state.consumers, state.ready, state.sessions
    everybody = list(consumers.all.values())
    places = {consumer.key: place for place, consumer in enumerate(everybody)}
    in_line = list(consumers.in_turn())
    returned, delayed = ready.returned, list(state.delayed)
    filled = [ready_rows for ready_rows in ready.by_priority if ready_rows]
    parts: list[Buffer] = [
        _HEAD.pack(
            MAGIC, state.version, state.applied, state.now, state.digest, state.used_at, state.dead.next_id,
            ready.count, ready.size, len(sessions.all), len(sessions.gone), len(state.producers.highest), len(everybody),
            len(in_line), len(returned), len(delayed), len(filled),
        ),
        state.rules.encode(),
    ]  # fmt: skip
    for key, session in sessions.all.items():
        parts.append(_SESSION.pack(*key, session.next_sequence, session.last_number, session.suspected))
        parts += (_encode_set(session.rejected), _encode_set(session.overtaken))
        if state.version >= PURGED_ONCE:
            parts.append(_COUNT.pack(len(session.purged)))
            parts += [_PURGE.pack(*purge) for purge in session.purged.items()]
    parts += [_LIFE.pack(*life) for life in sessions.gone.items()]
    parts += [_PRODUCER.pack(number, len(name)) + name for name, number in state.producers.highest.items()]
    for consumer in everybody:
        fixed, *sets = _encode_consumer(consumer, consumer is consumers.active, consumer is consumers.quiescing)
        window = [_COUNT.pack(consumer.window)] if state.version >= WINDOWS_CHANGE else []
        parts += [fixed, *window, *sets]
    parts += [_PLACE.pack(places[consumer.key]) for consumer in in_line]
    if state.version >= ORDER_KEPT:
        parts.append(_COUNT.pack(returned.line_rows))
    parts += returned.encode()
    parts += [_DUE.pack(due) + STORED.pack(*stored) for due, stored in delayed]
    for reason in DeathReason:
        parts.append(_encode_checked_out(state.dead.by_reason[reason]))
    if state.version >= BOUNDED:
        parts.append(_COUNT.pack(len(state.returning)))
        parts += [_FATE.pack(fate) + STORED.pack(*stored) for fate, stored in state.returning]
    for ready_rows in filled:
        parts.append(_READY_ROWS.pack(ready_rows.priority, ready_rows.row_count))
        parts += ready_rows.encode()
    checksum = 0
    for part in parts:
        checksum = crc32c(part, checksum)
    parts.append(_CHECKSUM.pack(checksum))
    return parts


def decode_snapshot(data: bytes) -> QueueState:
    """Raises ValueError for what is no snapshot, is damaged, or is of a version that is not known here."""
    view = memoryview(data)
    if len(data) < _HEAD.size + RULES_BYTES + _CHECKSUM.size or data[:4] != MAGIC:
        raise ValueError(f"{len(data)} bytes are no snapshot of a quorum queue")
    must_know(_HEAD.unpack_from(data)[1])
    end = len(data) - _CHECKSUM.size
    (expected,) = _CHECKSUM.unpack_from(data, end)
    if (found := crc32c(view[:end])) != expected:
        raise ValueError(f"a snapshot of {len(data)} bytes has the checksum {found:#x}, and {expected:#x} is in it")
    try:
        return _Decoder(view[:end]).state()
    except (struct.error, OverflowError) as error:
        raise ValueError(f"a snapshot of {len(data)} bytes makes no sense: {error}") from error


class _Decoder:
    """A position in the bytes."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._at = 0

    def state(self) -> QueueState:
        state = QueueState()
        (
            _, state.version, state.applied, state.now, state.digest, state.used_at, state.dead.next_id, count, size,
            sessions, lives, producers, consumers, in_line, returned, delayed, rows_of_priorities,
        ) = self._fields(_HEAD)  # fmt: skip
        state.rules = decode_rules(self._bytes(RULES_BYTES))
        state.ready.returned.puts_in_place = state.rules.requeue_in_place
        state.consumers.single_active = state.rules.single_active
        for _ in range(sessions):
            self._session(state)
        for _ in range(lives):
            node, incarnation = self._fields(_LIFE)
            state.sessions.gone[node] = incarnation
        for _ in range(producers):
            number, name_len = self._fields(_PRODUCER)
            state.producers.highest[self._bytes(name_len)] = number
        everybody = [self._consumer(state) for _ in range(consumers)]
        state.consumers.line_up([everybody[self._place(len(everybody))] for _ in range(in_line)])
        all_in_line = 0 if state.rules.requeue_in_place else returned  # before that was told
        line_rows = self._fields(_COUNT)[0] if state.version >= ORDER_KEPT else all_in_line
        state.ready.come_back([self._stored() for _ in range(returned)], line_rows)
        for _ in range(delayed):
            (due,) = self._fields(_DUE)
            state.delayed.add(due, self._stored())
        for reason in DeathReason:
            self._checked_out(state.dead.by_reason[reason])
        if state.version >= BOUNDED:
            for _ in range(self._fields(_COUNT)[0]):
                state.returning.add(Fate(self._fields(_FATE)[0]), [self._stored()])
        for _ in range(rows_of_priorities):
            self._ready_rows(state)
        state.ready.restored(count, size)
        if self._at != len(self._data):
            raise ValueError(f"{len(self._data) - self._at} bytes are left over behind a queue's state")
        return state

    def _place(self, end: int) -> int:
        place: int = self._fields(_PLACE)[0]
        if place >= end:
            raise ValueError(f"consumer {place} is in line, and there are {end}")
        return place

    def _session(self, state: QueueState) -> None:
        node, incarnation, next_sequence, last_number, suspected = self._fields(_SESSION)
        session = state.sessions.all[SessionKey(node, incarnation)] = SessionProgress()
        session.next_sequence, session.last_number, session.suspected = next_sequence, last_number, suspected
        session.rejected, session.overtaken = self._set(), self._set()
        if state.version >= PURGED_ONCE:
            session.purged = dict(self._fields(_PURGE) for _ in range(self._fields(_COUNT)[0]))

    def _consumer(self, state: QueueState) -> MachineConsumer:
        node, incarnation, number, flags, status, prefetch, priority, timeout, suspected_at, next_id, tag_len = (
            self._fields(_CONSUMER)
        )
        consumer = MachineConsumer(
            ConsumerKey(node, incarnation, number),
            self._bytes(tag_len).decode("utf-8", "surrogateescape"),
            prefetch,
            bool(flags & _NO_ACK),
            bool(flags & _EXCLUSIVE),
            priority,
            None if timeout == _NOT_SET else timeout,
            ConsumerState(status),
        )
        consumer.suspected_at = None if suspected_at == _NOT_SET else suspected_at
        consumer.next_id = next_id
        if state.version >= WINDOWS_CHANGE:
            (consumer.window,) = self._fields(_COUNT)
        consumer.overdue = self._set()
        self._checked_out(consumer.checked_out)
        state.consumers.restore(consumer)
        if flags & _ACTIVE:
            state.consumers.active = consumer
        if flags & _QUIESCING:
            state.consumers.quiescing = consumer
        return consumer

    def _ready_rows(self, state: QueueState) -> None:
        priority, rows = self._fields(_READY_ROWS)
        if priority > PRIORITY_MAX:
            raise ValueError(f"ready rows have priority {priority}, and {PRIORITY_MAX} is the highest")
        ready_rows = state.ready.by_priority[priority] = ReadyRows(priority)
        ready_rows.decode(self._view(rows * ROW_BYTES))

    def _checked_out(self, checked_out: CheckedOut) -> None:
        for _ in range(self._fields(_COUNT)[0]):
            first_id, since = self._fields(_HELD)
            checked_out.add(first_id, self._stored(), since)

    def _stored(self) -> StoredMessages:
        stored = StoredMessages(*self._fields(STORED))
        if not 0 < stored.length <= stored.run_length - stored.first or stored.priority > PRIORITY_MAX:
            raise ValueError(f"there are no messages like {stored}")
        return stored

    def _set(self) -> SequenceSet:
        found = SequenceSet()
        for _ in range(self._fields(_COUNT)[0]):
            found.add(*self._fields(_RANGE))
        return found

    def _fields(self, layout: Struct) -> tuple[Any, ...]:
        fields = layout.unpack_from(self._data, self._at)
        self._at += layout.size
        return fields

    def _bytes(self, size: int) -> bytes:
        return bytes(self._view(size))

    def _view(self, size: int) -> memoryview:
        view = self._data[self._at : self._at + size]
        if len(view) != size:
            raise ValueError(f"{size} bytes are to be read at {self._at}, and {len(view)} are there")
        self._at += size
        return view


def _encode_consumer(consumer: MachineConsumer, active: bool, quiescing: bool) -> list[Buffer]:
    tag = consumer.tag.encode("utf-8", "surrogateescape")
    flags = _NO_ACK * consumer.no_ack | _EXCLUSIVE * consumer.exclusive | _ACTIVE * active | _QUIESCING * quiescing
    fixed = _CONSUMER.pack(
        *consumer.key, flags, consumer.state, consumer.prefetch, consumer.priority,
        _NOT_SET if consumer.timeout_ms is None else consumer.timeout_ms,
        _NOT_SET if consumer.suspected_at is None else consumer.suspected_at,
        consumer.next_id, len(tag),
    )  # fmt: skip
    return [fixed + tag, _encode_set(consumer.overdue), _encode_checked_out(consumer.checked_out)]


def _encode_set(numbers: SequenceSet) -> bytes:
    ranges = numbers.ranges()
    if not ranges:
        return _NONE
    return _COUNT.pack(len(ranges)) + b"".join([_RANGE.pack(*one) for one in ranges])


def _encode_checked_out(checked_out: CheckedOut) -> bytes:
    if not checked_out.count:
        return _NONE
    rows = [_HELD.pack(first_id, since) + STORED.pack(*stored) for first_id, stored, since in checked_out]
    return _COUNT.pack(len(rows)) + b"".join(rows)
