"""What a queue has, as far as its records in the log tell: for CLASSIC_CHECKPOINT (log_records.py).

A reader that begins there knows what one knows that has read everything before. So messages that have left since the last tick,
of which the log is not told yet, are in it, and what came back since then is out: their records come behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from classic.store.log_records import CHECKPOINT_RANGES_MAX, Checkpoint, DoneReason
from classic.store.stored_queue import StoredQueue
from native.sequence_set import Range, SequenceSet

Untold = Iterable[tuple[int, SequenceSet]]  # a DoneReason, and messages that have left for it
FROM_READY = frozenset((DoneReason.EXPIRED, DoneReason.MAXLEN, DoneReason.PURGED))


def checkpoint_of(queue: StoredQueue, untold: Untold = (), back: Sequence[SequenceSet] = ()) -> Checkpoint:
    """`untold` and `back`: what has left and what came back, and the log does not know of."""
    levels = queue.levels
    sequences = [level.next_sequence for level in levels]
    ready, out = [level.ready for level in levels], [queue.out]
    for reason, left in untold:
        (ready if reason in FROM_READY else out).append(left)
    if sum(one.range_count for one in (*ready, *out, *back, queue.transient)) > CHECKPOINT_RANGES_MAX:
        transient_out = sum(_count_in(queue.transient, one) for one in queue.out.ranges()) if queue.transient else 0
        kept_out = _count(out) - transient_out
        kept_ready = _count(ready) - (queue.transient.count - transient_out)
        return Checkpoint(queue.record.id, kept_ready, kept_out, sequences, [], [])
    ready_ranges, out_ranges = _without((queue.transient, *back), ready), _without((queue.transient,), (*out, *back))
    return Checkpoint(
        queue.record.id, _messages(ready_ranges), _messages(out_ranges), sequences, ready_ranges, out_ranges
    )


def _count(sets: Iterable[SequenceSet]) -> int:
    return sum(one.count for one in sets)


def _count_in(messages: SequenceSet, within: Range) -> int:
    return _messages(messages.intersect(*within))


def _messages(ranges: Iterable[Range]) -> int:
    return sum(end - first for first, end in ranges)


def _without(others: Iterable[SequenceSet], sets: Iterable[SequenceSet]) -> list[Range]:
    """What is in one of the sets and in none of the others, in order."""
    found = SequenceSet()
    for one in sets:
        for first, end in one.ranges():
            found.add(first, end)
    for other in others:
        for first, end in other.ranges():
            found.remove(first, end)
    return found.ranges()
