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
had. `whole_entry` (native/entry_rows.py) puts zeros there, so what counts offsets in an entry finds them; the machine of a
quorum queue reads no contents. An entry that is no sequence of ops stays whole. A publish to several classic queues has a head
for each, which names that queue only.

The bytes may be anything. A payload that does not fit its own lengths gives the rows before that place and no more; a record or
op of an unknown kind gives none. A piece of n bytes has at most n / 32 records, and no table takes more than 64 n bytes:
the worst is a record that names 4,000 queues, which repeats the longest names for each. `events` repeats who published, too,
and passes over a publish that would so become HEADS_MAX times its size: more than 500 publishers joined for as many queues.

The columns of these tables are those of native/log_tables.py. The numbers of kinds here and in native/entry_rows.py are those
of storage/record.py and quorum/fifo/commands.py, those of UNLOGGED in broker/unlogged.py; tests compare them.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Container, Iterator
from typing import Any, Final, NamedTuple, TypeAlias

from native import columns, compiled_twin
from native.columns import Column
from native.entry_rows import (
    DEATH,
    ENQUEUE,
    NO_DEATH,
    RAFT_ENTRIES,
    RANGE,
    Buffer,
    Row,
    ops_of,
    parts_of_entries,
    run_of_op,
    settles_of_op,
    skeletons,
    whole,
)
from native.log_tables import (
    BACK,
    COUNTS,
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

MISPLACED: Final = 4  # why a walk stopped, beside the reasons of record_scan: a mark or head that does not belong here
UNKNOWN: Final = -1  # the commit or time that nothing has told yet


HEADS_MAX: Final = 255


MARK, ROLL, FIRST_KIND_OF_WRITERS = 1, 2, 16
CLASSIC_PUBLISH, CLASSIC_SETTLE, CLASSIC_PURGE, CLASSIC_QUEUE_DELETED = 16, 17, 18, 19
CLASSIC_DONE, CLASSIC_OUT, CLASSIC_BACK, CLASSIC_CHECKPOINT = 24, 25, 26, 27
COUNTS_KIND, STREAM_READERS = 51, 52
BY_ACTORS, WAITED_FOR, DIED_BEFORE, DIED_EACH = 1, 2, 4, 8
READER_LEFT = 1


_MARK = struct.Struct("<16sQQQQQQ")
_ROLL = struct.Struct("<16sQQQ")
_TIME = struct.Struct("<Q")
_PUBLISHED = struct.Struct("<HHBBIQq")
_LENGTHS = struct.Struct("<HH")  # of _PUBLISHED: of the head, and how many queues
_PAIR = struct.Struct("<QQ")
_PART = struct.Struct("<IQI")
_REASONED = struct.Struct("<QIB")
_CHECKPOINT = struct.Struct("<QQQHHH")
_SPAN = struct.Struct("<I")
_COUNT_ROW = struct.Struct("<IQQBBB")
_READER = struct.Struct("<IQQB")
CLASSIC_SIZES: Final = {  # at least, of what follows a publish
    CLASSIC_SETTLE: _TIME.size,
    CLASSIC_PURGE: _TIME.size,
    CLASSIC_QUEUE_DELETED: _TIME.size,
    CLASSIC_DONE: _REASONED.size,
    CLASSIC_OUT: _REASONED.size,
    CLASSIC_BACK: _REASONED.size,
    CLASSIC_CHECKPOINT: _CHECKPOINT.size,
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
        for record, payload in payloads(view, base, found):
            if record["kind"] == CLASSIC_PUBLISH:
                rows.extend(_classic_runs(record, payload))
            elif record["kind"] == RAFT_ENTRIES and _unsigned(record["writer"]) in groups:
                for index, time_ms, off, kind, at, op in ops_of(record, payload):
                    if kind == ENQUEUE:
                        rows.extend(run_of_op(record, index, time_ms, off, at, op))
        return columns.table(PUBLISHES, rows)


def origins_plain(buffer: Buffer, base: int, found: columns.Table, queue_groups: bytes) -> columns.Table:
    """Who has published the runs in these records, part by part, where the log says it."""
    with memoryview(buffer) as view:
        groups = set(struct.unpack(f"<{len(queue_groups) // 8}Q", queue_groups))
        rows: list[Row] = []
        for record, payload in payloads(view, base, found):
            if record["kind"] == CLASSIC_PUBLISH:
                rows.extend(_parts(record, payload))
            elif record["kind"] == RAFT_ENTRIES and _unsigned(record["writer"]) in groups:
                rows.extend(parts_of_entries(record, payload))
        return columns.table(ORIGINS, rows)


def settles_plain(buffer: Buffer, base: int, found: columns.Table, queue_groups: bytes) -> columns.Table:
    """What left a queue or went back to it, as these records say."""
    with memoryview(buffer) as view:
        groups = set(struct.unpack(f"<{len(queue_groups) // 8}Q", queue_groups))
        rows: list[Row] = []
        for record, payload in payloads(view, base, found):
            if CLASSIC_SETTLE <= record["kind"] <= CLASSIC_QUEUE_DELETED:
                rows.extend(_classic_settles(record, payload))
            elif record["kind"] in (CLASSIC_DONE, CLASSIC_BACK):
                rows.extend(_reasoned(record, payload))
            elif record["kind"] == RAFT_ENTRIES and _unsigned(record["writer"]) in groups:
                for index, time_ms, off, kind, _, op in ops_of(record, payload):
                    rows.extend(settles_of_op(record, index, time_ms, off, kind, op))
        return columns.table(SETTLES, rows)


def counts_plain(buffer: Buffer, base: int, found: columns.Table) -> columns.Table:
    """Messages of these records that the log does not have, only their number."""
    with memoryview(buffer) as view:
        rows: list[Row] = []
        for record, payload in payloads(view, base, found):
            if record["kind"] == COUNTS_KIND:
                rows.extend(_counted(record, payload))
        return columns.table(COUNTS, rows)


def readers_plain(buffer: Buffer, base: int, found: columns.Table) -> columns.Table:
    """How far consumers of streams are, as these records say: storage/history/reader_records.py."""
    with memoryview(buffer) as view:
        rows: list[Row] = []
        for record, payload in payloads(view, base, found):
            if record["kind"] == STREAM_READERS:
                for actor, stream, offset, flags in _READER.iter_unpack(whole(payload, 0, _READER.size)):
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


def payloads(view: memoryview, base: int, found: columns.Table) -> Iterator[tuple[dict[str, Any], memoryview]]:
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
        for record, payload in payloads(view, base, found):
            rows.extend(rows_of_event(record, payload, file, others))
        return columns.table(EVENTS, rows)


def rows_of_event(record: dict[str, Any], payload: memoryview, file: int, others: Container[int]) -> Iterator[Row]:
    """What happened to queues, as one record says; nothing of a record of another kind."""
    if record["kind"] == CLASSIC_PUBLISH:
        yield from _heads(record, payload, file)
    elif len(payload) >= CLASSIC_SIZES.get(record["kind"], len(payload) + 1):
        queue = _TIME.unpack_from(payload)[0]
        yield queue, *_classic_event(record, file, 0, bytes(payload))
    elif record["kind"] == RAFT_ENTRIES and _unsigned(record["writer"]) not in others:
        yield from skeletons(record, payload)


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
    if flags & DIED_BEFORE and not flags & DIED_EACH and head_len - at >= DEATH.size:
        death = DEATH.unpack_from(payload, at)
    for queue, first in _PAIR.iter_unpack(payload[_PUBLISHED.size : _PUBLISHED.size + _PAIR.size * queues]):
        yield (
            record["offset"], record["time"], queue, first, 0, count, body_bytes, len(payload) - head_len,
            exchange, key, 1, priority, None if expires_at == -1 else expires_at, None, None, None, None, None,
            record["offset"] + HEADER_SIZE + head_len, bool(flags & WAITED_FOR) if flags & BY_ACTORS else None, *death,
        )  # fmt: skip


def _parts(record: dict[str, Any], payload: memoryview) -> Iterator[Row]:
    names = _names_of(payload)
    if names is None:
        return
    at, (head_len, *_, messages, _, _), death = names[2], _PUBLISHED.unpack_from(payload), NO_DEATH
    if payload[4] & DIED_EACH:
        places = itertools.islice(DEATH.iter_unpack(whole(payload[:head_len], at, DEATH.size)), messages)
        for nth, place in enumerate(places):
            yield record["offset"], None, 0, nth, 1, 0, None, bool(payload[4] & WAITED_FOR), *place
        return
    if not payload[4] & BY_ACTORS:
        return
    if payload[4] & DIED_BEFORE:
        if head_len - at < DEATH.size:
            return
        death = DEATH.unpack_from(payload, at)
        at += DEATH.size
    nth = 0
    for actor, number, count in _PART.iter_unpack(whole(payload[:head_len], at, _PART.size)):
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


def _classic_settles(record: dict[str, Any], payload: memoryview) -> Iterator[Row]:
    if len(payload) < _TIME.size:
        return
    queue = _TIME.unpack_from(payload)[0]
    head = (record["offset"], record["time"], queue, record["index"], 0)
    if record["kind"] == CLASSIC_QUEUE_DELETED:
        yield *head, DELETED, None, None, None, None, None, None
        return
    outcome = SETTLED if record["kind"] == CLASSIC_SETTLE else PURGED
    for first, end in _PAIR.iter_unpack(whole(payload, _TIME.size, _PAIR.size)):
        yield *head, outcome, None, None, None, first, end - first, None


def _reasoned(record: dict[str, Any], payload: memoryview) -> Iterator[Row]:
    if len(payload) < _REASONED.size:
        return
    queue, actor, reason = _REASONED.unpack_from(payload)
    outcome = reason + (DONE if record["kind"] == CLASSIC_DONE else BACK)
    for first, count in RANGE.iter_unpack(whole(payload, _REASONED.size, RANGE.size)):
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
