"""A node's log of some hours that never were, and what its queues were at each moment, noted while it was written.

A step does something to one queue of each kind and one that nobody asks for. Each queue's book notes what there was behind
it: of the quorum queue what a member's machine says, of the others plain sums. The log is a node's: files with heads and marks,
the older ones archived with their summaries, and snapshots.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import NamedTuple, Protocol

from broker.queues.queue_type import BackReason, Outcome
from classic.store.log_records import Checkpoint, DoneReason, encode_checkpoint, encode_published, encode_reasoned
from native.sequence_set import SequenceSet
from quorum.fifo.commands import (
    Cancel,
    Consume,
    ConsumerKey,
    Get,
    Purge,
    SessionKey,
    Settle,
    Upgrade,
    encode,
    encode_enqueue,
    entry_head,
)
from quorum.fifo.machine import QueueMachine
from quorum.fifo.versions import VERSION_NEWEST
from raft.core import packs
from raft.core.live_entries import LiveEntries
from raft.core.messages import Entry, EntryKind, Membership, SnapshotMeta
from raft.store.snapshots import write as write_snapshot
from storage import snapshot_file
from storage.archive.summary import summarise
from storage.history.name_records import NameRow, encode_name
from storage.names import RAFT_DIRECTORY, archived, archived_summary, log_file
from storage.os_disk import OsDisk
from storage.record import Kind, Mark, Roll, encode_mark, encode_roll
from storage.record import encode as encode_record
from stream.chunks.chunk import message_item, seal_chunk
from stream.chunks.entries import ChunkEntry, LogEntry, RetentionCut
from stream.chunks.entries import encode as encode_stream_entry

START_MS = 1_700_000_000_000
LOG_ID = b"sixteen bytes id"
CLASSIC_QUEUE, OTHER_QUEUE, GROUP, STREAM_GROUP = 7, 8, 1 << 32 | 9, 1 << 32 | 10
NAMES = {
    CLASSIC_QUEUE: NameRow("classic", "/", "c"),
    OTHER_QUEUE: NameRow("classic", "/", "others"),
    GROUP: NameRow("quorum", "/", "q"),
    STREAM_GROUP: NameRow("stream", "/", "s"),
}
SESSION, CONSUMER = SessionKey(1, 1), ConsumerKey(1, 1, 1)
OUTCOMES = (Outcome.ACKNOWLEDGED, Outcome.ACKNOWLEDGED, Outcome.ACKNOWLEDGED, *Outcome)
STEPS_PER_FILE, STEPS_PER_SNAPSHOT = 40, 130
FILES_IN_LOG = 2
CONTENT = bytes(7)  # as folds have it, which read none: digests have a checksum of it

Bytes = list[bytes]


class Noted(NamedTuple):
    """Of a queue from this moment on."""

    at: int  # ms
    messages: int
    oldest: int | None  # when it was published
    published: int  # since the queue began, as are those below
    ended: int
    redelivered: int | None = None
    ready: int | None = None
    unacknowledged: int | None = None
    consumers: int | None = None


NOTHING = Noted(0, 0, None, 0, 0)


class QueueBook(Protocol):
    notes: list[Noted]

    def step(self, random: Random, now: int) -> list[Bytes]:
        """Something happens; the records that say so."""


@dataclass
class ClassicBook:
    queue: int
    notes: list[Noted] = field(default_factory=list)
    there: dict[int, int] = field(default_factory=dict)  # sequence: when it came
    next_sequence: int = 0
    records: int = 0
    is_full: bool = False
    out: set[int] = field(default_factory=set)

    def step(self, random: Random, now: int) -> list[Bytes]:
        does = [self._publish, self._publish, self._end, self._end, self._give_back, *[self._hand_out] * self.is_full]
        made = random.choice(does)(random, now)
        out = len(self.out) if self.is_full else None
        self.notes.append(
            Noted(
                now, len(self.there), min(self.there.values(), default=None), self.next_sequence,
                self.next_sequence - len(self.there), None, None if out is None else len(self.there) - out, out,
            )
        )  # fmt: skip
        return made

    def _hand_out(self, random: Random, now: int) -> list[Bytes]:
        ready = sorted(self.there.keys() - self.out)
        out = random.sample(ready, min(len(ready), random.randrange(1, 6)))
        self.out.update(out)
        said = encode_reasoned(self.queue, 5, 0, set_of(out))
        return [[bytes(part) for part in encode_record(Kind.CLASSIC_OUT, 0, self.queue, [said])]] if out else []

    def _publish(self, random: Random, now: int) -> list[Bytes]:
        count = random.randrange(1, 9)
        head = encode_published([(self.queue, self.next_sequence)], 4, count, 10 * count, None, "", "c")
        self.there |= dict.fromkeys(range(self.next_sequence, self.next_sequence + count), now)
        self.next_sequence += count
        return [self._record(Kind.CLASSIC_PUBLISH, head, b"content")]

    def _end(self, random: Random, now: int) -> list[Bytes]:
        gone = random.sample(sorted(self.there), min(len(self.there), random.randrange(12)))
        for sequence in gone:
            del self.there[sequence]
        self.out.difference_update(gone)
        reason = random.choice([DoneReason.ACKNOWLEDGED, DoneReason.EXPIRED, DoneReason.PURGED])
        return [self._record(Kind.CLASSIC_DONE, encode_reasoned(self.queue, 5, reason, set_of(gone)))] if gone else []

    def _give_back(self, random: Random, now: int) -> list[Bytes]:
        back = random.sample(sorted(self.there), min(len(self.there), 2))
        self.out.difference_update(back)
        said = encode_reasoned(self.queue, 5, BackReason.NACKED, set_of(back))
        return [self._record(Kind.CLASSIC_BACK, said)] if back else []

    def checkpoint(self) -> Bytes:
        """As a node writes it before the first record of a file that tells of the queue."""
        out, ready = set_of(sorted(self.out)), set_of(sorted(self.there.keys() - self.out))
        made = Checkpoint(self.queue, ready.count, out.count, [self.next_sequence], ready.ranges(), out.ranges())
        return [
            bytes(part) for part in encode_record(Kind.CLASSIC_CHECKPOINT, 0, self.queue, [encode_checkpoint(made)])
        ]

    def _record(self, kind: Kind, *parts: bytes) -> Bytes:
        self.records += 1
        return [bytes(part) for part in encode_record(kind, 0, self.records, list(parts))]


@dataclass
class QuorumBook:
    """Of a member whose machine says what there is."""

    notes: list[Noted] = field(default_factory=list)
    machine: QueueMachine = field(default_factory=QueueMachine)
    index: int = 0
    sequence: int = 0
    came_at: dict[int, int] = field(default_factory=dict)  # by entry
    digests: dict[int, int] = field(default_factory=dict)  # of the machine, behind each entry

    def step(self, random: Random, now: int) -> list[Bytes]:
        data = entry_head(now) + self._command(random)
        self.index += 1
        self.came_at[self.index] = now
        self.machine.apply((Entry(self.index, 1, EntryKind.COMMAND, data),))
        self.digests[self.index] = self.machine.digest
        self._note(now)
        return [entries_record(GROUP, self.index, data)]

    def _command(self, random: Random) -> bytes:
        if self.index == 0:
            return encode(Upgrade(VERSION_NEWEST))
        what = random.random()
        if what < 0.35:
            count = random.randrange(1, 6)
            self.sequence += 1
            return b"".join(encode_enqueue(SESSION, self.sequence, count, 10 * count, "", "q", CONTENT))
        if what < 0.43:
            return encode(Consume(CONSUMER, "tag", prefetch=random.randrange(2, 9)))
        if what < 0.45:
            return encode(Cancel(CONSUMER))
        if what < 0.48:
            return encode(Get(ConsumerKey(1, 1, 2 + self.index), no_ack=True))
        if what < 0.485:
            return encode(Purge())
        return encode(Settle(CONSUMER, random.choice(OUTCOMES), [self._some_that_are_out(random)]))

    def _some_that_are_out(self, random: Random) -> tuple[int, int]:
        """The first and how many; now and then some that the consumer does not have, as one says it that settles twice."""
        consumer = self.machine.state.consumers.all.get(CONSUMER)
        rows = list(consumer.checked_out) if consumer is not None else []
        if not rows or random.random() < 0.1:
            return max(1, self.machine.counters.delivered - random.randrange(8)), random.randrange(1, 5)
        row = random.choice(rows)
        first = random.randrange(row.first_id, row.end)
        return first, random.randrange(1, row.end - first + 2)

    def _note(self, now: int) -> None:
        figures, counters = self.machine.figures(), self.machine.counters
        ready, held = figures.ready + figures.delayed, figures.unacknowledged
        state = self.machine.state
        entries = [stored.entry for stored in state.ready]
        entries += [held.stored.entry for one in state.consumers.all.values() for held in one.checked_out]
        oldest = self.came_at[min(entries)] if entries else None
        self.notes.append(
            Noted(
                now, ready + held, oldest, counters.published, counters.published - ready - held, counters.redelivered,
                ready, held, figures.consumers,
            )
        )  # fmt: skip


@dataclass
class StreamBook:
    notes: list[Noted] = field(default_factory=list)
    chunks: list[tuple[int, int, int]] = field(default_factory=list)  # that are kept: first offset, messages, when
    next_offset: int = 0
    index: int = 0

    def step(self, random: Random, now: int) -> list[Bytes]:
        self.index += 1
        said = self._cut(now, random) if len(self.chunks) > 6 else self._chunk(random, now)
        kept = sum(messages for _, messages, _ in self.chunks)
        oldest = min((at for _, _, at in self.chunks), default=None)
        self.notes.append(Noted(now, kept, oldest, self.next_offset, self.next_offset - kept))
        return [entries_record(STREAM_GROUP, self.index, encode_stream_entry(said))]

    def _chunk(self, random: Random, now: int) -> LogEntry:
        count = random.randrange(1, 9)
        data = message_item(b"body") * count
        header = seal_chunk([data], count, count, now, 1, self.next_offset)
        self.chunks.append((self.next_offset, count, now))
        self.next_offset += count
        return ChunkEntry(header + data, ends_segment=True)

    def _cut(self, now: int, random: Random) -> LogEntry:
        del self.chunks[: random.randrange(1, 5)]
        return RetentionCut(now, self.chunks[0][0])


def entries_record(group: int, index: int, data: bytes) -> Bytes:
    made = encode_record(Kind.RAFT_ENTRIES, group, index, [packs.encode([data])], flags=EntryKind.COMMAND, term=1)
    return [bytes(part) for part in made]


def name_record(queue: int) -> Bytes:
    return [bytes(part) for part in encode_record(Kind.NAME, 0, queue, [encode_name(NAMES[queue])])]


def set_of(sequences: list[int]) -> SequenceSet:
    made = SequenceSet()
    for sequence in sequences:
        made.add(sequence, sequence + 1)
    return made


def archive(disk: OsDisk, number: int) -> None:
    """A file of the log, with a summary beside it."""
    name = log_file(number)
    disk.rename(name, archived(name))
    file = disk.open(archived(name))
    snapshot_file.save(disk, archived_summary(name), [summarise(file).encode()])
    file.close()


class PastWorld:
    """See the module. `directory` is the node's."""

    has_times = True  # marks say when they were written

    def __init__(
        self, directory: Path, seed: int, *, is_full: bool = False, tick_ms: int = 1, ahead_ms: int = 0
    ) -> None:
        """`is_full`: with checkpoints of classic queues, as at that level of the history. `tick_ms`: all times are so many ms
        apart, or a multiple of it. `ahead_ms`: the node's clock is that of the queues' leaders, and so much."""
        self.directory = directory
        self.is_full = is_full
        self._tick_ms = tick_ms
        self._ahead_ms = ahead_ms
        self.now = START_MS
        self.books: dict[int, QueueBook] = {
            CLASSIC_QUEUE: ClassicBook(CLASSIC_QUEUE, is_full=is_full),
            OTHER_QUEUE: ClassicBook(OTHER_QUEUE, is_full=is_full),
            GROUP: QuorumBook(),
            STREAM_GROUP: StreamBook(),
        }
        self.file = 0
        self.snapshots = 0
        self._begun: list[int] = []  # when each file was
        self._told: list[tuple[int, int, int]] = []  # when a file first told of a queue
        self._random = Random(seed)
        self._commit = 0
        for name in ("log", "archive", RAFT_DIRECTORY):
            (directory / name).mkdir(parents=True)

    def live(self, files: int) -> None:
        """So many files of a log, and all but the last ones archived."""
        for _ in range(files):
            self._write_file()
        disk = OsDisk(str(self.directory))
        for number in range(1, self.file + 1 - FILES_IN_LOG):
            archive(disk, number)

    def _write_file(self) -> None:
        self.file += 1
        written = bytearray(encode_roll(Roll(LOG_ID, self.file, 0, self._commit)))
        active = self._random.sample(sorted(self.books), self._random.randrange(1, len(self.books) + 1))
        named: set[int] = set()
        for _ in range(STEPS_PER_FILE):
            queue = self._random.choice(active)
            self.now += self._tick_ms * self._random.randrange(1, 1_500 // self._tick_ms)
            if len(self._begun) < self.file:  # its first mark says when it begins
                self._begun.append(self.now)
            written += self._mark(len(written))
            book = self.books[queue]
            begin = book.checkpoint() if isinstance(book, ClassicBook) and self.is_full else []
            records = book.step(self._random, self.now)
            if queue not in named and records:
                named.add(queue)
                self._told.append((self.now, queue, self.file))
                written += b"".join([*name_record(queue), *begin])
            written += b"".join(part for record in records for part in record)
            if self._commit % STEPS_PER_SNAPSHOT == 0:
                self.snapshot()
        written += self._mark(len(written))  # so all before it is durable
        (self.directory / log_file(self.file)).write_bytes(bytes(written))

    def _mark(self, at: int) -> bytes:
        self._commit += 1
        time_us = (self.now + self._ahead_ms) * 1_000 if self.has_times else 0
        mark = Mark(LOG_ID, self.file, at, self.file, at, self._commit, begins_commit=True, time_us=time_us)
        return encode_mark(mark)

    def snapshot(self) -> None:
        """Of the quorum queue."""
        book = self.books[GROUP]
        assert isinstance(book, QuorumBook), f"the quorum queue has a {type(book).__name__}"
        if book.index:
            self.snapshots += 1
            meta = SnapshotMeta(book.index, 1, Membership((1,)), book.machine.version)
            disk = OsDisk(str(self.directory))
            write_snapshot(disk, GROUP, self.snapshots, meta, LiveEntries(), book.machine.snapshot())

    def files_without_word(self, queue: int, second: int) -> int:
        """How many had begun by the end of this second, or in it, behind the last one that had told of the queue."""
        return sum(at < (second + 1) * 1_000 for at in self._begun) - self.last_file_telling(queue, second)

    def last_file_telling(self, queue: int, second: int) -> int:
        """The newest that had told of it by the end of this second; 0: none had."""
        return max((file for at, one, file in self._told if one == queue and at < (second + 1) * 1_000), default=0)

    def file_at(self, at: int) -> int:
        """The one that was written to then, ms."""
        return bisect_right(self._begun, at - 1)

    def figures(self, queue: int, second: int) -> dict[str, int | None]:
        """What there was at the end of this second, as it was noted."""
        notes, start, end = self.books[queue].notes, second * 1_000, (second + 1) * 1_000
        before, last = _note_before(notes, start), _note_before(notes, end)
        is_counted = last.redelivered is not None
        return {
            "messages": last.messages,
            "ready": last.ready,
            "unacknowledged": last.unacknowledged,
            "consumers": last.consumers,
            "published": last.published - before.published,
            "ended": last.ended - before.ended,
            "redelivered": (last.redelivered or 0) - (before.redelivered or 0) if is_counted else None,
            "oldest_ms": None if last.oldest is None else end - last.oldest,
            "untimed": 0,
        }


def _note_before(notes: list[Noted], at: int) -> Noted:
    found = bisect_right(notes, at - 1, key=lambda one: one.at)
    return notes[found - 1] if found else NOTHING
