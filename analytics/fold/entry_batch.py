"""Entries of a replicated log that follow on one another, as one node has them: most of a log, and what is the same for all is
looked at once.

They are commands of one term, all durable or none. Each has the index behind that of the one before, and was written with it or
later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from analytics.queue_events import QueueEvent

Source = tuple[str, bool]  # a node, and whether its segments: what it moved out of its log it does not replace there


@dataclass(frozen=True, slots=True)
class EntryBatch:
    """See the module."""

    first: QueueEvent
    data: list[bytes]  # of each, as are those below
    sizes: list[int]
    written: list[int]

    @property
    def queue(self) -> int:
        return self.first.queue

    @property
    def kind(self) -> int:
        return self.first.kind

    @property
    def place(self) -> int:
        return self.first.place

    @property
    def term(self) -> int:
        return self.first.term

    @property
    def source(self) -> Source:
        return self.first.node, self.first.written < 0

    def event(self, nth: int) -> QueueEvent:
        """But for the time of the mark before it, which no fold of entries looks at."""
        return self.first._replace(
            place=self.place + nth, data=self.data[nth], size=self.sizes[nth], written=self.written[nth]
        )

    def events(self, start: int = 0) -> Iterator[QueueEvent]:
        """From this one of them on."""
        return map(self.event, range(start, len(self.data)))


Told = QueueEvent | EntryBatch


def events_of(told: Iterable[Told]) -> Iterator[QueueEvent]:
    """One by one."""
    for one in told:
        if isinstance(one, EntryBatch):
            yield from one.events()
        else:
            yield one
