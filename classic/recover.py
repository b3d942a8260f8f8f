"""Rebuilds queues at a start: from what a clean stop wrote down, or from the index files and the log.

After a crash a message is there if it was published, as the log or an index segment says, and not settled, as either of them
says. Order does not matter for that, since a sequence is never given to two messages. Which messages had been out nobody knows,
so all that are left are marked as redelivered. Non-persistent ones are dropped.

A start reads much and makes few objects: runs are kept as the bytes of their index entries until it is known which of them
live, and a long queue's go to its index as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from broker.records import QueueRecord
from classic import clean_stop, manifest
from classic.clean_stop import CleanStop, LevelSummary, QueueSummary
from classic.index_entries import (
    IN_BODY,
    IN_LOG,
    PERSISTENT,
    Block,
    Fields,
    blocks_of,
    encode_ranges,
    make_run,
    read_block,
)
from classic.log_records import decode_deleted, decode_settled, read_published
from classic.manifest import Manifest
from classic.queue_index import QueueIndex, Segment
from classic.salvage import Damage, scan_on
from classic.segment_reader import Loaded, read_segment
from classic.shelf import Shelf
from classic.store import Stored
from classic.stored_run import LEVEL_SHIFT, InStore, StoredRun
from native.content import count as count_messages
from native.sequence_set import Range, SequenceSet
from storage import names
from storage.disk import Buffer, Disk
from storage.errors import Corrupt, DiskFull
from storage.record import Kind, encode
from storage.wal import Location
from storage.wal_file_reader import Chunk

if TYPE_CHECKING:
    from classic.queue import ClassicQueue
    from classic.variable_queue import VariableQueue

CLASSIC_KINDS = range(Kind.CLASSIC_PUBLISH, Kind.CLASSIC_QUEUE_DELETED + 1)


class FromLog:
    """What the log says of one queue."""

    __slots__ = ("blocks", "published", "settled")

    def __init__(self) -> None:
        self.blocks: list[Block] = [Block()]
        self.published = SequenceSet()
        self.settled = SequenceSet()


class Recovery:
    """One start: `read` the log, then `fill` each queue, then `finish`."""

    def __init__(self, shelf: Shelf, records: Mapping[int, QueueRecord]) -> None:
        self._shelf = shelf
        self._records = records  # of the queues that are declared; what belongs to others is over
        self._from_log: dict[int, FromLog] = {}
        self._deleted: set[int] = set()
        self.newest_unknown = 0  # number of a queue that has messages here and is not declared; 0: there is none
        self._repaired = False  # an index segment is shorter now than the manifest says
        self._lowest: dict[VariableQueue, int] = {}  # where the first living run of each level of a queue begins
        shelf.disk.make_dir(names.CLASSIC_DIRECTORY)
        self.clean = self._take_clean_stop()
        self.manifest = self._load_manifest()
        self._check_files()
        shelf.spilled.empty()
        shelf.next_index = self.clean.next_index if self.clean is not None else 1
        if self.clean is not None:
            contents = {InStore(*row[:2]): Stored(*row[2:]) for row in self.clean.store}
            shelf.store.restore(self.manifest.store, contents)
            shelf.live.update(self.clean.live)
        else:
            self._clear_up()
            self.manifest.save(
                shelf.disk
            )  # a killed process may have left it without a sync: from here on we rely on it
            shelf.store.scan(self.manifest.store, self._read_on_in_store)

    # the files

    def _take_clean_stop(self) -> CleanStop | None:
        try:
            return clean_stop.take(self._shelf.disk)
        except Corrupt as error:
            what = f"{error}: the start takes what the log and the index files say"
            self._shelf.keep_copy(names.CLASSIC_CLEAN_STOP, what)
            clean_stop.remove(self._shelf.disk)
            return None

    def _load_manifest(self) -> Manifest:
        """The first start saves one before there is any file, so files without a manifest mean that it was lost."""
        disk = self._shelf.disk
        try:
            if disk.exists(names.CLASSIC_FILES) or not self._has_files():
                return manifest.load(disk)
            self._shelf.found(f"{names.CLASSIC_FILES} is missing: all files that are there are taken as they are")
        except Corrupt as error:
            what = f"{error}: all files that are there are taken as they are"
            self._shelf.keep_copy(names.CLASSIC_FILES, what)
        self.clean = None
        return as_found(disk, self._records.values())

    def _has_files(self) -> bool:
        """Whether there are files that a manifest would name."""
        disk = self._shelf.disk
        directories = [name for name in disk.list(names.CLASSIC_DIRECTORY) if names.is_queue_directory(name)]
        return any(disk.list(f"{names.CLASSIC_DIRECTORY}/{name}") for name in directories) or bool(
            disk.list(names.STORE_PERSISTENT)
        )

    def _check_files(self) -> None:
        """What the queues knew at a clean stop is no use when their files are shorter now. They are not read: there are many.
        Damage to an index is found when it is read, at the latest before something is written behind it."""
        if self.clean is not None and (damaged := self._first_too_short()) is not None:
            self._shelf.found(
                f"{damaged} is not as the last stop left it: the start takes what the log and the files say"
            )
            self.clean = None

    def _first_too_short(self) -> str | None:
        disk = self._shelf.disk
        sizes = {names.store_file(names.STORE_PERSISTENT, number): size for number, size in self.manifest.store.items()}
        for queue_id, (directory, segments) in self.manifest.queues.items():
            if queue_id not in self._records:
                continue
            for number, segment in segments.items():
                sizes[names.index_segment(directory, number)] = segment.index_size
                if segment.body_size:
                    sizes[names.body_file(directory, number)] = segment.body_size
        return next((name for name, size in sizes.items() if size_of(disk, name) < size), None)

    def _clear_up(self) -> None:
        """Cut off what no manifest vouches for. The log has it."""
        disk = self._shelf.disk
        for queue_id, (directory, segments) in list(self.manifest.queues.items()):
            if queue_id not in self._records and not disk.exists(directory):
                self.manifest.forget_queue(
                    queue_id
                )  # the queue was deleted, its files with it, and the crash came then
                continue
            for number, segment in list(segments.items()):
                if queue_id in self._records:
                    self._cut_segment(queue_id, directory, number, segment)
                elif not disk.exists(names.index_segment(directory, number)):
                    self.manifest.forget_segment(queue_id, number)  # the same, half-way
        for number, size in list(self.manifest.store.items()):
            if not self._cut(names.store_file(names.STORE_PERSISTENT, number), size):
                del self.manifest.store[number]
        kept = {
            name
            for directory, segments in self.manifest.queues.values()
            for number in segments
            for name in (names.index_segment(directory, number), names.body_file(directory, number))
        }
        for directory in disk.list(names.CLASSIC_DIRECTORY):
            if names.is_queue_directory(directory):
                self._delete_others(f"{names.CLASSIC_DIRECTORY}/{directory}", kept)
        stored = {names.store_file(names.STORE_PERSISTENT, number) for number in self.manifest.store}
        for name in disk.list(names.STORE_PERSISTENT):
            if f"{names.STORE_PERSISTENT}/{name}" not in stored:
                disk.delete(f"{names.STORE_PERSISTENT}/{name}")

    def _cut_segment(self, queue_id: int, directory: str, number: int, segment: Segment) -> None:
        """Places in a body file are never used again, so its size stays as it was noted, whatever is left of it."""
        disk, body = self._shelf.disk, names.body_file(directory, number)
        if segment.body_size and not self._cut(body, segment.body_size):
            disk.make_dir(directory)  # which may be lost with it
            disk.create(body).close()
        if not self._cut(names.index_segment(directory, number), segment.index_size):
            if segment.body_size:
                self._shelf.keep_copy(body, f"nothing says any more what lies in {body}")
            self.manifest.forget_segment(queue_id, number)

    def _cut(self, name: str, size: int) -> bool:
        """Make the file as long as it was vouched for. False when it is not there."""
        try:
            file = self._shelf.disk.open(name)
        except FileNotFoundError:
            self._shelf.found(f"{name} is missing: what it held is lost")
            return False
        try:
            there = file.size()
            if there > size:
                file.truncate(size)
        finally:
            file.close()
        if there < size:
            what = f"{name} has {there} bytes, {size} of it were durable: the rest is lost"
            self._shelf.keep_copy(name, what)
        return True

    def _delete_others(self, directory: str, kept: set[str]) -> None:
        disk = self._shelf.disk
        for name in disk.list(directory):
            if f"{directory}/{name}" not in kept:
                disk.delete(f"{directory}/{name}")
        if not disk.list(directory):
            disk.remove_dir(directory)

    def _read_on_in_store(self, name: str, offset: int, length: int, reason: str) -> None:
        """The store could not read on from here. What lies behind what is damaged is still wanted."""
        contents, number = self._shelf.store.contents, names.number_of(name, names.STORE_SUFFIX)
        assert number is not None, f"{name} is no file of the store"
        data = self._shelf.disk.read_file(name)[: offset + length]
        records, damages = scan_on(data, offset)
        self._shelf.damaged(name, damages)
        for kind, _, _, writer, index, start, end in records:
            if kind == Kind.CLASSIC_STORED:
                contents.setdefault(InStore(writer, index), Stored(number, start, end - start, 0))

    # the log

    def read(self, chunks: Iterable[Chunk]) -> None:
        """Raises Corrupt when the clean stop is older than the log: without it, as at the next start, all is well."""
        for chunk in chunks:
            view = memoryview(chunk.buffer)
            for record in chunk.records:
                kind, index = record[0], record[4]
                if kind not in CLASSIC_KINDS:
                    continue
                if self.clean is not None:
                    if index >= self.clean.next_index:
                        raise Corrupt(
                            names.CLASSIC_CLEAN_STOP, 0, 0, "the log goes on behind it. It is removed: start again"
                        )
                    continue
                self._shelf.next_index = max(self._shelf.next_index, index + 1)
                self._record(kind, view[record[5] : record[6]], chunk.file_number, chunk.base + record[5])
        self._note_unknown(self.manifest.queues)
        if self.clean is not None:
            self._note_unknown(self.clean.queues)

    def _note_unknown(self, queue_ids: Iterable[int]) -> None:
        self.newest_unknown = max([self.newest_unknown, *(one for one in queue_ids if one not in self._records)])

    def _record(self, kind: int, payload: memoryview, file_number: int, offset: int) -> None:
        if kind == Kind.CLASSIC_PUBLISH:
            self._published(payload, file_number, offset)
        elif kind == Kind.CLASSIC_QUEUE_DELETED:
            queue_id = decode_deleted(payload)
            self._deleted.add(queue_id)
            self._from_log.pop(queue_id, None)
        else:
            queue_id, ranges = decode_settled(payload)
            if queue_id in self._records:
                settled = self._of(queue_id).settled
                for first, end in ranges:
                    settled.add(first, end)

    def _published(self, payload: memoryview, file_number: int, offset: int) -> None:
        """The run's index entry, for each of its queues."""
        head_len, priority, message_count, body_bytes, expires_at, queues, raw_name = read_published(payload)
        for queue_id, first in queues:
            of = self._from_log.get(queue_id)
            if of is None:
                if queue_id not in self._records:
                    if queue_id > self.newest_unknown:
                        self.newest_unknown = queue_id
                    continue
                of = self._of(queue_id)
            block = of.blocks[-1]
            if block.full:
                block = Block()
                of.blocks.append(block)
            block.add(
                first, message_count, 0, block.raw_name(raw_name), IN_LOG, PERSISTENT, priority,
                head_len, len(payload), file_number, offset, body_bytes, expires_at,
            )  # fmt: skip
            of.published.add(first, first + message_count)

    def _of(self, queue_id: int) -> FromLog:
        return self._from_log.setdefault(queue_id, FromLog())

    # one queue

    def fill(self, queue: ClassicQueue) -> None:
        """Give a queue that was just opened what it had before."""
        queue_id = queue.record.id
        noted = self.manifest.queues.get(queue_id)
        if noted is not None:
            segments = {number: replace(segment) for number, segment in noted[1].items()}
            queue.backing.index.restore(segments, unread=self.clean is not None)
        of = self._from_log.pop(queue_id, None)
        if self.clean is not None:
            summary = self.clean.queues.get(queue_id)
            if summary is not None:
                fill_from_summary(queue, summary)
        elif of is not None or noted is not None:
            self._fill_from_files(queue, of or FromLog())

    def _fill_from_files(self, queue: ClassicQueue, of: FromLog) -> None:
        index = queue.backing.index
        moved = SequenceSet()  # messages that the index has the contents of
        known = SequenceSet()  # messages that the index has an entry for, also such as never became durable
        for number, segment in list(index.segments.items()):
            self._read_segment(queue, segment, number, of, moved, known)
        ends = [end for _, end in (*of.published.ranges(), *of.settled.ranges(), *known.ranges())]
        alive = of.published
        for first, end in moved.ranges():
            alive.add(first, end)
        for first, end in of.settled.ranges():
            alive.remove(first, end)
        for level in queue.levels:
            top = level.base + (1 << LEVEL_SHIFT)
            for first, end in alive.intersect(level.base, top):
                level.ready.add(first, end)
                queue.redelivered.add(first, end)
            level.next_sequence = max([level.base, *(end for end in ends if level.base < end <= top)])
        self._take_stock(queue)
        if index.segments or sum(block.count for block in of.blocks) > queue.backing.runs_max:
            self._fill_index(queue, of.blocks, alive, moved)
        else:
            self._fill_memory(queue, of.blocks)
        index.touch_all()  # what the log alone says of their messages is to be noted before that goes

    def _read_segment(
        self, queue: ClassicQueue, segment: Segment, number: int, of: FromLog, moved: SequenceSet, known: SequenceSet
    ) -> None:
        """Which messages a segment has the contents of, and which are settled. What the log has too is left to the log."""
        index = queue.backing.index
        name = names.index_segment(index.directory, number)
        data = self._shelf.disk.read_file(name)
        loaded = read_segment(data, queue.record.id, number)
        kept = not loaded.damages or self._shelf.damaged(name, loaded.damages)
        whole = not loaded.damages and len(data) >= segment.index_size
        segment.index_size = len(data)
        for first, end in loaded.settled:
            of.settled.add(first, end)
            for again in of.published.intersect(first, end):
                self._shelf.settle(queue, *again)  # the log may not know, and this segment may go before that file does
        unheld: list[Range] = []
        for fields in loaded.entries:
            begin, end = fields[0] + fields[2], fields[0] + fields[1]
            known.add(fields[0], end)
            if fields[4] != IN_LOG and fields[5] & PERSISTENT:
                held = end if whole else self._end_of_content(index, number, fields)
                moved.add(begin, held)
                if held < end:
                    unheld.append((held, end))
        if segment.first < segment.end:
            known.add(segment.first, segment.end)  # also what cannot be read any more: no sequence is given twice
        if kept and not whole:
            self._repair(queue.record.id, segment, name, data, loaded.damages, unheld)

    def _end_of_content(self, index: QueueIndex, number: int, fields: Fields) -> int:
        """A content ends with the last message that lived when it was written. That those behind it were settled is said
        by a record that may be damaged."""
        if fields[4] == IN_BODY:
            with suppress(Corrupt, FileNotFoundError):  # then there is no message, as who asks for one is told
                content = self._shelf.files.payload(names.body_file(index.directory, number), fields[9], fields[8])
                return fields[0] + fields[2] + count_messages(content)
        return fields[0] + fields[1]

    def _repair(
        self,
        queue_id: int,
        segment: Segment,
        name: str,
        data: bytes,
        damages: Sequence[Damage],
        unheld: Sequence[Range],
    ) -> None:
        """Let what can be read of an index segment take its place, and say there what no content holds: the next start
        does not know any more that something is missing."""
        parts: list[Buffer] = []
        at = 0
        for damage in sorted(damages):
            parts.append(data[at : damage.offset])
            at = damage.offset + damage.length
        parts.append(data[at:])
        if unheld:
            parts += encode(Kind.CLASSIC_INDEX_SETTLED, queue_id, segment.number, [encode_ranges(unheld)])
        try:
            replace_file(self._shelf.disk, name, parts)
        except DiskFull:
            self._shelf.found(f"there is no room to repair {name}")
            return
        segment.index_size = sum(map(len, parts))
        self.manifest.note_index_size(queue_id, segment.number, segment.index_size)
        self._repaired = True

    def _take_stock(self, queue: ClassicQueue) -> None:
        """Bytes and references of the messages that live and that the index has the contents of."""
        store, index = self._shelf.store, queue.backing.index
        self._lowest.clear()
        for number in sorted(index.segments):
            loaded = index.load(number)
            for at, fields in enumerate(loaded.entries):
                living = queue.alive_in(fields[0], fields[0] + fields[1])
                if fields[4] == IN_LOG or not living:
                    continue
                run = loaded.run(at)
                self._note_lowest(queue.level_at(run.first), run.first)
                queue.level_at(run.first).ready_bytes += sum(run.bytes_of(first, end) for first, end in living)
                if isinstance(run.where, InStore) and not store.refer(run.where):
                    self._shelf.found(
                        f"queue '{queue.record.name}': the content of messages {run.first} to {run.end - 1} is lost"
                    )

    def _fill_memory(self, queue: ClassicQueue, blocks: Sequence[Block]) -> None:
        """A short queue: its runs are made, and stand in q3."""
        live = self._shelf.live
        runs = [run for block in blocks for run in runs_in(b"".join(block.parts()))]
        runs.sort(key=lambda run: run.first)
        for level in queue.levels:
            mine = [run for run in runs if run.first >> LEVEL_SHIFT == level.base >> LEVEL_SHIFT]
            for run in mine:
                living = level.ready.intersect(run.first, run.end)
                level.ready_bytes += sum(run.bytes_of(first, end) for first, end in living)
                if isinstance(run.where, Location):
                    count = sum(end - first for first, end in living)
                    live[run.where.file_number] = live.get(run.where.file_number, 0) + count
            level.restore(mine)

    def _fill_index(self, queue: ClassicQueue, blocks: Sequence[Block], alive: SequenceSet, moved: SequenceSet) -> None:
        """A long queue: the entries of what lives go to the index as they are, and all of it is delta."""
        for block in blocks:
            if block.count:
                self._write_living(queue, block, alive, moved)
        for level in queue.levels:
            if level.ready:
                level.restore_delta(self._lowest[level], level.ready.last() + 1, level.ready.count)

    def _write_living(self, queue: ClassicQueue, block: Block, alive: SequenceSet, moved: SequenceSet) -> None:
        live, index, level = self._shelf.live, queue.backing.index, queue.levels[0]
        chosen = block.like()
        number = lowest = highest = -1
        for at, fields in enumerate(block.fields()):
            first, count, file_number = fields[0], fields[1], fields[9]
            living = alive.intersect(first, first + count)
            if not living or living[0][0] in moved:  # not `first`: what was settled was not moved out
                continue
            if index.number_of(first) != number:
                if chosen.count:
                    index.write_block(number, chosen, lowest, highest)
                chosen, number, lowest = block.like(), index.number_of(first), first
                level = queue.level_at(first)
            chosen.copy(block, at)
            self._note_lowest(level, first)
            highest = first + count
            if living[0] == (first, highest):
                level.ready_bytes += fields[11]
            else:
                count = sum(end - start for start, end in living)
                level.ready_bytes += fields[11] * count // fields[1]
            live[file_number] = live.get(file_number, 0) + count
        if chosen.count:
            index.write_block(number, chosen, lowest, highest)

    def _note_lowest(self, level: VariableQueue, first: int) -> None:
        """What an unwritten settlement brings back from the log may lie before what the index has."""
        self._lowest[level] = min(first, self._lowest.get(level, first))

    def finish(self) -> None:
        """After all queues were filled."""
        if self.clean is None:
            self._shelf.store.forget_unreferenced()
        if self._repaired:
            with suppress(DiskFull):  # the next start only wonders where the rest is
                self.manifest.save(self._shelf.disk)
        disk = self._shelf.disk
        for queue_id, (directory, segments) in list(self.manifest.queues.items()):
            if queue_id in self._records:
                continue
            if queue_id in self._deleted:
                for name in disk.list(directory):
                    disk.delete(f"{directory}/{name}")
                self.manifest.forget_queue(queue_id)
            else:
                self._shelf.found(
                    f"{directory} holds {len(segments)} segments of queue {queue_id}, which is not declared: it is left alone"
                )


def fill_from_summary(queue: ClassicQueue, summary: QueueSummary) -> None:
    for first, end in summary.redelivered:
        queue.redelivered.add(first, end)
    for level, one in zip(queue.levels, summary.levels, strict=True):
        level.next_sequence = one.next_sequence
        level.ready_bytes = one.ready_bytes
        for first, end in one.ready:
            level.ready.add(first, end)
        level.restore([run for block in one.older for run in runs_in(block)])
        start, end, _ = one.delta
        count = sum(stop - first for first, stop in level.ready.intersect(start, end))
        if count:
            level.restore_delta(start, end, count)
        level.restore([run for block in one.newer for run in runs_in(block)])


def summary_of(queue: ClassicQueue) -> QueueSummary:
    """What a clean stop writes down of a queue. Non-persistent messages are not in it."""
    levels = []
    for level in queue.levels:
        ready = level.ready.copy()
        transient_bytes = 0
        for run in [*level.runs(), *transient_in_delta(queue, level)]:
            if not run.persistent:
                living = level.ready.intersect(run.first, run.end)
                transient_bytes += sum(run.bytes_of(first, end) for first, end in living)
        for first, end in queue.transient.ranges():
            ready.remove(first, end)
        delta = (level.delta_start, level.delta_end, level.delta_count) if level.delta_count else (0, 0, 0)
        levels.append(
            LevelSummary(
                level.next_sequence,
                max(0, level.ready_bytes - transient_bytes) if ready else 0,
                ready.ranges(),
                blocks_with(run for part in (level.q4, level.q3) for run in part if run.persistent),
                delta,
                blocks_with(run for part in (level.q2, level.q1) for run in part if run.persistent),
            )
        )
    return QueueSummary(levels, queue.redelivered.ranges())


def transient_in_delta(queue: ClassicQueue, level: VariableQueue) -> list[StoredRun]:
    """Non-persistent runs that only the index knows: their bytes are counted, and do not outlive the stop."""
    if not level.delta_count:
        return []
    index = queue.backing.index
    ranges = queue.transient.intersect(level.delta_start, level.delta_end)
    numbers = {
        number
        for first, end in ranges
        for number in range(index.number_of(first) - 1, index.number_of(end - 1) + 1)  # a run may begin one before
        if number in index.segments
    }
    return [
        loaded.run(at)
        for loaded in map(index.load, sorted(numbers))
        for at, fields in enumerate(loaded.entries)
        if not fields[5] & PERSISTENT and level.delta_start <= fields[0] < level.delta_end
    ]


def blocks_with(runs: Iterable[StoredRun]) -> list[bytes]:
    return [b"".join(block.parts()) for _, block in blocks_of(list(runs), lambda _: 0)]


def runs_in(payload: bytes) -> list[StoredRun]:
    """The runs of a block that was not read from an index segment, which may not know them."""
    block_names, entries = read_block(payload)
    runs = [make_run(fields, block_names[fields[3]]) for fields in entries]
    for run in runs:
        run.indexed = False
    return runs


def as_found(disk: Disk, records: Iterable[QueueRecord]) -> Manifest:
    """A manifest from the files themselves, when the one that was written is lost: each is durable as it is."""
    found = Manifest()
    for record in records:
        directory = names.queue_directory(record.vhost, record.name, record.id)
        for number in names.numbers_in(disk.list(directory), names.INDEX_SUFFIX):
            data = disk.read_file(names.index_segment(directory, number))
            loaded = read_segment(data, record.id, number)
            first = loaded.firsts[0] if loaded.firsts else 0
            end = max((fields[0] + fields[1] for fields in loaded.entries), default=0)
            body_size = body_bytes_of(disk, names.body_file(directory, number), loaded)
            segment = Segment(number, len(data), body_size, first, end, in_store=True)
            found.queues.setdefault(record.id, (directory, {}))[1][number] = segment
    for number in names.numbers_in(disk.list(names.STORE_PERSISTENT), names.STORE_SUFFIX):
        found.store[number] = len(disk.read_file(names.store_file(names.STORE_PERSISTENT, number)))
    return found


def body_bytes_of(disk: Disk, name: str, loaded: Loaded) -> int:
    """How long a body file is, or was when its index was written: nothing else may come to lie where entries point to."""
    there = len(disk.read_file(name)) if disk.exists(name) else 0
    return max([there, *(fields[9] + fields[8] for fields in loaded.entries if fields[4] == IN_BODY)])


def size_of(disk: Disk, name: str) -> int:
    """-1 for a file that is not there."""
    try:
        file = disk.open(name)
    except FileNotFoundError:
        return -1
    try:
        return file.size()
    finally:
        file.close()


def replace_file(disk: Disk, name: str, parts: Sequence[Buffer]) -> None:
    """Another content for a file, durably: after a crash there is the old one or the new one. Raises DiskFull."""
    beside = names.temporary(name)
    with suppress(FileNotFoundError):  # of an attempt that a crash ended
        disk.delete(beside)
    file = disk.create(beside)
    try:
        file.write_at(0, parts)
        file.sync()
    finally:
        file.close()
    disk.rename(beside, name)
    disk.sync_dir(name.rpartition("/")[0])
