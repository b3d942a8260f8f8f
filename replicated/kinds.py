"""The replicated queues of all kinds of a node, for whoever does the same with all of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Protocol

from broker.records import QueueRecord
from replicated.administration import Administration
from replicated.letters import MemberReport
from replicated.local_members import QUEUE_GROUPS
from replicated.queue import ReplicatedQueue


class ReplicatedKind(Protocol):
    """One kind: quorum/driver.py, stream/driver.py."""

    @property
    def name(self) -> str: ...

    @property
    def queues(self) -> Mapping[int, Any]:
        """By group, those that are open."""

    @property
    def led(self) -> Collection[Any]:
        """Those that this node leads."""

    @property
    def administration(self) -> Administration[Any]: ...

    def report(self, queue: Any) -> MemberReport | None:
        """How the queue is, for nodes without a member. None: nor has this one."""

    def reported(self, queue: Any, told: MemberReport) -> None:
        """What another node has said of a queue that has no member here."""


class ReplicatedKinds:
    """See the module."""

    def __init__(self, *kinds: ReplicatedKind) -> None:
        self._kinds = {kind.name: kind for kind in kinds}

    def __contains__(self, kind: str) -> bool:
        return kind in self._kinds

    def __iter__(self) -> Iterator[ReplicatedQueue]:
        """All that are open."""
        for kind in self._kinds.values():
            yield from kind.queues.values()

    def led(self) -> list[ReplicatedQueue]:
        """Those that this node leads."""
        return [queue for kind in self._kinds.values() for queue in kind.led]

    def find(self, record: QueueRecord) -> ReplicatedQueue | None:
        """None: it is not open on this node, or of another kind."""
        kind = self._kinds.get(record.kind)
        return kind.queues.get(QUEUE_GROUPS + record.id) if kind is not None else None

    def report(self, group: int) -> MemberReport | None:
        """How the queue of this group is; None: it has no member here."""
        found = ((kind, kind.queues[group]) for kind in self._kinds.values() if group in kind.queues)
        return next((kind.report(queue) for kind, queue in found), None)

    def reported(self, queue: ReplicatedQueue, told: MemberReport) -> None:
        self._kinds[queue.record.kind].reported(queue, told)

    def administration_of(self, queue: ReplicatedQueue) -> Administration[Any]:
        return self._kinds[queue.record.kind].administration
