"""What the fronts ask of the node about its cluster and the members of replicated queues: ports, and the views they answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from broker.errors import PreconditionFailed
from broker.operations.node_facts import AlarmFacts, ListenerFacts
from broker.records import QueueRecord
from broker.replay.logged import LoggedMessage
from broker.replay.replay_order import ReplayOrder, ReplayPlace

FORGOTTEN_NAMED, FORGOTTEN_NAMED_MAX = 100, 1_000  # queues of a node that is to be forgotten


@dataclass(slots=True, frozen=True)
class NodeView:
    """A node as another one, or itself, sees it. What is not known of a node that was never reached is empty."""

    name: str
    number: int
    kind: str
    address: str  # of its listener for other nodes
    zone: str
    draining: bool
    up: bool
    since_ms: int  # since when it is up, or down, as far as the asked node has seen; 0: it cannot tell
    version: str = ""
    listeners: Sequence[ListenerFacts] = ()
    alarms: Sequence[AlarmFacts] = ()
    notices: Sequence[str] = ()  # what its disk has lost, in words that go on behind its name


@dataclass(slots=True, frozen=True)
class ClusterView:
    """The cluster as one node sees it."""

    cluster_id: str
    cluster_name: str
    seen_by: str
    nodes: Sequence[NodeView]
    metadata_leader: str  # name; empty: nobody leads, nothing can be declared
    metadata_term: int
    metadata_voters: Sequence[str]
    missing: Sequence[str]  # voters that are down, when the others are no majority
    problems: Sequence[str]  # what an operator should look at, in sentences


@dataclass(slots=True, frozen=True)
class PlannedMove:
    """A replicated queue with a member on a node that is to leave."""

    vhost: str
    queue: str
    kind: str
    to: str  # node that gets a member in its place; empty: none does
    copies: int  # members that the queue has afterwards; 0: it is lost
    copies_before: int
    copies_wanted: int  # that it should have afterwards: more than `copies` while a node that could take one is away
    leads: bool  # the node leads it now: the leadership is handed over
    bytes: int  # to be sent to the new member, as far as is known


@dataclass(slots=True, frozen=True)
class LostQueue:
    """A classic queue that goes with the node on which it lives."""

    vhost: str
    queue: str
    messages: int
    bytes: int


@dataclass(slots=True, frozen=True)
class ForgottenQueue:
    """A classic queue that lives on a node that is down. What it had, only that node knows."""

    vhost: str
    queue: str


@dataclass(slots=True, frozen=True)
class ForgetPlan:
    """What would go with a node that is forgotten. Nothing is changed by making it."""

    node: str
    count: int  # classic queues that live on it
    lost: Sequence[ForgottenQueue]  # the first of them, by vhost and name
    obstacles: Sequence[str]  # why it would be refused now, in sentences


@dataclass(slots=True, frozen=True)
class DecommissionPlan:
    """What would happen if a node left for good. Nothing is changed by making it."""

    node: str
    moves: Sequence[PlannedMove]
    lost: Sequence[LostQueue]
    obstacles: Sequence[str]  # why it cannot leave now, in sentences


@dataclass(slots=True, frozen=True)
class DecommissionProgress:
    """How far a node has come with leaving. It counts anew when the node starts; what was moved before stays moved."""

    node: str
    phase: str = "none"  # none, draining, moving, leaving, left, waiting, failed
    moved: int = 0  # replicated queues that have no member here any more
    total: int = 0
    error: str = ""  # of the phases waiting and failed


class ClusterPort(Protocol):
    """What the fronts need of the node; node/membership/cluster.py fulfils it. Everything raises BrokerErrors."""

    def status(self) -> ClusterView: ...

    def critical(self, name: str) -> tuple[str, Sequence[str]]:
        """The name of the node, this one if none is given; and what would have no majority without it."""

    async def join_cluster(self, address: str) -> None:
        """This node gives up its own, empty cluster and starts again as one of the cluster of the node at this address."""

    async def leave(self, *, lose_queues: bool = False) -> None:
        """This node belongs to the cluster no more, and stops. `lose_queues`: also where classic queues go with it."""

    def plan_forget(self, name: str, limit: int) -> ForgetPlan:
        """What would go with another node; at most so many queues are named."""

    async def forget(self, name: str, *, anyway: bool = False) -> None:
        """A node that is down belongs to the cluster no more. `anyway`: also where quorum queues are lost with it."""

    async def change_kind(self, kind: str) -> None:
        """This node starts again as a disk or RAM node."""

    def plan_decommission(self) -> DecommissionPlan:
        """Of this node."""

    def decommission(self, *, lose_queues: bool) -> None:
        """This node begins to leave; `decommission_progress` tells how far it is. Begun twice, it is one. `lose_queues`: also
        where classic queues go with it."""

    def stay(self) -> None:
        """This node is not to leave any more. Raises PreconditionFailed where it is being removed."""

    def decommission_progress(self) -> DecommissionProgress: ...

    async def drain(self) -> None:
        """This node leads nothing and serves nobody, until it is revived."""

    async def revive(self) -> None: ...


def check_confirmed(cluster: ClusterPort, typed: str) -> None:
    """Raises PreconditionFailed unless this is the name of the node that is about to leave for good."""
    node = cluster.decommission_progress().node
    if typed != node:
        raise PreconditionFailed(f"this is node '{node}', and '{typed}' was typed: nothing was begun")


@dataclass(slots=True, frozen=True)
class ReaderView:
    """A consumer of a stream on the node of one of its members."""

    consumer_tag: str
    offset: int
    lag: int
    bytes_sent: int
    lag_s: float = 0.0


@dataclass(slots=True, frozen=True)
class MemberView:
    """A member as it says of itself, or as others say of it. What nobody knows is 0 or empty. See admin.proto."""

    node: str
    member: str
    state: str
    membership: str
    away_since_ms: int = 0
    term: int = 0
    first: int = 0
    last: int = 0
    commit: int = 0
    applied: int = 0
    snapshot: int = 0
    lag: int = 0
    machine_version: int = 0
    digest: str = ""
    snapshot_sent_bytes: int = 0
    first_offset: int = 0  # this and what follows: of a stream's member
    committed_offset: int = 0
    segments: int = 0
    bytes: int = 0
    readers: Sequence[ReaderView] = ()


@dataclass(slots=True, frozen=True)
class GroupView:
    """The group of a queue."""

    leader: str  # node; empty: nobody leads
    term: int
    commit: int
    open_entries: int
    open_bytes: int
    change_pending: bool
    needed: int
    members: Sequence[MemberView]


@dataclass(slots=True, frozen=True)
class ChangeView:
    """What was done with one queue of many, or why not."""

    vhost: str
    queue: str
    done: str
    error: str = ""


@dataclass(slots=True, frozen=True)
class MemberMoveView:
    """One member of a replicated queue that goes to another node. `target` is empty where the queue has one too many, as after
    a move that was cut short. Loads are those before the move, in what was asked for (BALANCED_BY)."""

    vhost: str
    queue: str
    source: str
    target: str
    load: int
    source_load: int
    target_load: int
    number: int  # of the move, from 1 to `total`
    total: int
    state: str = "planned"  # or copying, moved, failed
    error: str = ""


@dataclass(slots=True, frozen=True)
class Chosen:
    """Queues of this kind whose vhost and name match these regular expressions; empty: all."""

    vhost_pattern: str = ""
    queue_pattern: str = ""
    kind: str = ""


# What leading a queue costs its node: one for each queue, the bytes that it keeps, or entries that its log grows by a second.
BALANCED_BY = ("queues", "bytes", "entries")


@dataclass(slots=True, frozen=True)
class QueueNodes:
    """Nodes of a replicated queue, as far as this one knows without asking any."""

    leader: str  # empty: nobody leads, or that is unknown here
    members: Sequence[str]
    online: Sequence[str]


class QueueMembersPort(Protocol):
    """What the fronts need of the node; node/replicas/members.py fulfils it. Raises BrokerErrors. Nodes are named."""

    def places(self, record: QueueRecord) -> QueueNodes | None:
        """None: the queue is of a kind that has no group, or is not open here."""

    async def group(self, vhost: str, queue: str) -> GroupView | None:
        """None: the queue is of a kind that has no group."""

    async def add(self, vhost: str, queue: str, node: str) -> None:
        """The member votes once it has caught up."""

    async def delete(self, vhost: str, queue: str, node: str, *, anyway: bool) -> None:
        """`anyway`: also where too few of the others can be reached to go on without it."""

    async def transfer(self, vhost: str, queue: str, node: str) -> None:
        """The member on this node leads."""

    async def grow(self, node: str, chosen: Chosen, *, even_only: bool) -> Sequence[ChangeView]:
        """The node gets a member of each queue that has none there."""

    async def grow_to(self, count: int, chosen: Chosen) -> Sequence[ChangeView]:
        """Each queue gets as many members, on the nodes where it would have been placed."""

    async def shrink(self, node: str, chosen: Chosen, *, anyway: bool) -> Sequence[ChangeView]:
        """The node loses its member of each queue that has one there."""

    async def rebalance(self, chosen: Chosen, by: str = "queues", *, dry_run: bool = False) -> Sequence[ChangeView]:
        """Nodes carry as much each by leading, as far as the members allow it. `by`: one of BALANCED_BY. With `dry_run` the
        moves are only told."""

    def move_members(
        self, chosen: Chosen, by: str = "queues", *, dry_run: bool = False
    ) -> AsyncGenerator[MemberMoveView, None]:
        """Nodes keep as much each, as far as it is worth a copy: members move one after the other. Ends at the first failure;
        asked again, it goes on with what is left."""


class LogLine(NamedTuple):
    """What the node has logged."""

    at: int
    level: str  # debug, info, warning, error, critical
    logger: str
    text: str  # one line, and those of a traceback


class LogTailPort(Protocol):
    """The last lines of the node's log; node/logs.py fulfils it."""

    def after(self, number: int) -> Iterator[tuple[int, LogLine]]:
        """With their numbers, the newest first, down to that number."""


class NodeRead(NamedTuple):
    """A node whose log was searched, and what that stands on; or why it was not."""

    node: str
    error: str  # empty: it was searched
    files: int
    file_bytes: int
    skipped: int  # files that have nothing of the queue
    first: str | None  # ISO, UTC: from when on the log tells
    last: str | None
    damaged_bytes: int


class LivesFound(NamedTuple):
    """Objects as analytics/life/life_objects.py makes them, each with what it was and what it `became`: queue and place."""

    lives: Sequence[dict[str, Any]]
    nodes: Sequence[NodeRead]
    more: bool  # than are told


class MessageLivesPort(Protocol):
    """What became of messages, as the logs of all nodes say; node/lives/cluster_lives.py fulfils it."""

    async def find(self, queue: int, by: str, value: str) -> LivesFound:
        """Of messages in the queue with this number in the catalog. `by`: message_id, correlation_id, place, or body_sha256."""


@dataclass(slots=True, frozen=True)
class ReplayCause:
    """Messages that left their queue alike and were published with one key. Names are empty beyond the first 200 causes."""

    end: str
    exchange: str
    routing_key: str
    messages: int


@dataclass(slots=True, frozen=True)
class ReplayCoverage:
    """What the log has of the messages that were asked for, and what that stands on."""

    messages: int  # that were chosen
    first: ReplayPlace | None
    last: ReplayPlace | None
    causes: Sequence[ReplayCause]
    skipped: Mapping[str, int]  # of the messages that left: how, and were not asked for
    uncommitted: int  # that a later leader might yet replace, and are left out
    unnamed: int  # left out, since this log does not name who had them
    more: bool  # than are chosen at once: go on behind the last
    unknown: str  # why something is not known of the queue; empty: all is
    files: int
    files_skipped: int  # that have nothing of the queue
    from_time: str  # ISO, UTC: from when on the log tells; empty: it says nothing
    to_time: str
    damaged_bytes: int


class LoggedMessages(Protocol):
    """Messages of a log that were chosen, in the order of their places."""

    coverage: ReplayCoverage

    async def next(self) -> Sequence[LoggedMessage]:
        """Some more of them; none: these were all. Raises BrokerErrors."""

    def close(self) -> None:
        """Nobody wants more."""


class ReplayLogPort(Protocol):
    """The log of this node, for replays; node/lives/replay_process.py fulfils it. Raises BrokerErrors."""

    async def choose(self, record: QueueRecord, order: ReplayOrder, *, with_contents: bool) -> LoggedMessages: ...


class MetricsPort(Protocol):
    """What Prometheus reads of the node; node/watching/metrics.py fulfils it."""

    async def text(self) -> bytes:
        """Sums over all objects of this node."""

    async def per_object(self) -> Sequence[bytes]:
        """The series of each object, in pieces."""

    async def detailed(
        self, families: Sequence[str], has_vhost: Callable[[str], bool], has_queue: Callable[[str], bool]
    ) -> Sequence[bytes]:
        """Those of these families, of queues and vhosts with these names. What is no family is passed over."""
