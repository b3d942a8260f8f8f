"""What the leader's node does for any group: it compares the members, and has the catalog name those that the group has."""

from __future__ import annotations

from collections.abc import Callable

from raft.core.membership import members_of
from raft.core.messages import NodeId
from replicated.comparison import Comparison
from replicated.ports import CatalogPorts, QueuePorts
from replicated.queue import ReplicatedQueue
from replicated.verdicts import Verdicts
from storage.interval import Interval

RECORD_MS = 2_000  # how often the record is compared with the membership


class LeaderDuties:
    """One of this node. `begin` it, then `end` it."""

    def __init__(
        self,
        queue: ReplicatedQueue,
        ports: QueuePorts,
        catalog: CatalogPorts,
        verdicts: Verdicts,
        propose_upgrade: Callable[[int], None],
    ) -> None:
        driver = queue.route.driver
        assert driver is not None, f"{queue.record.name} is led without a driver"
        self.comparison = Comparison(queue, ports, verdicts, propose_upgrade)
        self._queue = queue
        self._driver = driver
        self._catalog = catalog
        self._wall_ms = ports.wall_ms
        self._record_checks = Interval(RECORD_MS)

    def begin(self) -> None:
        self.comparison.look(self._wall_ms())

    def end(self) -> None:
        self.comparison.end()

    def check(self, now: int) -> None:
        """Called about once a second."""
        if self._record_checks.due(now):
            self.check_record()
        self.comparison.look(now)

    def check_record(self) -> None:
        """The catalog is told of changes of the membership when they are committed. It may lag behind, never be ahead."""
        status, record = self._driver.core.formation(), self._queue.record
        members = tuple(sorted(members_of(status.membership)))
        anew = status.formed < record.formed and self._catalog.alone()  # what the sole replica has left is what counts
        if status.change_pending or members == tuple(sorted(record.members)):
            return
        if anew or status.formed >= record.formed:
            self._catalog.set_members(record, members, status.formed, anew)

    def link_went(self, node: NodeId) -> None:
        self.comparison.link_went(node)
