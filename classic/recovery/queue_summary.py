"""A queue as a clean stop writes it down (classic/recovery/clean_stop.py), and as the next start takes it. Non-persistent
messages are left out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from classic.recovery.clean_stop import LevelSummary, QueueSummary
from classic.store.index_entries import PERSISTENT, blocks_of, unindexed_runs
from classic.stored_run import StoredRun

if TYPE_CHECKING:
    from classic.queue import ClassicQueue
    from classic.variable_queue import VariableQueue


def summary_of(queue: ClassicQueue) -> QueueSummary:
    return QueueSummary([_level_summary(queue, level) for level in queue.levels], queue.redelivered.ranges())


def _level_summary(queue: ClassicQueue, level: VariableQueue) -> LevelSummary:
    ready = level.ready.copy()
    for first, end in queue.transient.ranges():
        ready.remove(first, end)
    return LevelSummary(
        level.next_sequence,
        max(0, level.ready_bytes - _transient_bytes(queue, level)) if ready else 0,
        ready.ranges(),
        _persistent_blocks([*level.q4, *level.q3]),
        (level.delta_start, level.delta_end, level.delta_count) if level.delta_count else (0, 0, 0),
        _persistent_blocks([*level.q2, *level.q1]),
    )


def _transient_bytes(queue: ClassicQueue, level: VariableQueue) -> int:
    return sum(
        run.bytes_of(first, end)
        for run in [*level.runs(), *_transient_in_delta(queue, level)]
        if not run.persistent
        for first, end in level.ready.intersect(run.first, run.end)
    )


def _transient_in_delta(queue: ClassicQueue, level: VariableQueue) -> list[StoredRun]:
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


def _persistent_blocks(runs: Iterable[StoredRun]) -> list[bytes]:
    persistent = [run for run in runs if run.persistent]
    return [b"".join(block.parts()) for _, block in blocks_of(persistent, lambda _: 0)]


def restore(queue: ClassicQueue, summary: QueueSummary) -> None:
    """Give a queue that was just opened what the last stop wrote down."""
    for first, end in summary.redelivered:
        queue.redelivered.add(first, end)
    for level, noted in zip(queue.levels, summary.levels, strict=True):
        _restore_level(level, noted)


def _restore_level(level: VariableQueue, noted: LevelSummary) -> None:
    level.next_sequence = noted.next_sequence
    level.ready_bytes = noted.ready_bytes
    for first, end in noted.ready:
        level.ready.add(first, end)
    level.restore([run for block in noted.older for run in unindexed_runs(block)])
    start, end, _ = noted.delta
    count = sum(stop - first for first, stop in level.ready.intersect(start, end))
    if count:
        level.restore_delta(start, end, count)
    level.restore([run for block in noted.newer for run in unindexed_runs(block)])
