"""Settled messages that the queue has not dealt with yet: more than one entry may move.

One settle, or the end of one connection, can name 65,535 messages, each a row of its own. The first rows are dealt with by the
entry that named them, the others by the entries behind it, in the same order. Until then nothing else is handed out, so nothing
overtakes them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from enum import IntEnum

from quorum.stored import Stored


class Fate(IntEnum):
    """What becomes of them."""

    RETURNED = 0  # to the queue; a client may have seen them
    FAILED = 1  # to the queue; the delivery counts as failed
    UNSEEN = 2  # to the queue, as if they had never left it
    REJECTED = 3  # to the dead letters


class Returning:
    """In the order in which they were settled. `count` messages, with `size` bytes."""

    __slots__ = ("_rows", "count", "size")

    def __init__(self) -> None:
        self.count = 0
        self.size = 0
        self._rows: deque[tuple[Fate, Stored]] = deque()

    def __len__(self) -> int:
        """Rows."""
        return len(self._rows)

    def __iter__(self) -> Iterator[tuple[Fate, Stored]]:
        return iter(self._rows)

    def add(self, fate: Fate, messages: Iterable[Stored]) -> None:
        for stored in messages:
            self._rows.append((fate, stored))
            self.count += stored.length
            self.size += stored.size

    def take(self) -> tuple[Fate, Stored]:
        """The first row. There must be one."""
        fate, stored = self._rows.popleft()
        self.count -= stored.length
        self.size -= stored.size
        return fate, stored

    def clear(self) -> int:
        """Forget all; how many messages there were."""
        count = self.count
        self._rows.clear()
        self.count = self.size = 0
        return count
