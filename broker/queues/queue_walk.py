"""All open queues, gone through while others come and go: without a copy, which of 100,000 queues takes 20 ms in one turn.

A dict cannot be gone through while it changes, and a tuple of its values touches each queue when it is made, when it is let go
of, and when the garbage collector comes by.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.queues.open_queue import OpenQueue
from broker.queues.queue_type import Queue

EMPTY_PLACES_MIN = 1_000  # fewer are left as they are


class QueueWalk:
    """Queues in the order in which they were opened."""

    def __init__(self) -> None:
        self._places: list[OpenQueue | None] = []  # None: it was closed
        self._empty = 0

    def __iter__(self) -> Iterator[Queue]:
        """Those that are open now. What is closed meanwhile may come all the same, as long as many are closed."""
        places = self._places
        for at in range(len(places)):
            found = places[at]
            if found is not None:
                yield found.queue

    def add(self, opened: OpenQueue) -> None:
        opened.place = len(self._places)
        self._places.append(opened)

    def remove(self, closed: OpenQueue) -> None:
        self._places[closed.place] = None
        self._empty += 1
        if self._empty >= EMPTY_PLACES_MIN and self._empty * 2 > len(self._places):
            self._close_ranks()

    def _close_ranks(self) -> None:
        """In another list: walks that have begun go on in the one that they know."""
        staying = [one for one in self._places if one is not None]
        for place, one in enumerate(staying):
            one.place = place
        self._places, self._empty = [*staying], 0
