"""Settled messages that the queue has not dealt with yet: more than one entry may move.

One settle, or the end of one connection, can name 65,535 messages, each a row of its own. The first rows are dealt with by the
entry that named them, the others by the entries behind it, in the same order. Until then nothing else is handed out, so nothing
overtakes them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from enum import IntEnum

from quorum.fifo.stored import StoredMessages


class Fate(IntEnum):
    """What becomes of them."""

    RETURNED = 0  # to the queue; a client may have seen them
    FAILED = 1  # to the queue; the delivery counts as failed
    UNSEEN = 2  # to the queue, as if they had never left it
    REJECTED = 3  # to the dead letters


def is_for_dead_letters(fate: Fate, stored: StoredMessages, delivery_limit: int | None) -> bool:
    if fate is Fate.FAILED and delivery_limit is not None:
        return stored.delivery_count >= delivery_limit
    return fate is Fate.REJECTED


class Returning:
    """In the order in which they were settled. `count` messages, with `size` bytes."""

    __slots__ = ("_rows", "count", "size")

    def __init__(self) -> None:
        self.count = 0
        self.size = 0
        self._rows: deque[tuple[Fate, StoredMessages]] = deque()

    def __len__(self) -> int:
        """Rows."""
        return len(self._rows)

    def __iter__(self) -> Iterator[tuple[Fate, StoredMessages]]:
        return iter(self._rows)

    def add(self, fate: Fate, messages: Sequence[StoredMessages]) -> None:
        self._rows.extend([(fate, stored) for stored in messages])
        self.count += sum([stored.length for stored in messages])
        self.size += sum([stored.size for stored in messages])

    def take(self) -> tuple[Fate, StoredMessages]:
        """The first row. There must be one."""
        fate, stored = self._rows.popleft()
        self.count -= stored.length
        self.size -= stored.size
        return fate, stored

    def purge(self, delivery_limit: int | None) -> int:
        """Forget those that would be ready again, not those that are for the dead letters. How many messages went."""
        before, rows = self.count, self._rows
        self._rows = deque()
        self.count = self.size = 0
        for fate, stored in rows:
            if is_for_dead_letters(fate, stored, delivery_limit):
                self.add(fate, (stored,))
        return before - self.count
