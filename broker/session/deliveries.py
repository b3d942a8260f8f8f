"""What a session holds: messages that were delivered and are not settled yet, as ranges of delivery tags.

A range is one delivery: consecutive tags for consecutive messages of one slice. Ranges are in order of tags and do not
overlap. Acknowledging in order, one by one or many at once, takes ranges from the left or shortens the first; whatever
comes out of order splits a range.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter
from typing import TYPE_CHECKING

from broker.queues.queue_type import POSITION_UNKNOWN, BackReason, Slice

if TYPE_CHECKING:
    from broker.queues.consumer import Consumer
    from broker.queues.queue_type import Queue

# Used-up entries at the front are kept until it pays to move the rest.
COMPACT_AFTER = 512
_FIRST = attrgetter("first")


class Held:
    """The tags `first` up to, not including, `end` of one delivery. A get has no consumer."""

    __slots__ = ("back", "consumer", "end", "first", "origin", "piece")

    def __init__(self, piece: Slice, consumer: Consumer | None, origin: int, first: int, end: int) -> None:
        self.piece = piece  # as it was delivered
        self.consumer = consumer
        self.origin = origin  # the tag of the piece's first message
        self.first = first
        self.end = end
        self.back = BackReason.NOT_SAID  # why it is given back, if it is to be ready again

    @property
    def count(self) -> int:
        return self.end - self.first

    def slice(self) -> Slice:
        """These messages, as their queue wants them back."""
        piece = self.piece
        count = self.end - self.first
        if count == piece.count:
            piece.back = self.back
            return piece
        return Slice(
            piece.queue,
            piece.handle,
            piece.sequence + self.first - self.origin,
            count,
            piece.position if self.first == self.origin else POSITION_UNKNOWN,
            piece.exchange,
            piece.routing_key,
            piece.redelivered,
            piece.headers,
            None if piece.offset is None else piece.offset + self.first - self.origin,
            piece.taker,
            self.back,
        )

    def part(self, first: int, end: int) -> Held:
        return Held(self.piece, self.consumer, self.origin, first, end)


class Unacknowledged:
    """The ranges of one session."""

    __slots__ = ("_head", "_ranges", "count")

    def __init__(self) -> None:
        self.count = 0  # messages
        self._ranges: list[Held] = []
        self._head = 0  # ranges before it are used up

    def add(self, first: int, piece: Slice, consumer: Consumer | None) -> None:
        """A delivery whose tags begin at `first`, behind all that were given out before."""
        self._ranges.append(Held(piece, consumer, first, first, first + piece.count))
        self.count += piece.count

    def holds(self, tag: int) -> bool:
        index = self._find(tag)
        return index >= self._head and tag < self._ranges[index].end

    def _find(self, tag: int) -> int:
        """The last range that begins at or before the tag; before the head when there is none."""
        return bisect_right(self._ranges, tag, lo=self._head, key=_FIRST) - 1

    def of_queue(self, queue: Queue) -> list[Slice]:
        return [held.slice() for held in self._ranges[self._head :] if held.piece.queue is queue]

    def take_all(self) -> list[Held]:
        taken = self._ranges[self._head :]
        self._ranges, self._head, self.count = [], 0, 0
        return taken

    def take_up_to(self, last: int) -> list[Held] | None:
        """Everything up to and including this tag; None, and nothing is taken, if the tag is not held."""
        head = self._head
        if head < len(self._ranges) and self._ranges[head].first <= last < self._ranges[head].end:
            return self.take_range(self._ranges[head].first, last)
        index = self._find(last)
        if index < self._head or last >= self._ranges[index].end:
            return None
        held = self._ranges[index]
        taken = self._ranges[self._head : index]
        if last + 1 == held.end:
            taken.append(held)
            self._head = index + 1
        else:
            taken.append(self._shorten(index, last + 1))
            self._head = index
        for one in taken:
            self.count -= one.end - one.first
        self._compact()
        return taken

    def take_range(self, first: int, last: int) -> list[Held] | None:
        """These tags; None, and nothing is taken, if one of them is not held."""
        head = self._head
        if head < len(self._ranges):  # in order, as almost always
            held = self._ranges[head]
            if held.first == first and last < held.end:
                self.count -= last + 1 - first
                if last + 1 < held.end:
                    return [self._shorten(head, last + 1)]
                if head + 1 == len(self._ranges):  # all there was: with a prefetch of 1 it always is
                    self._ranges, self._head = [], 0
                else:
                    self._head = head + 1
                    self._compact()
                return [held]
        return self._take_anywhere(first, last)

    def _shorten(self, index: int, first: int) -> Held:
        """Begin a range later; returns what was cut off."""
        held = self._ranges[index]
        cut = held.part(held.first, first)
        held.first = first
        return cut

    def _take_anywhere(self, first: int, last: int) -> list[Held] | None:
        index = at = self._find(first)
        if index < self._head:
            return None
        taken: list[Held] = []
        expected = first
        while expected <= last:
            if at >= len(self._ranges) or not self._ranges[at].first <= expected < self._ranges[at].end:
                return None
            held = self._ranges[at]
            until = min(last + 1, held.end)
            taken.append(held.part(expected, until))
            expected = until
            at += 1
        before, after = self._ranges[index], self._ranges[at - 1]
        left = [before.part(before.first, first)] if before.first < first else []
        right = [after.part(last + 1, after.end)] if last + 1 < after.end else []
        self._ranges[index:at] = left + right
        self.count -= last + 1 - first
        return taken

    def put_back(self, taken: list[Held]) -> None:
        """What was taken, and is held after all. All of it at once: each time all ranges are put in order."""
        self._ranges = sorted([*self._ranges[self._head :], *taken], key=lambda held: held.first)
        self._head = 0
        self.count += sum(held.count for held in taken)

    def _compact(self) -> None:
        if self._head == len(self._ranges):
            self._ranges.clear()
            self._head = 0
        elif self._head > COMPACT_AFTER and self._head * 2 > len(self._ranges):
            del self._ranges[: self._head]
            self._head = 0


def marked(taken: list[Held], back: BackReason) -> list[Held]:
    """Why they are given back, if they are to be ready again."""
    for held in taken:
        held.back = back
    return taken
