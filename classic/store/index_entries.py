"""What an index segment says of runs. All integers are little endian; records are those of storage/record.py.

A segment of a queue is two files: `.idx` is records of the first two kinds, one behind the other, `.body` of the third. Each
carries the queue's id as its writer. A run belongs to the segment in which its first message's sequence lies.

    CLASSIC_INDEX            runs: a block; its index is the segment's number
        name_count u32 | entry_count u32
        per name: exchange and key as in broker/messages/route_names.py
        per entry, 64 bytes:
            first u64          sequence of the run's first message
            count u32          messages of the run
            left_out u32       messages at its begin that the content does not hold: they were done with already
            name u32           which of the block's names
            kind u8            where the content is: 1 log, 2 body file, 3 shared store
            flags u8           1: persistent
            priority u8
            (zero) u8
            content_at u32     log: where in the record's payload the content begins
            size u32           of the log record's payload, or of the content
            place u64 u64      log: file number, offset. body: offset, 0. store: the two parts of the id
            body_bytes u64     of the whole run
            expires_at i64     milliseconds since the epoch; -1: never
    CLASSIC_INDEX_SETTLED    messages of this segment that are done with; its index is the segment's number
        per range: first u64 | end u64
    CLASSIC_BODY             a content; its index is the first sequence of its run

Of several entries for one run those that name a body or the store count more than one that names the log: they were
written when the log file was to go.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence

from broker.messages import route_names
from classic.stored_run import InBody, InStore, StoredRun, Where
from native.sequence_set import Range
from storage.disk import Buffer
from storage.wal.log_core import Location

NAMES_MAX = 65_535  # of one block; the next run begins another
IN_LOG, IN_BODY, IN_STORE = 1, 2, 3
PERSISTENT = 1
NEVER = -1

_HEAD = struct.Struct("<II")
_ENTRY = struct.Struct("<QIIIBBBxIIQQQq")
_RANGE = struct.Struct("<QQ")
ENTRY_BYTES = _ENTRY.size
assert ENTRY_BYTES == 64

Name = tuple[str, str]
# first, count, left_out, name, kind, flags, priority, content_at, size, place, place, body_bytes, expires_at
Fields = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]


class Malformed(ValueError):
    """A block with a right checksum that is not what this version writes."""


class Block:
    """Entries that are written together, with the names they share."""

    __slots__ = ("_names", "_numbers", "count", "entries", "names")

    def __init__(self) -> None:
        self._names: dict[bytes, int] = {}
        self._numbers: dict[Name, int] = {}
        self.names = bytearray()
        self.entries = bytearray()
        self.count = 0

    @property
    def full(self) -> bool:
        return len(self._names) >= NAMES_MAX

    def name(self, exchange: str, routing_key: str) -> int:
        """The number of a name in this block."""
        number = self._numbers.get((exchange, routing_key))
        if number is None:
            number = self.raw_name(route_names.encode(exchange, routing_key))
            self._numbers[exchange, routing_key] = number
        return number

    def raw_name(self, raw: bytes) -> int:
        """The same for a name that is encoded already."""
        number = self._names.get(raw)
        if number is None:
            number = self._names[raw] = len(self._names)
            self.names += raw
        return number

    def like(self) -> Block:
        """An empty block with the same names."""
        twin = Block()
        twin._names, twin.names = self._names, self.names
        return twin

    def copy(self, other: Block, at: int) -> None:
        """An entry of a block with the same names."""
        self.entries += other.entries[at * ENTRY_BYTES : (at + 1) * ENTRY_BYTES]
        self.count += 1

    def fields(self) -> Iterator[Fields]:
        return _ENTRY.iter_unpack(bytes(self.entries))

    def add(self, *fields: int) -> None:
        """An entry, its fields as in `Fields`."""
        self.entries += _ENTRY.pack(*fields)
        self.count += 1

    def add_run(self, run: StoredRun, where: Where | None, left_out: int) -> None:
        kind, content_at, size, first, second = _place(run, where)
        self.add(
            run.first,
            run.count,
            left_out,
            self.name(run.exchange, run.routing_key),
            kind,
            PERSISTENT if run.persistent else 0,
            run.priority,
            content_at,
            size,
            first,
            second,
            run.body_bytes,
            NEVER if run.expires_at is None else run.expires_at,
        )

    def parts(self) -> list[Buffer]:
        return [_HEAD.pack(len(self._names), self.count), bytes(self.names), bytes(self.entries)]


def _place(run: StoredRun, where: Where | None) -> tuple[int, int, int, int, int]:
    match where:
        case Location():
            return IN_LOG, run.content_at, where.size, where.file_number, where.offset
        case InBody():
            return IN_BODY, 0, where.size, where.offset, 0
        case InStore():
            return IN_STORE, 0, 0, where.file_number, where.offset
        case None:
            raise AssertionError(f"the run at {run.first} is nowhere on disk, and is to be written to the index")


def read_block(payload: Buffer) -> tuple[list[Name], Iterator[Fields]]:
    """The names of a block, and its entries. Raises Malformed."""
    view = memoryview(payload)
    try:
        name_count, entry_count = _HEAD.unpack_from(view)
        names, at = [], _HEAD.size
        for _ in range(name_count):
            exchange, routing_key, at = route_names.read(view, at)
            names.append((exchange, routing_key))
    except (struct.error, IndexError, ValueError) as error:
        raise Malformed(f"a block of {len(view)} bytes: {error}") from error
    if len(view) - at != entry_count * ENTRY_BYTES:
        raise Malformed(f"a block of {entry_count} entries has {len(view) - at} bytes for them")
    return names, _ENTRY.iter_unpack(view[at:])


def make_run(fields: Fields, name: Name) -> StoredRun:
    """The run that an entry describes."""
    first, count, left_out, _, kind, flags, priority, content_at, size, place, second, body_bytes, expires_at = fields
    where: Where
    if kind == IN_LOG:
        where = Location(place, second, size)
    elif kind == IN_BODY:
        where = InBody(place, size)
    elif kind == IN_STORE:
        where = InStore(place, second)
    else:
        raise Malformed(f"the entry of run {first} says that its content is in {kind}")
    run = StoredRun(
        first,
        count,
        name[0],
        name[1],
        None,
        body_bytes,
        bool(flags & PERSISTENT),
        priority,
        None if expires_at == NEVER else expires_at,
        where,
        content_at,
    )
    run.content_first = first + left_out
    run.indexed = True
    return run


def blocks_of(runs: Sequence[StoredRun], segment_of: Callable[[int], int]) -> Iterator[tuple[int, Block]]:
    """These runs as blocks, each for one segment."""
    block, number = Block(), -1
    for run in runs:
        if block.count and (segment_of(run.first) != number or block.full):
            yield number, block
            block = Block()
        number = segment_of(run.first)
        block.add_run(run, run.where, run.content_first - run.first)
    if block.count:
        yield number, block


def unindexed_runs(payload: Buffer) -> list[StoredRun]:
    """The runs of a block that was not read from an index segment, which may not know them."""
    names, entries = read_block(payload)
    runs = [make_run(fields, names[fields[3]]) for fields in entries]
    for run in runs:
        run.indexed = False
    return runs


def encode_ranges(ranges: Sequence[Range]) -> bytes:
    return b"".join([_RANGE.pack(*pair) for pair in ranges])


def decode_ranges(payload: Buffer) -> list[Range]:
    """Raises Malformed."""
    if len(payload) % _RANGE.size:
        raise Malformed(f"{len(payload)} bytes are no ranges")
    ranges = list(_RANGE.iter_unpack(payload))
    for first, end in ranges:
        if first >= end:
            raise Malformed(f"a range from {first} to {end}")
    return ranges
