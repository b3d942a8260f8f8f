"""What a piece of a file of records says, as columns (native/columns.py): for those who read logs long after they were written.

`records` walks whole records, as native/record_scan.py does, and checks the log's own ones among them as
storage/wal/file_reader.py does. The other functions decode payloads of records that it found, all of a piece at once:

    publishes   a row for each run and queue: CLASSIC_PUBLISH, and the ENQUEUE ops of quorum queues
    origins     a row for each part of a run that one actor has published: joined to publishes by `offset`, `entry` and `off`
    settles     a row for each range that left a queue or went back: the classic kinds, and the ops of quorum queues
    counts      a row for each row of COUNTS: messages that are in no log, by who published them where
    readers     a row for each row of STREAM_READERS: how far a consumer of a stream is
    events      a row for each thing that happened to a queue, for those who fold them: a classic record for each queue that it
                names, an entry of a replicated log; without contents of messages

Which groups are quorum queues is not written in their entries, so the caller says it: `queue_groups` are ids, u64, ascending.
`events` takes the entries of all groups but those that the caller knows to be something else.

An entry of `events` is a *skeleton*: the contents of its ENQUEUE ops are cut out, and their heads keep the lengths that the ops
had. `whole_entry` puts zeros there, so what counts offsets in an entry finds them; the machine of a quorum queue reads no
contents. An entry that is no sequence of ops stays whole. A publish to several classic queues has a head for each, which names
that queue only.

The bytes may be anything. A payload that does not fit its own lengths gives the rows before that place and no more; a record or
op of an unknown kind gives none. A piece of n bytes has at most n / 32 records, and no table takes more than 64 n bytes:
the worst is a record that names 4,000 queues, which repeats the longest names for each. `events` repeats who published, too,
and passes over a publish that would so become HEADS_MAX times its size: more than 500 publishers joined for as many queues.

The columns of these tables are those of native/log_tables.py. The numbers of kinds here are those of storage/record.py and
quorum/fifo/commands.py, those of UNLOGGED in broker/unlogged.py; tests compare them.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeAlias

from native import columns, compiled_twin
from native.columns import Column
from native.log_tables import (
    BACK,
    COUNTS,
    DEAD_SETTLED,
    DELETED,
    DONE,
    EVENTS,
    FILE_BITS,
    ORIGINS,
    PUBLISHES,
    PURGED,
    READERS,
    RECORDS,
    SETTLED,
    SETTLES,
)
from native.record_scan import HEADER_SIZE, scan_plain

Buffer: TypeAlias = bytes | bytearray | memoryview
Row: TypeAlias = tuple[Any, ...]

MISPLACED: Final = 4  # why a walk stopped, beside the reasons of record_scan: a mark or head that does not belong here
UNKNOWN: Final = -1  # the commit or time that nothing has told yet


HEADS_MAX: Final = 255


MARK, ROLL, FIRST_KIND_OF_WRITERS = 1, 2, 16
CLASSIC_PUBLISH, CLASSIC_SETTLE, CLASSIC_PURGE, CLASSIC_QUEUE_DELETED = 16, 17, 18, 19
CLASSIC_DONE, CLASSIC_BACK = 24, 26
RAFT_ENTRIES = 32
COUNTS_KIND, STREAM_READERS = 51, 52
COMMAND = 0  # the kind of entries that are for a machine
ENQUEUE, SETTLE, PURGE, DEAD_SETTLED_OP, PURGE_ONCE, ORIGINS_OP = 1, 2, 6, 12, 14, 17
PERSISTENT, NUMBERED, KNOWN_FLAGS = 1, 4, 7
BY_ACTORS, WAITED_FOR, DIED_BEFORE = 1, 2, 4
ORIGIN_WAITED_FOR, ORIGIN_DIED = 1, 2
READER_LEFT = 1
TIME_MS_MAX = (2**63 - 1) // 1000

NO_DEATH: Final[tuple[int | None, ...]] = (None,) * 5

_MARK = struct.Struct("<16sQQQQQQ")
_ROLL = struct.Struct("<16sQQQ")
_U32 = struct.Struct("<I")
_TIME = struct.Struct("<Q")
_PUBLISHED = struct.Struct("<HHBBIQq")
_LENGTHS = struct.Struct("<HH")  # of _PUBLISHED: of the head, and how many queues
_PAIR = struct.Struct("<QQ")
_DEATH = struct.Struct("<QQIIB")
_PART = struct.Struct("<IQI")
_ORIGIN = struct.Struct("<IQIB")
_REASONED = struct.Struct("<QIB")
_SPAN = struct.Struct("<I")
_COUNT_ROW = struct.Struct("<IQQBBB")
_READER = struct.Struct("<IQQB")
_ENTRY = struct.Struct("<BQ")
_OP = struct.Struct("<BI")
_ENQUEUE = struct.Struct("<IQQQIQQBBBB")
_PRODUCER = struct.Struct("<QB")
_CONSUMER = struct.Struct("<IQQ")
_RANGE = struct.Struct("<QI")
_CLASSIC_SIZES: Final = {  # at least, of what follows a publish
    CLASSIC_SETTLE: _TIME.size,
    CLASSIC_PURGE: _TIME.size,
    CLASSIC_QUEUE_DELETED: _TIME.size,
    CLASSIC_DONE: _REASONED.size,
    CLASSIC_BACK: _REASONED.size,
}


class FilePlace(NamedTuple):
    """Where a piece lies, and what came before it."""

    base: int  # of the buffer, in the file
    log_id: bytes = b""  # 16 bytes; empty: the file is none of a log, and marks in it are records like others
    file: int = 0  # number of the log's file
    commit: int = UNKNOWN
    time: int = UNKNOWN  # microseconds


Found: TypeAlias = tuple[int, tuple[Column, ...], int, int, int, int]


def records_plain(buffer: Buffer, start: int, end: int, payload_max: int, place: FilePlace) -> Found:
    """The whole records from `start` to `end` of the buffer: rows, columns, the position behind the last of them, why there
    is no other (as `scan` says it, or MISPLACED), and commit and time as they are there."""
    if payload_max > 2**31 - 1:
        raise ValueError(f"payloads of {payload_max} bytes: 2^31 - 1 is the most")
    with memoryview(buffer) as view:
        base, log_id, _, commit, time = place
        found, stop, reason = scan_plain(view, start, end, payload_max)
        rows = []
        for kind, flags, term, writer, index, payload, record_end in found:
            position = payload - HEADER_SIZE
            if log_id and not _belongs(view[payload:record_end], kind, base + position, place, commit):
                stop, reason = position, MISPLACED
                break
            if log_id and kind == MARK:
                commit, time = _mark_tells(view[payload:record_end])
            row = (base + position, kind, view[position + 9], flags, term, writer, index, record_end - payload)
            rows.append((*row, _known(commit), _known(time)))
        return (*columns.table(RECORDS, rows), stop, reason, commit, time)


def publishes_plain(buffer: Buffer, base: int, found: columns.Table, queue_groups: bytes) -> columns.Table:
    """The runs in the records that `records` has found in this buffer, which lies at `base` of its file."""
    with memoryview(buffer) as view:
        groups = set(struct.unpack(f"<{len(queue_groups) // 8}Q", queue_groups))
        rows: list[Row] = []
        for record, payload in _payloads(view, base, found):
            if record["kind"] == CLASSIC_PUBLISH:
                rows.extend(_classic_runs(record, payload))
            elif record["kind"] == RAFT_ENTRIES and _unsigned(record["writer"]) in groups:
                for index, time_ms, off, kind, at, op in _ops(record, payload):
                    if kind == ENQUEUE:
                        rows.extend(_run_of_op(record, index, time_ms, off, at, op))
        return columns.table(PUBLISHES, rows)


def origins_plain(buffer: Buffer, base: int, found: columns.Table, queue_groups: bytes) -> columns.Table:
    """Who has published the runs in these records, part by part, where the log says it."""
    with memoryview(buffer) as view:
        groups = set(struct.unpack(f"<{len(queue_groups) // 8}Q", queue_groups))
        rows: list[Row] = []
        for record, payload in _payloads(view, base, found):
            if record["kind"] == CLASSIC_PUBLISH:
                rows.extend(_parts(record, payload))
            elif record["kind"] == RAFT_ENTRIES and _unsigned(record["writer"]) in groups:
                rows.extend(_parts_of_entries(record, payload))
        return columns.table(ORIGINS, rows)


def settles_plain(buffer: Buffer, base: int, found: columns.Table, queue_groups: bytes) -> columns.Table:
    """What left a queue or went back to it, as these records say."""
    with memoryview(buffer) as view:
        groups = set(struct.unpack(f"<{len(queue_groups) // 8}Q", queue_groups))
        rows: list[Row] = []
        for record, payload in _payloads(view, base, found):
            if CLASSIC_SETTLE <= record["kind"] <= CLASSIC_QUEUE_DELETED:
                rows.extend(_classic_settles(record, payload))
            elif record["kind"] in (CLASSIC_DONE, CLASSIC_BACK):
                rows.extend(_reasoned(record, payload))
            elif record["kind"] == RAFT_ENTRIES and _unsigned(record["writer"]) in groups:
                for index, time_ms, off, kind, _, op in _ops(record, payload):
                    rows.extend(_settles_of_op(record, index, time_ms, off, kind, op))
        return columns.table(SETTLES, rows)


def counts_plain(buffer: Buffer, base: int, found: columns.Table) -> columns.Table:
    """Messages of these records that the log does not have, only their number."""
    with memoryview(buffer) as view:
        rows: list[Row] = []
        for record, payload in _payloads(view, base, found):
            if record["kind"] == COUNTS_KIND:
                rows.extend(_counted(record, payload))
        return columns.table(COUNTS, rows)


def readers_plain(buffer: Buffer, base: int, found: columns.Table) -> columns.Table:
    """How far consumers of streams are, as these records say: storage/history/reader_records.py."""
    with memoryview(buffer) as view:
        rows: list[Row] = []
        for record, payload in _payloads(view, base, found):
            if record["kind"] == STREAM_READERS:
                for actor, stream, offset, flags in _READER.iter_unpack(_whole(payload, 0, _READER.size)):
                    rows.append((record["offset"], record["time"], actor, stream, offset, flags & READER_LEFT))
        return columns.table(READERS, rows)


def _belongs(payload: memoryview, kind: int, position: int, place: FilePlace, commit: int) -> bool:
    """Whether a record of this kind may stand at this position of the log's file."""
    if position == 0:
        return kind == ROLL and len(payload) == _ROLL.size and _ROLL.unpack(payload)[:2] == (place.log_id, place.file)
    if kind != MARK:
        return kind >= FIRST_KIND_OF_WRITERS
    if len(payload) not in (_MARK.size, _MARK.size + _TIME.size):
        return False
    log_id, file, offset, _, _, marked, first_of = _MARK.unpack_from(payload)
    follows = marked - (first_of == 1)
    here = (log_id, file, offset) == (place.log_id, place.file, position)
    return here and marked < 1 << 63 and commit in (UNKNOWN, follows)


def _mark_tells(payload: memoryview) -> tuple[int, int]:
    """Commit and time of a mark; those of older versions have no time."""
    commit = _MARK.unpack_from(payload)[5]
    time = _TIME.unpack_from(payload, _MARK.size)[0] if len(payload) > _MARK.size else 0
    return commit, time if 0 < time < 1 << 63 else UNKNOWN


def _known(number: int) -> int | None:
    return None if number == UNKNOWN else number


def _unsigned(number: int) -> int:
    return number & (1 << 64) - 1


def _payloads(view: memoryview, base: int, found: columns.Table) -> Iterator[tuple[dict[str, Any], memoryview]]:
    """The records of a table, each with its payload."""
    for record in columns.rows_of(RECORDS, found):
        start = record["offset"] - base
        end = start + HEADER_SIZE + record["size"]
        if not 0 <= start <= end <= len(view):
            raise ValueError(f"the record at {record['offset']} is not in the {len(view)} bytes at {base}")
        yield record, view[start + HEADER_SIZE : end]


def events_plain(buffer: Buffer, base: int, found: columns.Table, file: int, other_groups: bytes) -> columns.Table:
    """What happened to queues, in the order of the records. `file` is the number of this one, and `other_groups` are ids, u64,
    ascending, whose entries are passed over."""
    with memoryview(buffer) as view:
        others = set(struct.unpack(f"<{len(other_groups) // 8}Q", other_groups))
        rows: list[Row] = []
        for record, payload in _payloads(view, base, found):
            if record["kind"] == CLASSIC_PUBLISH:
                rows.extend(_heads(record, payload, file))
            elif len(payload) >= _CLASSIC_SIZES.get(record["kind"], len(payload) + 1):
                queue = _TIME.unpack_from(payload)[0]
                rows.append((queue, *_classic_event(record, file, 0, bytes(payload))))
            elif record["kind"] == RAFT_ENTRIES and _unsigned(record["writer"]) not in others:
                rows.extend(_skeletons(record, payload))
        return columns.table(EVENTS, rows)


def whole_entry(skeleton: bytes, size: int) -> bytes:
    """The entry of `size` bytes that was cut to this, with zeros for contents; 0: it was not cut."""
    if not size:
        return skeleton
    made = bytearray(size)
    made[: _ENTRY.size] = skeleton[: _ENTRY.size]
    at = off = _ENTRY.size
    while off < size:
        kind, length = _OP.unpack_from(skeleton, at)
        kept = _OP.size + (_content_at(skeleton, at + _OP.size, length) if kind == ENQUEUE else length)
        made[off : off + kept] = skeleton[at : at + kept]
        at += kept
        off += _OP.size + length
    if at != len(skeleton) or off != size:
        raise ValueError(f"a skeleton of {len(skeleton)} bytes ends at {at}, and its entry of {size} at {off}")
    return bytes(made)


def _skeleton(entry: memoryview) -> bytes:
    """What is left of a command without contents; all of one that is no sequence of ops."""
    if len(entry) < _ENTRY.size or entry[0] != 1:
        return bytes(entry)
    kept = [entry[: _ENTRY.size]]
    end = _ENTRY.size
    for off, kind, size in _ops_in(entry):
        start = off + _OP.size
        end = start + size
        kept.append(entry[off : start + _content_at(entry, start, size)] if kind == ENQUEUE else entry[off:end])
    return b"".join(kept) if end == len(entry) else bytes(entry)


def _content_at(data: Buffer, start: int, size: int) -> int:
    """Where in the payload of an ENQUEUE its content begins; behind all of it if there is none that is known."""
    if size < _ENQUEUE.size:
        return size
    flags, _, exchange_len, key_len = data[start + _ENQUEUE.size - 4 : start + _ENQUEUE.size]
    at = _ENQUEUE.size + exchange_len + key_len
    if flags & NUMBERED:
        if size - at < _PRODUCER.size:
            return size
        at += _PRODUCER.size + data[start + at + _PRODUCER.size - 1]
    return at if at <= size and flags <= KNOWN_FLAGS else size


def _skeletons(record: dict[str, Any], payload: memoryview) -> Iterator[Row]:
    for number, entry in enumerate(_pack(payload)):
        data = _skeleton(entry) if record["flags"] == COMMAND else bytes(entry)
        yield (
            record["writer"], record["index"] + number, record["term"], RAFT_ENTRIES, record["time"], record["flags"], data,
            len(entry) if len(data) < len(entry) else 0, record["offset"],
        )  # fmt: skip


def _heads(record: dict[str, Any], payload: memoryview, file: int) -> Iterator[Row]:
    """The head of a publish for each of its queues, as if it had gone to that one only."""
    if _names_of(payload) is None:
        return
    head_len, queues = _PUBLISHED.unpack_from(payload)[:2]
    begin, end = _PUBLISHED.size, _PUBLISHED.size + _PAIR.size * queues
    own_len = head_len - _PAIR.size * (queues - 1)
    if queues * own_len > HEADS_MAX * len(payload):
        return
    for at in range(begin, end, _PAIR.size):
        queue, first = _PAIR.unpack_from(payload, at)
        pair = payload[at : at + _PAIR.size]
        head = b"".join([_LENGTHS.pack(own_len, 1), payload[_LENGTHS.size : begin], pair, payload[end:head_len]])
        yield queue, *_classic_event(record, file, first, head)


def _classic_event(record: dict[str, Any], file: int, first: int, data: bytes) -> Row:
    return file << FILE_BITS | record["offset"], 0, record["kind"], record["time"], first, data, 0, record["offset"]


# Classic queues: classic/store/log_records.py.


def _classic_runs(record: dict[str, Any], payload: memoryview) -> Iterator[Row]:
    names = _names_of(payload)
    if names is None:
        return
    head_len, queues, flags, priority, count, body_bytes, expires_at = _PUBLISHED.unpack_from(payload)
    exchange, key, at = names
    death = NO_DEATH
    if flags & DIED_BEFORE and head_len - at >= _DEATH.size:
        death = _DEATH.unpack_from(payload, at)
    for queue, first in _PAIR.iter_unpack(payload[_PUBLISHED.size : _PUBLISHED.size + _PAIR.size * queues]):
        yield (
            record["offset"], record["time"], queue, first, 0, count, body_bytes, len(payload) - head_len,
            exchange, key, 1, priority, None if expires_at == -1 else expires_at, None, None, None, None, None,
            record["offset"] + HEADER_SIZE + head_len, bool(flags & WAITED_FOR) if flags & BY_ACTORS else None, *death,
        )  # fmt: skip


def _parts(record: dict[str, Any], payload: memoryview) -> Iterator[Row]:
    names = _names_of(payload)
    if names is None or not payload[4] & BY_ACTORS:
        return
    at, head_len, death = names[2], _PUBLISHED.unpack_from(payload)[0], NO_DEATH
    if payload[4] & DIED_BEFORE:
        if head_len - at < _DEATH.size:
            return
        death = _DEATH.unpack_from(payload, at)
        at += _DEATH.size
    nth = 0
    for actor, number, count in _PART.iter_unpack(_whole(payload[:head_len], at, _PART.size)):
        yield record["offset"], None, 0, nth, count, actor, number or None, bool(payload[4] & WAITED_FOR), *death
        nth += count


def _names_of(payload: memoryview) -> tuple[bytes, bytes, int] | None:
    """Exchange and routing key of a CLASSIC_PUBLISH, and where they end; None if its lengths do not fit it."""
    if len(payload) < _PUBLISHED.size:
        return None
    head_len, queues = _PUBLISHED.unpack_from(payload)[:2]
    at = _PUBLISHED.size + _PAIR.size * queues
    if head_len > len(payload) or at >= head_len or (key_at := at + 1 + payload[at]) >= head_len:
        return None
    end = key_at + 1 + payload[key_at]
    return None if end > head_len else (bytes(payload[at + 1 : key_at]), bytes(payload[key_at + 1 : end]), end)


def _whole(payload: memoryview, at: int, size: int) -> memoryview:
    """The pieces of this size that lie there, without what is left over."""
    return payload[at : at + max(0, len(payload) - at) // size * size]


def _classic_settles(record: dict[str, Any], payload: memoryview) -> Iterator[Row]:
    if len(payload) < _TIME.size:
        return
    queue = _TIME.unpack_from(payload)[0]
    head = (record["offset"], record["time"], queue, record["index"], 0)
    if record["kind"] == CLASSIC_QUEUE_DELETED:
        yield *head, DELETED, None, None, None, None, None, None
        return
    outcome = SETTLED if record["kind"] == CLASSIC_SETTLE else PURGED
    for first, end in _PAIR.iter_unpack(_whole(payload, _TIME.size, _PAIR.size)):
        yield *head, outcome, None, None, None, first, end - first, None


def _reasoned(record: dict[str, Any], payload: memoryview) -> Iterator[Row]:
    if len(payload) < _REASONED.size:
        return
    queue, actor, reason = _REASONED.unpack_from(payload)
    outcome = reason + (DONE if record["kind"] == CLASSIC_DONE else BACK)
    for first, count in _RANGE.iter_unpack(_whole(payload, _REASONED.size, _RANGE.size)):
        yield (
            record["offset"], record["time"], queue, record["index"], 0, outcome, None, None, None, first, count,
            actor or None,
        )  # fmt: skip


# What is in no log: storage/history/count_records.py.


def _counted(record: dict[str, Any], payload: memoryview) -> Iterator[Row]:
    at = _SPAN.size
    while len(payload) - at >= _COUNT_ROW.size:
        actor, messages, body_bytes, what, exchange_len, key_len = _COUNT_ROW.unpack_from(payload, at)
        name_at = at + _COUNT_ROW.size
        key_at = name_at + exchange_len
        at = key_at + key_len
        if at > len(payload):
            return
        yield (
            record["offset"], record["time"], _SPAN.unpack_from(payload)[0], actor or None, what, messages, body_bytes,
            bytes(payload[name_at:key_at]), bytes(payload[key_at:at]),
        )  # fmt: skip


# Quorum queues: raft/core/packs.py, quorum/fifo/commands.py.


def _ops(record: dict[str, Any], payload: memoryview) -> Iterator[tuple[int, int, int, int, int, memoryview]]:
    """The ops of a pack of entries: index and time of the entry, the op's offset in it and its kind, where its payload lies in
    the record's, and the payload."""
    if record["flags"] != COMMAND:
        return
    entries = list(_pack(payload))
    at = len(payload) - sum(map(len, entries))
    for number, entry in enumerate(entries):
        if len(entry) >= _ENTRY.size and entry[0] == 1:
            time_ms = _ENTRY.unpack_from(entry)[1]
            for off, kind, size in _ops_in(entry):
                start = off + _OP.size
                yield record["index"] + number, time_ms, off, kind, at + start, entry[start : start + size]
        at += len(entry)


def _pack(payload: memoryview) -> Iterator[memoryview]:
    """The entries of a pack, which lie at its end; none if its lengths do not fit it."""
    count = _U32.unpack_from(payload)[0] if len(payload) >= _U32.size else 0
    if not 0 < count <= (len(payload) - 4) // 4:
        return
    lengths = struct.unpack_from(f"<{count}I", payload, 4)
    at = 4 + 4 * count
    if at + sum(lengths) != len(payload):
        return
    for length in lengths:
        yield payload[at : at + length]
        at += length


def _ops_in(entry: memoryview) -> Iterator[tuple[int, int, int]]:
    """Offset, kind and size of the ops of an entry."""
    off = _ENTRY.size
    while len(entry) - off >= _OP.size:
        kind, size = _OP.unpack_from(entry, off)
        if size > len(entry) - off - _OP.size:
            return
        yield off, kind, size
        off += _OP.size + size


def _micros(time_ms: int) -> int | None:
    return time_ms * 1000 if time_ms <= TIME_MS_MAX else None


def _run_of_op(record: dict[str, Any], index: int, time_ms: int, off: int, at: int, op: memoryview) -> Iterator[Row]:
    if len(op) < _ENQUEUE.size:
        return
    (
        node, incarnation, sequence, _, count, body_bytes, expiration, flags, priority, exchange_len, key_len
    ) = _ENQUEUE.unpack_from(op)  # fmt: skip
    key_at = _ENQUEUE.size + exchange_len
    content_at = key_at + key_len
    names = bytes(op[_ENQUEUE.size : key_at]), bytes(op[key_at:content_at])
    producer = number = None
    if flags & NUMBERED:
        if len(op) - content_at < _PRODUCER.size:
            return
        number, name_len = _PRODUCER.unpack_from(op, content_at)
        name_at = content_at + _PRODUCER.size
        content_at = name_at + name_len
        producer = bytes(op[name_at:content_at])
    if content_at > len(op) or flags > KNOWN_FLAGS:
        return
    expires_at = time_ms + expiration
    yield (
        record["offset"], _micros(time_ms), record["writer"], index, off, count, body_bytes, len(op) - content_at,
        *names, flags & PERSISTENT, priority, expires_at if expires_at <= TIME_MS_MAX else None, node, incarnation, sequence,
        producer, number, record["offset"] + HEADER_SIZE + at + content_at, None, None, None, None, None, None,
    )  # fmt: skip


def _parts_of_entries(record: dict[str, Any], payload: memoryview) -> Iterator[Row]:
    """Of each run the parts that the ORIGINS before it in its entry has for it."""
    entry, parts = -1, deque[Row]()
    for index, _, off, kind, _, op in _ops(record, payload):
        if index != entry:
            entry, parts = index, deque()
        if kind == ORIGINS_OP:
            parts = deque(_origins_of_op(op))
        elif kind == ENQUEUE and len(op) >= _ENQUEUE.size:
            left, nth = _ENQUEUE.unpack_from(op)[4], 0
            while left and parts and 0 < parts[0][0] <= left:
                count, *said = parts.popleft()
                yield record["offset"], index, off, nth, count, *said
                nth, left = nth + count, left - count


def _origins_of_op(op: memoryview) -> Iterator[Row]:
    at = 0
    while len(op) - at >= _ORIGIN.size:
        actor, number, count, flags = _ORIGIN.unpack_from(op, at)
        at += _ORIGIN.size
        death = NO_DEATH
        if flags & ORIGIN_DIED:
            if len(op) - at < _DEATH.size:
                return
            death = _DEATH.unpack_from(op, at)
            at += _DEATH.size
        yield count, actor, number or None, flags & ORIGIN_WAITED_FOR, *death


def _settles_of_op(
    record: dict[str, Any], index: int, time_ms: int, off: int, kind: int, op: memoryview
) -> Iterator[Row]:
    head = (record["offset"], _micros(time_ms), record["writer"], index, off)
    if kind == PURGE:
        yield *head, PURGED, None, None, None, None, None, None
    elif kind == PURGE_ONCE and len(op) >= _CONSUMER.size:
        yield *head, PURGED, *_CONSUMER.unpack_from(op), None, None, None
    elif kind == DEAD_SETTLED_OP:
        for first, count in _RANGE.iter_unpack(_whole(op, 0, _RANGE.size)):
            yield *head, DEAD_SETTLED, None, None, None, first, count, None
    elif kind == SETTLE and len(op) > _CONSUMER.size and op[_CONSUMER.size] < DEAD_SETTLED:
        for first, count in _RANGE.iter_unpack(_whole(op, _CONSUMER.size + 1, _RANGE.size)):
            yield *head, op[_CONSUMER.size], *_CONSUMER.unpack_from(op), first, count, None


records = records_plain
publishes = publishes_plain
origins = origins_plain
settles = settles_plain
counts = counts_plain
readers = readers_plain
events = events_plain

if (_twin := compiled_twin("log_columns")) is not None:
    records = _twin.records
    publishes = _twin.publishes
    origins = _twin.origins
    settles = _twin.settles
    counts = _twin.counts
    readers = _twin.readers
    events = _twin.events
