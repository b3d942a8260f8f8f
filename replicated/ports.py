"""The ports of replicated queues to the node around them, as narrow as they use them. raft/groups.py, raft/store/node_log.py
and node/peers/calls.py fulfil these as they are; tests provide small worlds of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from broker.actors import LogActor
from broker.records import QueueRecord
from raft.core.errors import Damaged
from raft.core.membership import Change
from raft.core.messages import MemberId, NodeId
from raft.core.ready import Standing
from raft.core.settings import Settings
from raft.core.status import Formation, Status
from raft.driver import SnapshotRules
from raft.group_owners import GroupOwner
from raft.machine import Machine
from raft.requests import OnRead, OnResults
from raft.store.group_records import GroupIdentity
from raft.store.member_store import GroupStore, MemberStore
from storage.disk import Buffer


class MemberCore(Protocol):
    """What a member's consensus says of itself."""

    def status(self) -> Status: ...

    def formation(self) -> Formation: ...


class MemberDriver(Protocol):
    """This node's member of one group."""

    group: int
    me: MemberId
    standing: Standing
    applied: int
    halted: str | None

    @property
    def core(self) -> MemberCore: ...

    @property
    def leads(self) -> bool: ...

    @property
    def leader_node(self) -> NodeId: ...

    @property
    def snapshot_index(self) -> int: ...

    @property
    def stands_on_its_log(self) -> bool: ...

    def take_snapshot(self) -> bool: ...

    def take_snapshot_for_room(self) -> None: ...

    def tell_commits(self, nodes: Iterable[NodeId]) -> None: ...


class RaftGroups(Protocol):
    """The node's groups."""

    node: NodeId

    def add(
        self,
        group: int,
        me: MemberId,
        store: GroupStore,
        machine: Machine,
        settings: Settings,
        rules: SnapshotRules | None = None,
    ) -> MemberDriver: ...

    def remove(self, group: int) -> None: ...

    def propose(self, group: int, commands: Sequence[bytes], on_results: OnResults) -> None: ...

    def read(self, group: int, on_read: OnRead) -> None: ...

    def change(self, group: int, change: Change, on_results: OnResults) -> None: ...

    def transfer(self, group: int, to: MemberId) -> None: ...

    def damaged(self, group: int, error: Damaged) -> None: ...

    def fail(self, reason: str) -> None: ...

    def trusts(self, node: NodeId) -> bool: ...


class Owners(Protocol):
    """Who acts on what happens to a group: raft/group_owners.py."""

    def register(self, group: int, owner: GroupOwner) -> None: ...

    def leave(self, group: int) -> None: ...


class MemberStores(Protocol):
    """Where the groups of one kind of queue are kept: raft/store/group_stores.py."""

    @property
    def stores(self) -> Mapping[int, MemberStore]:
        """By group number: those that are here."""

    def group(self, group: int) -> MemberStore: ...

    def create_group(self, identity: GroupIdentity) -> int: ...

    def remove_group(self, group: int) -> int: ...


Payload = Buffer | Sequence[Buffer]
OnAnswer = Callable[[bytes | None], None]
Handler = Callable[[NodeId, bytes, Callable[[Payload], None] | None], None]


class Calls(Protocol):
    """Requests and messages between nodes. Each kind of queue has a topic of its own."""

    def ask(self, node: NodeId, topic: int, payload: Payload, on_answer: OnAnswer) -> None: ...

    def tell(self, node: NodeId, topic: int, payload: Payload) -> bool: ...

    def serve(self, topic: int, handler: Handler) -> None: ...

    def on_link(self, listener: Callable[[NodeId, bool], None]) -> None: ...

    def on_writable(self, listener: Callable[[NodeId], None]) -> None: ...

    def connected(self, node: NodeId) -> bool: ...

    def writable(self, node: NodeId) -> bool: ...


class QueueTimer(Protocol):
    """What call_later returns."""

    def cancel(self) -> object: ...


class QueueLoop(Protocol):
    """What is needed of an event loop."""

    def call_soon(self, callback: Callable[..., object], *args: Any) -> object: ...

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> QueueTimer: ...


def nobody(actor: LogActor) -> int:
    """The number of actors on a node whose log does not say who they are."""
    return 0


@dataclass(frozen=True, slots=True)
class QueuePorts:
    """What every queue of one kind has of its node."""

    node: NodeId
    incarnation: int
    topic: int  # in `calls`, of this kind of queue
    groups: RaftGroups
    owners: Owners
    calls: Calls
    loop: QueueLoop
    wall_ms: Callable[[], int]
    monotonic: Callable[[], float]
    actor_number: Callable[[LogActor], int] = nobody


@dataclass(frozen=True, slots=True)
class CatalogPorts:
    """What replicated queues have of the catalog of their cluster, as this node knows it."""

    set_members: Callable[[QueueRecord, tuple[MemberId, ...], int, bool], None]
    """Submits the metadata command, with the members, where in the log the group got them, and whether it began anew; it may
    fail, and is called again."""
    incarnation_of: Callable[[NodeId], int | None]  # None: the cluster has no such node
    name_of: Callable[[NodeId], str] = str  # what people call a node
    alone: Callable[[], bool] = lambda: False  # no other node may have members
    is_behind: Callable[[], bool] = lambda: True  # its log may know more
    holding_needed: Callable[[str, str], bool] = lambda vhost, queue: (
        True
    )  # something has delayed messages wait in this queue
