"""Gives a queue its runs back after a crash, when it is known which of its messages live.

Runs are in index segments, or in the log alone. A queue without segments whose runs fit in memory gets them as objects, in q3.
Any other one gets those of the log added to its index, as the bytes they are, and all of it is delta.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from classic.recovery.survivors import Survivors
from classic.store.index_entries import IN_LOG, Block, Fields, unindexed_runs
from classic.store.node_storage import NodeStorage
from classic.stored_run import LEVEL_SHIFT, InStore
from native.sequence_set import Range
from storage.wal.log_core import Location

if TYPE_CHECKING:
    from classic.queue import ClassicQueue
    from classic.variable_queue import VariableQueue


class Refill:
    """One queue."""

    def __init__(self, storage: NodeStorage, queue: ClassicQueue, survivors: Survivors) -> None:
        self._storage = storage
        self._queue = queue
        self._index = queue.backing.index
        self._survivors = survivors
        self._lowest: dict[VariableQueue, int] = {}  # where the first living run of each level begins

    def fill(self, logged: Sequence[Block]) -> None:
        """`logged` are the runs that the log has."""
        self._count_indexed()
        if self._index.segments or sum(block.count for block in logged) > self._queue.backing.runs_max:
            self._fill_index(logged)
        else:
            self._fill_memory(logged)

    def _count_indexed(self) -> None:
        """Bytes and references of living messages that the index has the contents of."""
        store = self._storage.store
        for number in sorted(self._index.segments):
            loaded = self._index.load(number)
            for at, fields in enumerate(loaded.entries):
                living = self._queue.alive_in(fields[0], fields[0] + fields[1])
                if fields[4] == IN_LOG or not living:
                    continue
                run = loaded.run(at)
                level = self._queue.level_at(run.first)
                self._note_lowest(level, run.first)
                level.ready_bytes += sum(run.bytes_of(first, end) for first, end in living)
                if isinstance(run.where, InStore) and not store.refer(run.where):
                    self._storage.found(
                        f"queue '{self._queue.record.name}': the content of messages {run.first} to {run.end - 1} is lost"
                    )

    def _fill_memory(self, logged: Sequence[Block]) -> None:
        runs = [run for block in logged for run in unindexed_runs(b"".join(block.parts()))]
        runs.sort(key=lambda run: run.first)
        for level in self._queue.levels:
            mine = [run for run in runs if run.first >> LEVEL_SHIFT == level.base >> LEVEL_SHIFT]
            for run in mine:
                living = level.ready.intersect(run.first, run.end)
                level.ready_bytes += sum(run.bytes_of(first, end) for first, end in living)
                if isinstance(run.where, Location):
                    self._count_live(run.where.file_number, living)
            level.restore(mine)

    def _fill_index(self, logged: Sequence[Block]) -> None:
        for block in logged:
            if block.count:
                self._write_living(block)
        for level in self._queue.levels:
            if level.ready:
                level.restore_delta(self._lowest[level], level.ready.last() + 1, level.ready.count)

    def _write_living(self, block: Block) -> None:
        """The entries of the block that live and are not in the index yet, by segment."""
        chosen = block.like()
        number = lowest = highest = -1
        level = self._queue.levels[0]
        for at, fields in enumerate(block.fields()):
            first, count = fields[0], fields[1]
            living = self._survivors.living.intersect(first, first + count)
            if not living or living[0][0] in self._survivors.moved:  # not `first`: what was settled was not moved out
                continue
            if self._index.number_of(first) != number:
                if chosen.count:
                    self._index.write_block(number, chosen, lowest, highest)
                chosen, number, lowest = block.like(), self._index.number_of(first), first
                level = self._queue.level_at(first)
            chosen.copy(block, at)
            highest = first + count
            self._note_lowest(level, first)
            level.ready_bytes += _living_bytes(fields, living)
            self._count_live(fields[9], living)
        if chosen.count:
            self._index.write_block(number, chosen, lowest, highest)

    def _count_live(self, file_number: int, living: Sequence[Range]) -> None:
        live = self._storage.live
        live[file_number] = live.get(file_number, 0) + sum(end - first for first, end in living)

    def _note_lowest(self, level: VariableQueue, first: int) -> None:
        """What an unwritten settlement brings back from the log may lie before what the index has."""
        self._lowest[level] = min(first, self._lowest.get(level, first))


def _living_bytes(fields: Fields, living: Sequence[Range]) -> int:
    """Body bytes of the living messages of an entry; an estimate when some of the run do not live."""
    return fields[11] * sum(end - first for first, end in living) // fields[1]
