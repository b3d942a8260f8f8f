"""The part of the catalog that says which nodes there are, and what goes with a node or with a process of one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace

from broker.catalog.commands import catalog_commands as commands
from broker.catalog.parts.catalog_part import CatalogPart
from broker.catalog.parts.disk_lives import FIRST_LIFE, life_behind
from broker.errors import NotFound, PreconditionFailed
from broker.names import check_name
from broker.records import NODE_KINDS, NodeRecord, QueueRecord


class CatalogNodes(CatalogPart):
    """Numbers of nodes are never given again, and a disk node is always left: without one nobody would keep the catalog."""

    version: int
    cluster_id: str  # empty until the cluster is founded
    next_node_number: int
    nodes: dict[str, NodeRecord]

    def node_of_number(self, number: int) -> NodeRecord | None:
        return next((record for record in self.nodes.values() if record.number == number), None)

    # what the rest of the catalog does

    @abstractmethod
    def _agree_on_limits(self, limits: Mapping[str, int]) -> None: ...

    @abstractmethod
    def remove_queues(self, concerned: Callable[[QueueRecord], bool]) -> list[QueueRecord]: ...

    @abstractmethod
    def _remove_transient_exchanges(self) -> None: ...

    @abstractmethod
    def _forget_claims(self, node: str) -> None: ...

    # commands

    def set_cluster_id(self, command: commands.SetClusterId) -> str:
        if self.cluster_id not in ("", command.id):
            raise PreconditionFailed(f"this cluster has the id {self.cluster_id}, and cannot be {command.id}")
        if not command.id:
            raise PreconditionFailed("a cluster's id is not empty")
        if not self.cluster_id:
            self.cluster_id = command.id
            self.version += 1
        return self.cluster_id

    def add_node(self, command: commands.AddNode) -> NodeRecord:
        wish = command.record
        check_name("node", wish.name)
        _check_kind_of_node(wish)
        current = self.nodes.get(wish.name)
        if current is not None and current.disk_id == wish.disk_id:
            return current
        if current is not None:
            if wish.disk_id < current.disk_id:
                raise PreconditionFailed(
                    f"node '{wish.name}' wants to come back on a disk that was begun with before the one that it had last: its "
                    f"clock is set back, or was ahead then, or the directory is an old one; set the clock, and start it with "
                    f"an empty directory, or forget the node first, and it joins as a new one"
                )
            self._check_disk_is_left(wish)
            return self._keep_node(replace(wish, number=current.number, incarnation=current.incarnation))
        record = self._keep_node(replace(wish, number=self.next_node_number))
        self.next_node_number += 1
        return record

    def join_node(self, command: commands.JoinNode) -> NodeRecord:
        wish = command.record
        check_name("node", wish.name)
        _check_kind_of_node(wish)
        if not command.joiner:
            raise PreconditionFailed(f"node '{wish.name}' does not say which process of it asks to join")
        current = self.nodes.get(wish.name)
        if current is None:
            number, disk_id, incarnation = self.next_node_number, FIRST_LIFE, 0
            self.next_node_number += 1
        elif current.joiner == command.joiner:
            return current
        elif command.incarnation <= last_incarnation(current):
            raise PreconditionFailed(
                f"a later process of node '{wish.name}' was started than the one that wants to join"
            )
        else:
            self._check_disk_is_left(wish)
            number, disk_id, incarnation = current.number, life_behind(current.disk_id), current.incarnation
        granted = replace(wish, number=number, disk_id=disk_id, incarnation=incarnation)
        return self._keep_node(replace(granted, joiner=command.joiner, joined=command.incarnation))

    def put_node(self, command: commands.PutNode) -> NodeRecord:
        wish = command.record
        current = self._existing_node(wish.name)
        _check_kind_of_node(wish)
        self._check_disk_is_left(wish)
        return self._keep_node(
            replace(current, address=wish.address, kind=wish.kind, zone=wish.zone, draining=wish.draining)
        )

    def remove_node(self, command: commands.RemoveNode) -> list[QueueRecord]:
        record = self._existing_node(command.name)
        self._check_disk_is_left(replace(record, kind="ram"))
        del self.nodes[command.name]
        self._changed(record, False)
        self._forget_claims(command.name)
        return self.remove_queues(lambda queue: queue.kind == "classic" and queue.home == command.name)

    def node_started(self, command: commands.NodeStarted) -> list[QueueRecord]:
        record = self._existing_node(command.name)
        if command.incarnation <= record.incarnation:
            return []  # of a process that is over, or said twice
        if command.disk_id < record.disk_id:
            raise PreconditionFailed(
                f"node '{command.name}' started on an old data directory: it was started with a later one since"
            )
        self._keep_node(replace(record, disk_id=command.disk_id, incarnation=command.incarnation))
        self._agree_on_limits(command.limits)
        gone = self._remove_left_behind(command.name)
        if list(self.nodes) == [command.name]:
            self._remove_transient_exchanges()
        return gone

    def node_lost(self, command: commands.NodeLost) -> list[QueueRecord]:
        record = self._existing_node(command.name)
        return self._remove_left_behind(command.name) if record.incarnation == command.incarnation else []

    def _existing_node(self, name: str) -> NodeRecord:
        record = self.nodes.get(name)
        if record is None:
            raise NotFound(f"no node '{name}' belongs to this cluster")
        return record

    def _keep_node(self, record: NodeRecord) -> NodeRecord:
        if self.nodes.get(record.name) != record:
            self.nodes[record.name] = record
            self._changed(record, True)
        return record

    def _check_disk_is_left(self, changed: NodeRecord) -> None:
        """Without a disk node nobody would keep the catalog."""
        others = (record for record in self.nodes.values() if record.name != changed.name)
        if changed.kind != "disk" and not any(record.kind == "disk" for record in others):
            raise PreconditionFailed(f"node '{changed.name}' is the last disk node of this cluster")

    def _remove_left_behind(self, node: str) -> list[QueueRecord]:
        """What no client can reach any more, or was promised to last only as long as the process of that node."""
        return self.remove_queues(lambda queue: queue.home == node and (queue.exclusive or not queue.durable))


def last_incarnation(record: NodeRecord) -> int:
    """Of the processes of a node that the catalog knows."""
    return max(record.incarnation, record.joined)


def _check_kind_of_node(record: NodeRecord) -> None:
    if record.kind not in NODE_KINDS:
        raise PreconditionFailed(f"node '{record.name}' is of kind '{record.kind}': there are {', '.join(NODE_KINDS)}")
