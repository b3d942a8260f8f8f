"""What one kind of replicated queue on a node is made of, put together.

    busy             the queues that something is to be done for
    members          this node's members of their groups, and `departures`: when one that is not named any more leaves
    administration   what operators ask, from any node
    verdicts         comparison of members
    letters          of other nodes, which reach all of these once `serve` was called

A driver (quorum/driver.py, stream/driver.py) adds what is its kind's own: the machine, the queue, and its letters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from broker.actors import LogActor
from raft.core.messages import NodeId
from raft.core.settings import Settings
from raft.driver import SnapshotRules
from raft.store.replicas import NewReplica
from replicated.administration import Administration
from replicated.busy_queues import BusyQueues
from replicated.departures import Departures
from replicated.local_members import KindOfMember, LocalMembers, MakeMember
from replicated.peer_letters import KindOfLetters, PeerLetters
from replicated.ports import Calls, CatalogPorts, MemberStores, Owners, QueueLoop, QueuePorts, RaftGroups, nobody
from replicated.queue import QueueReports, ReplicatedQueue
from replicated.verdicts import Verdicts
from storage.history.reader_progress import ReaderProgressLog

EAGER = 4.0  # of the member on the node where its queue was declared; see raft/core/settings.py

Q = TypeVar("Q", bound=ReplicatedQueue)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostingNode:
    """A node, as all kinds of replicated queues need it."""

    name: str
    number: NodeId
    incarnation: int
    disk_id: int  # of the members that it founds
    groups: RaftGroups
    owners: Owners
    store: MemberStores
    calls: Calls
    loop: QueueLoop
    wall_ms: Callable[[], int]
    monotonic: Callable[[], float]
    new_replica: NewReplica
    catalog: CatalogPorts
    actor_number: Callable[[LogActor], int] = nobody  # as this node's log names them; 0: it does not
    reader_progress: ReaderProgressLog | None = None  # None: the log does not say how far readers of streams are
    reports: QueueReports = field(default_factory=QueueReports)
    settings: Settings = field(default_factory=Settings)
    snapshot_rules: SnapshotRules = field(default_factory=SnapshotRules)

    def ports(self, topic: int) -> QueuePorts:
        """Of the kind with this topic in `calls`."""
        return QueuePorts(
            self.number, self.incarnation, topic, self.groups, self.owners, self.calls, self.loop, self.wall_ms,
            self.monotonic, self.actor_number,
        )  # fmt: skip


class KindParts(Generic[Q]):
    """See the module. `check` it about once a second."""

    def __init__(
        self,
        kind: str,
        node: HostingNode,
        ports: QueuePorts,
        queues: dict[int, Q],
        make_member: MakeMember[Q],
        newest_version: Callable[[], int],
    ) -> None:
        """`queues`: by group, those that are open."""
        self.busy = BusyQueues[Q](node.loop)
        self.verdicts = Verdicts(ports, node.store, newest_version, node.reports.on_diverged)
        self.members = LocalMembers[Q](
            KindOfMember(kind, make_member, self._settings_of, node.snapshot_rules),
            queues,
            node.disk_id,
            ports=ports,
            store=node.store,
            catalog=node.catalog,
            new_replica=node.new_replica,
            reports=node.reports,
            on_leading=self._leading_changed,
            on_unnamed=lambda queue: self.departures.begin(queue),
        )
        self.administration = Administration[Q](ports, node.catalog.name_of, self.members.promise)
        self.departures = Departures(ports, self.members, node.catalog.incarnation_of, self.administration.figures)
        self._node = node
        self._ports = ports
        self._queues = queues

    def serve(self, letters: KindOfLetters[Q], on_refused: Callable[[Q, str], None]) -> None:
        """From now on other nodes are heard. `on_refused` is told what they asked to have proposed and was not, and why."""
        self.letters = PeerLetters(
            letters,
            self._queues,
            ports=self._ports,
            administration=self.administration,
            verdicts=self.verdicts,
            entry_bytes_max=self._node.settings.entry_bytes_max,
            on_refused=on_refused,
        )
        calls = self._node.calls
        calls.serve(self._ports.topic, self.letters.heard)
        calls.on_link(self.busy.link_changed)
        calls.on_writable(self.busy.writable)

    def forget(self, queue: Q) -> None:
        """It is deleted."""
        self.members.forget(queue)
        del self._queues[queue.group]
        self.busy.forget(queue)
        self.departures.forget(queue)

    def check(self) -> None:
        self.departures.tick()
        self.members.begin_what_was_put_off()

    def _leading_changed(self, queue: Q) -> None:
        self.busy.leading_changed(queue)
        if queue.route.leads and not queue.deleted:
            self._node.reports.on_leads(queue.record)

    def _settings_of(self, queue: Q) -> Settings:
        """Where the queue was declared its member usually leads: its first clients are there."""
        at_home = queue.record.home == self._node.name
        return replace(self._node.settings, eagerness=EAGER) if at_home else self._node.settings
