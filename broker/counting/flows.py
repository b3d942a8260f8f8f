"""To which exchanges a session publishes, and into which queues that goes.

A target counts the messages that went its way, one addition for each run; that is folded into dictionaries when the target is
given up, or when somebody asks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from broker.routing.targets import Target

ROUTES_MAX = 1_000  # exchanges, and queues, of one session: a hostile client may name ever new ones
QUEUES_OF_TARGET_MAX = 100  # of a target with more it would take long to count each


@dataclass(slots=True)
class FlowCounts:
    """Messages of a session, or of several."""

    published: Counter[str] = field(default_factory=Counter)  # by exchange
    routed: Counter[str] = field(default_factory=Counter)  # by exchange: once for each queue
    into: Counter[tuple[str, str]] = field(default_factory=Counter)  # by exchange and queue

    def add(self, target: Target) -> None:
        count = target.published
        if target.exchange not in self.published and len(self.published) >= ROUTES_MAX:
            return
        self.published[target.exchange] += count
        self.routed[target.exchange] += count * target.queue_count
        if target.queue_count > QUEUES_OF_TARGET_MAX:
            return
        for _, queues in target.groups:
            for queue in queues:
                key = target.exchange, queue.record.name
                if key in self.into or len(self.into) < ROUTES_MAX:
                    self.into[key] += count


class Flows:
    """Of one session."""

    __slots__ = ("_folded",)

    def __init__(self) -> None:
        self._folded = FlowCounts()

    def fold(self, target: Target) -> None:
        """It is used no more, or for one message only."""
        if target.published:
            self._folded.add(target)
            target.published = 0

    def counts(self, in_use: Iterable[Target]) -> FlowCounts:
        for target in in_use:
            self.fold(target)
        return self._folded
