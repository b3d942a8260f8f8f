"""The index of one queue: segments of 16384 sequences, each with the bodies of its small messages beside it.

Nothing here is durable by itself. What is written lies behind the log, which still holds it, until it was synced and the
manifest (classic/store/manifest.py) says up to where; a crash before that leaves bytes that are cut off.

A segment goes when none of its messages lives any more. A message that is settled costs nothing here: which ones live is known
to the queue, and written down (`write_settled`) before the log files that say so go.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from classic.store.index_entries import IN_STORE, Block, blocks_of, encode_ranges
from classic.store.open_files import OpenFiles
from classic.store.salvage import Damage
from classic.store.segment_reader import Loaded, read_segment
from classic.stored_run import InBody, InStore, StoredRun
from native.sequence_set import Range
from storage import names
from storage.disk import Buffer
from storage.errors import DiskFailed, Exhausted
from storage.record import HEADER_BYTES, VERSION, Kind, seal

SEQUENCES_PER_SEGMENT = 16_384
LOADED_RUNS_MAX = 65_536  # entries kept decoded, over all queues of the node
BODY_BUFFER_BYTES = 1 << 20

Alive = Callable[[int, int], list[Range]]  # which messages between two sequences live, ready or out


@dataclass(slots=True)
class Segment:
    """What is known of a segment without reading it."""

    number: int
    index_size: int = 0
    body_size: int = 0  # with what is still buffered
    first: int = 0  # of its messages: the first, and the end of the last
    end: int = 0
    settled_count: int = 0  # how many were settled when that was written last
    in_store: bool = False  # some of its contents may be in the shared store
    index_synced: int = 0  # so many bytes are durable, and the name; at most the size
    body_synced: int = 0
    unread: bool = False  # taken as a clean stop left it: whether it still is so is seen when it is read

    @property
    def empty(self) -> bool:
        """It was begun, and then there was no room for its first entry."""
        return self.first >= self.end


class LoadedSegments:
    """Decoded segments of all queues, those used last."""

    def __init__(self, runs_max: int = LOADED_RUNS_MAX) -> None:
        self._runs_max = runs_max
        self._loaded: OrderedDict[str, Loaded] = OrderedDict()
        self._runs = 0

    def get(self, name: str) -> Loaded | None:
        found = self._loaded.get(name)
        if found is not None:
            self._loaded.move_to_end(name)
        return found

    def put(self, name: str, loaded: Loaded) -> None:
        self._loaded[name] = loaded
        self._runs += len(loaded.firsts)
        while self._runs > self._runs_max and len(self._loaded) > 1:
            self._runs -= len(self._loaded.popitem(last=False)[1].firsts)

    def drop(self, name: str) -> None:
        found = self._loaded.pop(name, None)
        if found is not None:
            self._runs -= len(found.firsts)


class QueueIndex:
    """See the module. `directory` is the queue's own."""

    def __init__(
        self,
        files: OpenFiles,
        loaded: LoadedSegments,
        directory: str,
        queue_id: int,
        sequences_per_segment: int = SEQUENCES_PER_SEGMENT,
        indexed: dict[int, None] | None = None,
        touched: dict[int, None] | None = None,
        damaged: Callable[[str, Sequence[Damage]], object] | None = None,
        changed: Callable[[str], None] | None = None,
    ) -> None:
        self.directory = directory
        self.segments: dict[int, Segment] = {}
        self._indexed = {} if indexed is None else indexed  # ids of the queues that have segments, to be kept true
        self._touched_queues = {} if touched is None else touched  # ids of those with segments in `touched`, kept true
        self.touched: set[int] = set()  # segments that differ from what the manifest notes
        self._damaged = damaged  # told of a segment that cannot be read as a whole
        self._changed = changed  # told of one that is not as a clean stop left it
        self._files = files
        self._loaded = loaded
        self._queue_id = queue_id
        self._per_segment = sequences_per_segment
        self._bodies: dict[int, list[Buffer]] = {}  # of segments with buffered bodies
        self._buffered = 0

    def number_of(self, sequence: int) -> int:
        return sequence // self._per_segment

    # writing

    def write_runs(self, runs: Sequence[StoredRun]) -> None:
        """Entries for runs whose content is on disk."""
        for run in (
            runs
        ):  # first: if a write fails, what was written before it is not beyond what its segment is known to have
            number, end = self.number_of(run.first), run.first + run.count
            segment = self.segments.get(number) or self._begin(number)
            if run.first < segment.first:
                segment.first = run.first
            if end > segment.end:
                segment.end = end
            if isinstance(run.where, InStore):
                segment.in_store = True
        for number, block in blocks_of(runs, self.number_of):
            self.write_block(number, block)
        for run in runs:
            run.indexed = True

    def write_block(self, number: int, block: Block, first: int | None = None, end: int = 0) -> None:
        """A block for one segment; `first` and `end` say which messages, for who has no runs."""
        segment = self.segments.get(number)
        if segment is None:
            segment = self._begin(number)
        if first is not None:
            segment.first, segment.end = min(segment.first, first), max(segment.end, end)
        self._append(segment, Kind.CLASSIC_INDEX, block.parts())

    def _begin(self, number: int) -> Segment:
        if not self.segments:
            self._files.disk.begin_dir(self.directory)
        self._files.create(self._index_name(number))
        self._indexed[self._queue_id] = None
        segment = self.segments[number] = Segment(number, first=(number + 1) * self._per_segment)
        return segment

    def _append(self, segment: Segment, kind: Kind, parts: Sequence[Buffer]) -> None:
        name = self._index_name(segment.number)
        if segment.unread and self.load(segment.number).damages:
            raise DiskFailed(f"{name} is not as the last stop left it: nothing is written behind what is damaged")
        header = seal(parts, kind, 0, 0, self._queue_id, segment.number, VERSION)
        self._files.writes += 1
        self._files.get(name).write_at(segment.index_size, [header, *parts])
        segment.index_size += len(header) + sum(map(len, parts))
        self.touch(segment.number)
        self._loaded.drop(name)

    def keep_body(self, first: int, content: Buffer) -> InBody:
        """A place for the content of the run that begins with this message; `flush_bodies` writes it."""
        if self._buffered > BODY_BUFFER_BYTES:
            self.flush_bodies()  # before this one is added: while there is no room the buffer does not grow
        number = self.number_of(first)
        segment = self.segments.get(number)
        if segment is None:
            segment = self._begin(number)
        if not segment.body_size:
            self._files.create(self._body_name(number))
        header = seal([content], Kind.CLASSIC_BODY, 0, 0, self._queue_id, first, VERSION)
        place = InBody(segment.body_size + HEADER_BYTES, len(content))
        segment.body_size += HEADER_BYTES + len(content)
        self._bodies.setdefault(number, []).extend((header, content))
        self._buffered += HEADER_BYTES + len(content)
        self.touch(number)
        return place

    def flush_bodies(self) -> int:
        """Returns how many bytes were written."""
        written = self._buffered
        for number, parts in self._bodies.items():
            segment = self.segments[number]
            start = segment.body_size - sum(map(len, parts))
            self._files.writes += 1
            self._files.get(self._body_name(number)).write_at(start, parts)
        self._bodies.clear()
        self._buffered = 0
        return written

    def touch(self, number: int) -> None:
        """This segment was written to, or one of its messages was settled."""
        if number in self.segments:
            self.touched.add(number)
            self._touched_queues[self._queue_id] = None

    def touch_all(self) -> None:
        self.touch_again(self.segments)

    def touch_again(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self.touch(number)

    def noted(self, numbers: Sequence[int]) -> None:
        """What was touched of these segments is in the manifest that is to be saved."""
        self.touched.difference_update(numbers)
        if not self.touched:
            self._touched_queues.pop(self._queue_id, None)

    def write_settled(self, alive: Alive, numbers: Iterable[int]) -> None:
        """Write down for each of these segments which of its messages do not live any more, where that has changed."""
        for number in numbers:
            segment = self.segments.get(number)
            if segment is None or segment.empty:
                continue
            living = alive(segment.first, segment.end)
            settled = segment.end - segment.first - sum(end - first for first, end in living)
            if settled != segment.settled_count:
                ranges = _between(segment.first, segment.end, living)
                self._append(segment, Kind.CLASSIC_INDEX_SETTLED, [encode_ranges(ranges)])
                segment.settled_count = settled

    def unsynced(self, segment: Segment) -> list[str]:
        """The files of a segment that have bytes which are not durable."""
        names = []
        if segment.index_size > segment.index_synced:
            names.append(self._index_name(segment.number))
        if segment.body_size > segment.body_synced:
            names.append(self._body_name(segment.number))
        return names

    def restore(self, segments: dict[int, Segment], unread: bool = False) -> None:
        """What a start found in the manifest."""
        self.segments = segments
        for segment in segments.values():
            segment.unread = unread
            segment.index_synced, segment.body_synced = segment.index_size, segment.body_size
        if segments:
            self._indexed[self._queue_id] = None

    # reading

    def page_in(self, start: int, end: int, count_max: int) -> tuple[list[StoredRun], int]:
        """See variable_queue.Backing."""
        numbers = [
            number for number in sorted(self.segments) if self.number_of(start) <= number < -(-end // self._per_segment)
        ]
        for number in numbers:
            loaded = self.load(number)
            at = bisect_left(loaded.firsts, start)
            stop = min(bisect_left(loaded.firsts, end), at + count_max)
            if at < stop:
                runs = [loaded.run(place) for place in range(at, stop)]
                if stop < len(loaded.firsts):
                    return runs, max(runs[-1].end, start)
                return runs, max(runs[-1].end, min(end, (number + 1) * self._per_segment))
        return [], end

    def end_of_segment(self, sequence: int) -> int:
        """Where the segment ends that this message, or the next one that the index has, belongs to."""
        wanted = self.number_of(sequence)
        return (min((number for number in self.segments if number >= wanted), default=wanted) + 1) * self._per_segment

    def find(self, first: int) -> StoredRun | None:
        """The run that begins with this message, as the index knows it."""
        number = self.number_of(first)
        return self.load(number).find(first) if number in self.segments else None

    def load(self, number: int) -> Loaded:
        name = self._index_name(number)
        loaded = self._loaded.get(name)
        if loaded is None:
            self._files.reads += 1
            loaded = self._read(name, number)
            unread, self.segments[number].unread = self.segments[number].unread, False
            if loaded.damages and self._damaged is not None:
                self._damaged(name, loaded.damages)
            if loaded.damages and unread and self._changed is not None:
                self._changed(name)
            self._loaded.put(name, loaded)
        return loaded

    def _read(self, name: str, number: int) -> Loaded:
        size = self.segments[number].index_size
        try:
            data = self._files.get(name).read_at(0, size)
        except FileNotFoundError:
            data = b""
        loaded = read_segment(data, self._queue_id, number)
        if len(data) < size:
            loaded.damages.append(Damage(len(data), size - len(data), "the file ends before"))
        return loaded

    def body(self, run: StoredRun) -> bytes:
        """The content of a run whose place is InBody. Raises Corrupt."""
        assert isinstance(run.where, InBody), f"the run at {run.first} is in {run.where}"
        number = self.number_of(run.first)
        if number in self._bodies:
            try:
                self.flush_bodies()
            except Exhausted:
                return self._buffered_body(number, run.where)
        return self._files.payload(self._body_name(number), run.where.offset, run.where.size)

    def _buffered_body(self, number: int, where: InBody) -> bytes:
        """A content there may be no room for on the disk."""
        parts = self._bodies[number]
        at = self.segments[number].body_size - sum(map(len, parts))
        for part in parts:
            if at == where.offset:
                return bytes(part)
            at += len(part)
        return self._files.payload(self._body_name(number), where.offset, where.size)

    def store_ids(self) -> Iterator[tuple[StoredRun, InStore]]:
        """The runs of this queue whose content is in the shared store."""
        for number, segment in list(self.segments.items()):
            if segment.in_store:
                loaded = self.load(number)
                for at, entry in enumerate(loaded.entries):
                    if entry[4] == IN_STORE:
                        run = loaded.run(at)
                        assert isinstance(run.where, InStore), f"{run.where} is no id of the store"
                        yield run, run.where

    # going

    def dead_segments(self, alive: Alive) -> list[int]:
        return [number for number in self.segments if self.is_dead(number, alive)]

    def is_dead(self, number: int, alive: Alive) -> bool:
        segment = self.segments.get(number)
        return segment is not None and not alive(segment.first, max(segment.first, segment.end))

    def delete(self, number: int) -> None:
        """Remove a segment's files. The caller syncs the directory, if somebody was promised that they are gone."""
        del self.segments[number]
        self.touched.discard(number)
        if not self.touched:
            self._touched_queues.pop(self._queue_id, None)
        if not self.segments:
            self._indexed.pop(self._queue_id, None)
        self._buffered -= sum(map(len, self._bodies.pop(number, [])))
        self._loaded.drop(self._index_name(number))
        self._files.delete(self._index_name(number))
        self._files.delete(self._body_name(number))

    def delete_all(self) -> None:
        """The queue is gone."""
        if not self.segments:
            return
        for number in list(self.segments):
            self.delete(number)
        disk = self._files.disk
        if not disk.list(self.directory):
            disk.remove_dir(self.directory)
        disk.sync_dir(names.CLASSIC_DIRECTORY)

    def _index_name(self, number: int) -> str:
        return names.index_segment(self.directory, number)

    def _body_name(self, number: int) -> str:
        return names.body_file(self.directory, number)


def _between(first: int, end: int, living: Sequence[Range]) -> list[Range]:
    """What lies between the ranges."""
    gaps, at = [], first
    for start, stop in [*living, (end, end)]:
        if at < start:
            gaps.append((at, start))
        at = stop
    return gaps
