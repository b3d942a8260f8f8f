"""What a consumer has been given and has not settled, by message id.

Ids ascend in the order of handing out, so do the times. Most is settled from the front, the rest is found by its id.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from quorum.fifo.stored import StoredMessages

_SLACK_MAX = 256  # used-up rows at the front are kept until it pays to move the rest


class HandedOut(NamedTuple):
    """Messages that were handed out together."""

    first_id: int
    stored: StoredMessages
    since: int  # ms

    @property
    def end(self) -> int:
        return self.first_id + self.stored.length


# From a tuple of all fields: without the call in Python that a NamedTuple makes itself, for each message that is handed out.
_handed_out: Callable[[tuple[int, StoredMessages, int]], HandedOut] = partial(tuple.__new__, HandedOut)


class CheckedOutTotal:
    """Sum over all that belong to it. A leader sends it with every answer, so it is kept up to date."""

    __slots__ = ("count", "size")

    def __init__(self) -> None:
        self.count = 0
        self.size = 0


class CheckedOut:
    """See the module. `count` messages, with `size` bytes."""

    __slots__ = ("_firsts", "_head", "_rows", "_total", "count", "size")

    def __init__(self) -> None:
        self.count = 0
        self.size = 0
        self._total = CheckedOutTotal()  # its own, until it belongs to one
        self._rows: list[HandedOut] = []
        self._firsts: list[int] = []  # ids of the same rows, to search in
        self._head = 0

    def __iter__(self) -> Iterator[HandedOut]:
        return iter(self._rows[self._head :])

    @property
    def since(self) -> int | None:
        """When the oldest were handed out."""
        return self._rows[self._head].since if self.count else None

    def belong_to(self, total: CheckedOutTotal) -> None:
        total.count += self.count
        total.size += self.size
        self._total = total

    def add(self, first_id: int, stored: StoredMessages, since: int) -> None:
        """`first_id` is above all ids that were here."""
        self._firsts.append(first_id)
        self._rows.append(_handed_out((first_id, stored, since)))
        size, length, total = stored.size, stored.length, self._total
        self.count += length
        self.size += size
        total.count += length
        total.size += size

    def take(self, first: int, length: int) -> list[StoredMessages]:
        """Take out what is held of these ids, in their order."""
        head = self._head
        if head < len(self._rows) and self._firsts[head] == first:
            stored = self._rows[head].stored
            if stored.length == length:
                self._drop(head, head + 1)
                self._account(stored.length, stored.size)
                return [stored]
        return self._take_anywhere(first, first + length)

    def take_until(self, since: int) -> list[HandedOut]:
        """Take out what was handed out then or before."""
        at = self._head
        while at < len(self._rows) and self._rows[at].since <= since:
            at += 1
        taken = self._rows[self._head : at]
        self._account_all([held.stored for held in taken])
        self._drop(self._head, at)
        return taken

    def take_all(self) -> list[StoredMessages]:
        taken = [held.stored for held in self]
        self._rows.clear()
        self._firsts.clear()
        self._total.count -= self.count
        self._total.size -= self.size
        self._head = self.count = self.size = 0
        return taken

    def from_id(self, first: int) -> Iterator[HandedOut]:
        """What is held of this id and those above."""
        rows = self._rows
        for at in range(max(self._head, bisect_right(self._firsts, first, self._head) - 1), len(rows)):
            held = rows[at]
            before = first - held.first_id
            if before <= 0:
                yield held
            elif before < held.stored.length:
                yield held._replace(first_id=first, stored=held.stored.part(before, held.stored.length - before))

    def _take_anywhere(self, first: int, end: int) -> list[StoredMessages]:
        rows = self._rows
        start = max(self._head, bisect_right(self._firsts, first, self._head) - 1)
        stop = bisect_left(self._firsts, end, start)
        whole = start < stop and first <= self._firsts[start] and rows[stop - 1].end <= end
        if whole:  # the case of many rows, so without a look at each
            taken = [held.stored for held in rows[start:stop]]
            self._drop(start, stop)
            self._account_all(taken)
            return taken
        taken = []
        left: list[HandedOut] = []
        for held in rows[start:stop]:
            first_id, stored, since = held
            skip = max(0, first - first_id)
            length = min(end - first_id, stored.length) - skip
            if length <= 0:
                left.append(held)
                continue
            if skip:
                left.append(HandedOut(first_id, stored.part(0, skip), since))
            behind = stored.length - skip - length
            if behind:
                left.append(HandedOut(first_id + skip + length, stored.part(skip + length, behind), since))
            part = stored if length == stored.length else stored.part(skip, length)
            taken.append(part)
            self._account(part.length, part.size)
        if left:
            rows[start:stop] = left
            self._firsts[start:stop] = [held.first_id for held in left]
        else:
            self._drop(start, stop)
        return taken

    def _account_all(self, gone: list[StoredMessages]) -> None:
        self._account(sum([stored.length for stored in gone]), sum([stored.size for stored in gone]))

    def _account(self, count: int, size: int) -> None:
        """So much is gone."""
        self.count -= count
        self.size -= size
        self._total.count -= count
        self._total.size -= size

    def _drop(self, start: int, stop: int) -> None:
        if start != self._head:
            del self._rows[start:stop]
            del self._firsts[start:stop]
            return
        self._head = stop
        if stop == len(self._rows):
            self._rows.clear()
            self._firsts.clear()
            self._head = 0
        elif stop > _SLACK_MAX and stop * 2 > len(self._rows):
            del self._rows[:stop]
            del self._firsts[:stop]
            self._head = 0
