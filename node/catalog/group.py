"""The metadata group's member on this node: who leads it, who votes, and whether enough of these can be reached."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from broker.catalog.commands.metadata_entry import METADATA_GROUP
from raft.core.errors import NotLeader
from raft.core.messages import NodeId, node_of
from raft.core.status import Status
from raft.driver import Driver
from raft.groups import NoSuchGroup
from raft.requests import OnRead, OnResults


class CatalogGroups(Protocol):
    """What is needed of raft/groups.py."""

    node: NodeId

    def driver(self, group: int) -> Driver: ...

    def propose(self, group: int, commands: Sequence[bytes], on_results: OnResults) -> None: ...

    def read(self, group: int, on_read: OnRead) -> None: ...

    def trusts(self, node: NodeId) -> bool: ...


class MetadataGroup:
    """There may be no member for a while, when it has lost something and is being replaced."""

    def __init__(self, groups: CatalogGroups, disk_nodes: Callable[[], Sequence[NodeId]]) -> None:
        """`disk_nodes`: as the catalog says, for a member that does not know yet who votes."""
        self._groups = groups
        self._disk_nodes = disk_nodes

    @property
    def leads(self) -> bool:
        return self.leader()[0] == self._groups.node

    def status(self) -> Status | None:
        try:
            return self._groups.driver(METADATA_GROUP).core.status()
        except NoSuchGroup:
            return None

    def leader(self) -> tuple[NodeId, int]:
        """The node that leads, 0 if nobody is known to, and the term."""
        try:
            standing = self._groups.driver(METADATA_GROUP).standing
        except NoSuchGroup:
            return 0, 0
        return node_of(standing.leader), standing.term

    def propose(self, commands: Sequence[bytes], on_results: OnResults) -> None:
        try:
            self._groups.propose(METADATA_GROUP, commands, on_results)
        except NoSuchGroup:
            on_results(None, NotLeader(0))

    def read(self, on_read: OnRead) -> None:
        """Be told when the catalog here has everything that was committed before."""
        try:
            self._groups.read(METADATA_GROUP, on_read)
        except NoSuchGroup:
            on_read(NotLeader(0))

    def voters(self) -> Sequence[NodeId]:
        status = self.status()
        voters = status.membership.voters if status is not None else ()
        return [node_of(member) for member in voters] or self._disk_nodes()

    def trusts(self, node: NodeId) -> bool:
        """Whether it can be reached, as far as we know."""
        return self._groups.trusts(node)

    def missing(self) -> Sequence[NodeId]:
        """The voters that cannot be reached, if the others are no majority; else none."""
        voters = self.voters()
        missing = [node for node in voters if node != self._groups.node and not self._groups.trusts(node)]
        return missing if 2 * (len(voters) - len(missing)) <= len(voters) else ()
