"""A classic queue's records folded into lives.

A classic queue counts its messages in the order in which they came, its *sequences*: a life's place is the first sequence of
its run. The log says when and by whom messages were published, who was done with them and why, and what came back; when they
were handed out it says only of those that were still out at a tick of the node, where `history.level` is full. Records that
were written without history, or before there was any, say that messages are gone and no more.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from functools import partial

from analytics.fold.lives import BY_CONSUMERS, LifeState, Lives, PublishedRun
from broker.queues.queue_type import BackReason
from classic.store.log_records import Checkpoint, DoneReason, Published
from classic.stored_run import LEVEL_SHIFT
from native.sequence_set import SequenceSet

STATES = {
    DoneReason.NOT_SAID: LifeState.UNKNOWN,
    DoneReason.ACKNOWLEDGED: LifeState.ACKED,
    DoneReason.GOT: LifeState.GOT,
    DoneReason.SENT: LifeState.NO_ACK,
    DoneReason.REJECTED: LifeState.REJECTED,
    DoneReason.EXPIRED: LifeState.EXPIRED,
    DoneReason.MAXLEN: LifeState.MAXLEN,
    DoneReason.PURGED: LifeState.PURGED,
}
RETURNS = {
    BackReason.NOT_SAID: "returned",
    BackReason.REJECTED: "rejected",
    BackReason.NACKED: "nacked",
    BackReason.RECOVERED: "recovered",
    BackReason.CHANNEL_CLOSED: "channel closed",
    BackReason.CONNECTION_LOST: "connection lost",
    BackReason.TIMED_OUT: "consumer timeout",
    BackReason.NEVER_SEEN: "never seen",
}

Ranges = Iterable[tuple[int, int]]  # of sequences, from first to end
Piece = tuple[int, int, int]  # first sequence of a run, first message in it, how many


class ClassicQueueFold:
    """See the module. Records are to be taken in the order of the log. Times are ms, None where the log has none. An actor is
    its number, or what tells it from that of another process; 0: nobody."""

    def __init__(self, *, with_steps: bool = False) -> None:
        self.lives = Lives(with_steps=with_steps)
        self._firsts: list[int] = []  # of runs that go on, ascending; some that have ended are cut off now and then
        self._counts: list[int] = []
        self._over = SequenceSet()  # what has ended; a start after a crash may say again that it is settled

    def published(self, first: int, record: Published, at: int | None, process: tuple[str, int] | None = None) -> None:
        """A run whose first message has this sequence here. `process`: node and incarnation whose numbers its publishers have.
        Raises ValueError when the queue has given it away before."""
        index = bisect_right(self._firsts, first)  # those of lower priorities come before others, whenever they come
        before = self._firsts[index - 1] + self._counts[index - 1] if index else 0
        after = self._firsts[index] if index < len(self._firsts) else first + record.message_count
        if not before <= first <= first + record.message_count <= after:
            raise ValueError(f"sequence {first} was published twice")
        self._note_run(index, first, record.message_count)
        self.lives.published(first, 0, *_parts(record, at, process))

    def begin_at(self, checkpoint: Checkpoint) -> None:
        """What was published before and is not in it is over. Raises ValueError and ArithmeticError."""
        for sequence in checkpoint.next_sequences:
            self._over.add(sequence >> LEVEL_SHIFT << LEVEL_SHIFT, sequence)
        for ranges, out in ((checkpoint.ready_ranges, False), (checkpoint.out_ranges, True)):
            for first, end in ranges:
                self._over.remove(first, end)
            self._each(ranges, partial(self._find, out))

    def _find(self, out: bool, run: int, first: int, count: int) -> None:
        self.lives.found(run, 0, first, count, out=out)

    def handed_out(self, actor: object, ranges: Ranges, at: int | None) -> None:
        def hand_out(run: int, first: int, count: int) -> None:
            self.lives.no_more_out(run, 0, first, first + count, None)
            self.lives.handed_out(run, 0, first, count, at, actor)

        self._each(ranges, hand_out)

    def found_ready(self, ranges: Ranges, at: int | None) -> None:
        """What was out when the node was killed is ready behind that, and no other record says so."""
        for first, end in ranges:
            for index in range(max(0, bisect_right(self._firsts, first) - 1), bisect_left(self._firsts, end)):
                run = self._firsts[index]
                start, stop = max(first, run), min(end, run + self._counts[index])
                self.lives.no_more_out(run, 0, start - run, stop - run, at)

    def came_back(self, actor: object, reason: int, ranges: Ranges, at: int | None) -> None:
        why = RETURNS.get(BackReason(reason), "returned") if reason in _BACK_REASONS else "returned"

        def come_back(run: int, first: int, count: int) -> None:
            self.lives.was_out(run, 0, first, count, actor)
            self.lives.came_back(run, 0, first, count, why, at)

        self._each(ranges, come_back)

    def done(self, actor: object, reason: int, ranges: Ranges, at: int | None) -> None:
        state = STATES[DoneReason(reason)] if reason in _DONE_REASONS else LifeState.UNKNOWN

        def end(run: int, first: int, count: int) -> None:
            if state in BY_CONSUMERS:
                self.lives.was_out(run, 0, first, count, actor)
            self.lives.ended(run, 0, first, count, state, at, actor or None)
            self._over.add(run + first, run + first + count)

        self._each(ranges, end)

    def deleted(self, at: int | None) -> None:
        self.lives.all_ended(LifeState.DELETED, at)
        self._firsts, self._counts = [], []
        self._over.clear()

    # runs by sequence

    def _each(self, ranges: Ranges, do: Callable[[int, int, int], None]) -> None:
        for first, end in ranges:
            going_on = SequenceSet()
            going_on.add(first, end)
            for over in self._over.intersect(first, end):
                going_on.remove(*over)
            for one in going_on.ranges():
                for piece in self._pieces(*one):
                    do(*piece)
        self._forget_ended()

    def _pieces(self, first: int, end: int) -> list[Piece]:
        """Messages of this range, run by run. Where no run is known, there is one from now on."""
        pieces: list[Piece] = []
        index, at = max(0, bisect_right(self._firsts, first) - 1), first
        while at < end:
            start = self._firsts[index] if index < len(self._firsts) else end
            stop = start + self._counts[index] if index < len(self._firsts) else end
            if at < start:
                stop = min(start, end)
                self._note_run(index, at, stop - at)
                start = at
            if at < stop:
                pieces.append((start, at - start, min(stop, end) - at))
                at = min(stop, end)
            index += 1
        return pieces

    def _note_run(self, index: int, first: int, count: int) -> None:
        self._firsts.insert(index, first)
        self._counts.insert(index, count)

    def _forget_ended(self) -> None:
        ended = 0
        while ended < len(self._firsts) and not self.lives.has_run(self._firsts[ended], 0):
            ended += 1
        if ended > ENDED_KEPT or ended == len(self._firsts):
            del self._firsts[:ended], self._counts[:ended]


ENDED_KEPT = 256  # runs at the head that are over: cutting them off moves all the others
_BACK_REASONS, _DONE_REASONS = frozenset(BackReason), frozenset(DoneReason)


def _parts(record: Published, at: int | None, process: tuple[str, int] | None) -> list[PublishedRun]:
    """One for each publisher, or for each message that died in a place of its own."""
    origin = record.origin
    died_in = None if origin.death is None else tuple(origin.death)
    whole = PublishedRun(
        at,
        record.message_count,
        record.body_bytes,
        record.exchange,
        record.routing_key,
        priority=record.priority,
        expires_at=record.expires_at,
        confirm=origin.waited_for if origin.parts else None,
        died_in=died_in,  # type: ignore[arg-type]  # a Death is such a tuple
    )
    share = record.body_bytes / record.message_count
    if origin.deaths:
        one = whole._replace(messages=1, body_bytes=round(share))
        return [one._replace(died_in=tuple(death)) for death in origin.deaths]  # type: ignore[arg-type]
    if not origin.parts:
        return [whole]
    return [
        whole._replace(
            messages=part.message_count,
            body_bytes=round(share * part.message_count),
            actor=part.actor or None,
            publish_no=part.number or None,
            process=process if part.actor else None,  # type: ignore[arg-type]  # here a node has its name
        )
        for part in origin.parts
    ]
