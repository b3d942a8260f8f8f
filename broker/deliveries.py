"""What a session holds: messages that were delivered and are not settled yet, as ranges of delivery tags.

A range is one delivery: consecutive tags for consecutive messages of one slice. Ranges are in order of tags and do not overlap.
Acknowledging in order, one by one or many at once, takes ranges from the left or shortens the first; whatever comes out
of order splits a range.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from broker.queue_type import Slice

if TYPE_CHECKING:
    from broker.consumer import Consumer

# Entries in front of this many that are used up are kept until it pays to move the rest.
COMPACT_AFTER = 512
POSITION_UNKNOWN = -1


class Held:
    """One delivery, or what is left of it. A get has no consumer."""

    __slots__ = ("consumer", "first", "piece")

    def __init__(self, first: int, piece: Slice, consumer: Consumer | None) -> None:
        self.first = first
        self.piece = piece
        self.consumer = consumer

    @property
    def end(self) -> int:
        return self.first + self.piece.count


def part(held: Held, start: int, end: int) -> Held:
    """The tags from start up to, not including, end."""
    piece = held.piece
    if start == held.first and end == held.end:
        return held
    position = piece.position if start == held.first else POSITION_UNKNOWN
    smaller = Slice(
        piece.queue,
        piece.handle,
        piece.sequence + (start - held.first),
        end - start,
        position,
        piece.exchange,
        piece.routing_key,
        piece.redelivered,
        piece.headers,
    )
    return Held(start, smaller, held.consumer)


class Unacknowledged:
    """The ranges of one session."""

    __slots__ = ("_entries", "_head", "count")

    def __init__(self) -> None:
        self.count = 0  # messages
        self._entries: list[Held] = []
        self._head = 0  # entries before it are used up

    def add(self, first: int, piece: Slice, consumer: Consumer | None) -> None:
        assert not self._entries or self._head == len(self._entries) or self._entries[-1].end <= first
        self._entries.append(Held(first, piece, consumer))
        self.count += piece.count

    def holds(self, tag: int) -> bool:
        index = bisect_right(self._entries, tag, lo=self._head, key=lambda held: held.first) - 1
        return index >= self._head and tag < self._entries[index].end

    def put_back(self, taken: list[Held]) -> None:
        """What was taken, and is held after all."""
        self._entries = sorted([*self._entries[self._head :], *taken], key=lambda held: held.first)
        self._head = 0
        self.count += sum(held.piece.count for held in taken)

    def take_up_to(self, last: int) -> list[Held] | None:
        """Everything up to and including this tag; None, and nothing is taken, if the tag is not held."""
        if not self.holds(last):
            return None
        taken = []
        entries, head = self._entries, self._head
        while head < len(entries):
            held = entries[head]
            if held.end <= last + 1:
                taken.append(held)
                head += 1
                continue
            if held.first <= last:
                taken.append(part(held, held.first, last + 1))
                entries[head] = part(held, last + 1, held.end)
            break
        self._head = head
        self.count -= sum(held.piece.count for held in taken)
        self._compact()
        return taken

    def take_all(self) -> list[Held]:
        taken = self._entries[self._head :]
        self._entries, self._head, self.count = [], 0, 0
        return taken

    def take_range(self, first: int, last: int) -> list[Held] | None:
        """These tags; None, and nothing is taken, if one of them is not held."""
        index = bisect_right(self._entries, first, lo=self._head, key=lambda held: held.first) - 1
        taken: list[Held] = []
        at, expected = index, first
        while expected <= last:
            if (
                at < self._head
                or at >= len(self._entries)
                or not self._entries[at].first <= expected < self._entries[at].end
            ):
                return None
            held = self._entries[at]
            until = min(last + 1, held.end)
            taken.append(part(held, expected, until))
            expected = until
            at += 1
        before, after = self._entries[index], self._entries[at - 1]
        left = [part(before, before.first, first)] if before.first < first else []
        right = [part(after, last + 1, after.end)] if last + 1 < after.end else []
        if index == self._head and not left and not right:
            self._head = at
            self._compact()
        else:
            self._entries[index:at] = left + right
        self.count -= last - first + 1
        return taken

    def take_consumer(self, consumer: Consumer) -> list[Held]:
        """What one consumer holds."""
        held = self._entries[self._head :]
        taken = [one for one in held if one.consumer is consumer]
        self._entries, self._head = [one for one in held if one.consumer is not consumer], 0
        self.count -= sum(one.piece.count for one in taken)
        return taken

    def _compact(self) -> None:
        if self._head == len(self._entries):
            self._entries.clear()
            self._head = 0
        elif self._head > COMPACT_AFTER and self._head * 2 > len(self._entries):
            del self._entries[: self._head]
            self._head = 0
