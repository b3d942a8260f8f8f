"""One stream's log on a simulated disk, beside a list of what was appended to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from raft.core import membership
from raft.core.messages import Entry, EntryKind, Membership
from storage.names import stream_directory
from stream.checkpoint import Checkpoint
from stream.chunk import message_item, seal_chunk
from stream.entries import ENDS_SEGMENT, RetentionCut, StoredOffsets, encode, encode_chunk, read_prefix
from stream.log import StreamLog, begin_log
from stream.log_reading import chunk_bytes, read_chunks
from stream.log_recovery import FoundLog, find_log
from tests.sim.disk import SimDisk

DIRECTORY = stream_directory(7)
MEMBERS = Membership((1 << 32, 2 << 32))
NUMBER = 0x1122334455667788
STATE = b"a state"


@dataclass
class Stored:
    """An entry, and what it holds for readers."""

    entry: Entry
    offset: int
    bodies: Sequence[bytes]
    time_ms: int
    state: bytes  # of the machine behind it: here, a digest of what was applied

    @property
    def ends_segment(self) -> bool:
        return self.entry.kind == EntryKind.COMMAND and bool(read_prefix(self.entry.data)[1] & ENDS_SEGMENT)


@dataclass
class World:
    """See the module. `entries` is what the log must have, from index `before` + 1 on."""

    disk: SimDisk = field(default_factory=SimDisk)
    entries: list[Stored] = field(default_factory=list)
    before: int = 0
    first_offset: int = 0
    numbers: Random = field(default_factory=lambda: Random(1))

    def __post_init__(self) -> None:
        checkpoint = Checkpoint(self.before, 0, self.first_offset, 0, self.before, MEMBERS, 1, STATE)
        self.log = begin_log(self.disk, DIRECTORY, checkpoint, NUMBER)
        self.found = FoundLog()

    # Makes entries, each of which follows on the one that was made before.

    @property
    def next_offset(self) -> int:
        return self.entries[-1].offset + len(self.entries[-1].bodies) if self.entries else self.first_offset

    @property
    def last_index(self) -> int:
        return self.before + len(self.entries)

    @property
    def last_term(self) -> int:
        return self.entries[-1].entry.term if self.entries else 0

    def time(self, later_ms: int) -> int:
        return (self.entries[-1].time_ms if self.entries else 0) + later_ms

    def chunk(self, *bodies: bytes, later_ms: int = 10, term: int = 1, ends: bool = False) -> Stored:
        data = b"".join(map(message_item, bodies))
        time_ms = self.time(later_ms)
        header = seal_chunk([data], len(bodies), len(bodies), time_ms, term, self.next_offset)
        return self._stored(EntryKind.COMMAND, encode_chunk(header, [data], ends_segment=ends), bodies, time_ms, term)

    def offsets(self, later_ms: int = 10, term: int = 1, ends: bool = False) -> Stored:
        time_ms = self.time(later_ms)
        data = encode(StoredOffsets(time_ms, (("reader", self.next_offset),), ends))
        return self._stored(EntryKind.COMMAND, data, (), time_ms, term)

    def retention(self, first_offset: int, term: int = 1) -> Stored:
        return self._stored(EntryKind.COMMAND, encode(RetentionCut(self.time(0), first_offset)), (), self.time(0), term)

    def noop(self, term: int = 1) -> Stored:
        return self._stored(EntryKind.NOOP, b"", (), self.time(0), term)

    def membership(self, of: Membership, term: int = 1) -> Stored:
        return self._stored(EntryKind.MEMBERSHIP, membership.encode(of), (), self.time(0), term)

    def _stored(self, kind: EntryKind, data: bytes, bodies: Sequence[bytes], time_ms: int, term: int) -> Stored:
        entry = Entry(self.last_index + 1, max(term, self.last_term), kind, data)
        self.entries.append(Stored(entry, self.next_offset, bodies, time_ms, b"behind %d" % entry.index))
        return self.entries[-1]

    # What happens.

    def append(self, *stored: Stored) -> None:
        """Entries that were made; the log gets them in one piece, as far as it can."""
        left = [one.entry for one in stored]
        while left:
            if self.log.must_roll:
                self.roll()
            count = self.log.fitting(left)
            self.log.append(left[:count])
            left = left[count:]
        if self.log.must_roll:
            self.roll()

    def fill(self, count: int, size: int = 20, term: int = 1, at_once: int = 1) -> None:
        for _ in range(count):
            bodies = [b"%d " % (self.next_offset + at) + b"x" * size for at in range(at_once)]
            self.append(self.chunk(*bodies, term=term))

    def roll(self) -> None:
        job = self.log.begin_roll(
            self.entries[self.log.last_index - self.before - 1].state, 1, self.numbers.getrandbits(64)
        )
        job.perform()
        self.log.end_roll(job)

    def sync(self) -> None:
        job = self.log.begin_sync()
        job.perform()
        self.log.end_sync(job)

    def truncate(self, last_index: int) -> None:
        self.log.truncate(last_index)
        del self.entries[last_index - self.before :]
        if self.log.must_roll:
            self.roll()

    def commit(self, index: int | None = None) -> None:
        self.log.commit(self.log.last_index if index is None else index)

    def cut(self, first_offset: int) -> None:
        self.log.delete(self.log.cut(first_offset))
        del self.entries[: self.log.first_index - 1 - self.before]
        self.before, self.first_offset = self.log.first_index - 1, self.log.first_offset

    def crash(self, random: Random) -> None:
        self.disk.crash(random)

    def restart(self, durable_index: int = 0) -> FoundLog:
        """Without power loss, if `crash` was not called before."""
        self.disk.kill()
        self.found = find_log(self.disk, DIRECTORY, durable_index)
        if self.found.segments:
            self.log = StreamLog(self.disk, DIRECTORY, self.found)
        return self.found

    # What must hold.

    def chunks(self) -> list[Stored]:
        return [one for one in self.entries if one.bodies]


def everything(log: StreamLog, bytes_max: int = 1 << 20) -> list[tuple[int, bytes]]:
    """All committed chunks: first offset, bytes."""
    found: list[tuple[int, bytes]] = []
    index = log.first_index
    while (ranges := read_chunks(log, index, bytes_max)) is not None:
        found += [
            (one.first_offset, bytes(chunk)) for one, chunk in zip(ranges.ranges, chunk_bytes(ranges), strict=True)
        ]
        assert ranges.next_index > index
        index = ranges.next_index
    return found


def wanted_chunks(stored: Sequence[Stored]) -> list[tuple[int, bytes]]:
    """The same, out of what was appended."""
    return [(one.offset, one.entry.data[read_prefix(one.entry.data)[2] - 48 :]) for one in stored if one.bodies]
