"""A queue as its files see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from broker.pending import Pending
from broker.records import QueueRecord
from classic.variable_queue import VariableQueue
from native.sequence_set import Range, SequenceSet


class QueueFiles(Protocol):
    """Its own part of what is on disk: classic/store/backing.py."""

    @property
    def promised(self) -> list[tuple[int, Pending[int], int]]:
        """Purges that are not durable yet: ticket, answer, how many messages."""

    def delete(self, queue: StoredQueue) -> None:
        """The queue is deleted, and its files with it; later, when it cannot be read now which contents it needed."""


class StoredQueue(Protocol):
    """See the module."""

    record: QueueRecord
    named_in: int  # the last file of the log that says what it is called
    transient: SequenceSet  # messages that do not outlive the node, of a queue that does

    @property
    def deleted(self) -> bool: ...

    @property
    def backing(self) -> QueueFiles: ...

    @property
    def levels(self) -> Sequence[VariableQueue]: ...

    @property
    def out(self) -> SequenceSet:
        """Messages that consumers hold."""

    @property
    def is_outrun(self) -> bool:
        """Whether publishers should pause, for the queue grows faster than it is trimmed."""

    def alive_in(self, first: int, end: int) -> list[Range]:
        """Which messages from `first` on and before `end` live, as ranges in order."""

    def tick(self, now: int, pressure: float) -> bool:
        """Measure rates, and let go of what may not stay in memory. False when nothing goes on here any more."""
