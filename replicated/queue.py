"""A queue whose log is a group, as this package sees it. Each kind of queue fulfils it, on every node, member or not."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from broker.queues.queue_type import QueueStatistics
from broker.records import QueueRecord
from raft.core.errors import Damaged
from raft.core.messages import NodeId
from replicated.leader_route import LeaderRoute
from replicated.member import MemberLife, Odd, ReplicatedMember
from replicated.ports import MemberDriver
from replicated.remote_serving import RemoteServing


class LeadingHere(Protocol):
    """What the leader's node does for the queue."""

    @property
    def attendants(self) -> Collection[NodeId]:
        """Nodes without a member that are served from here."""

    def check(self, now: int) -> None:
        """Called about once a second."""

    def check_record(self) -> None:
        """The membership has changed."""

    def tell_news(self) -> None:
        """To the nodes without a member. Called some ten times a second."""

    def link_went(self, node: NodeId) -> None: ...

    def writable(self, node: NodeId) -> None:
        """The link to this node has room again."""

    def attend(self, node: NodeId, incarnation: int, consumers: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
        """Serve these consumers of that node, each by its number, from this message or place on. Returns those that lack
        nothing before a later one, and which that is."""


class ReplicatedQueue(Protocol):
    """See the module."""

    record: QueueRecord
    member_life: MemberLife
    quarantined: str | None  # why, if the member here is

    @property
    def group(self) -> int: ...

    @property
    def deleted(self) -> bool: ...

    @property
    def route(self) -> LeaderRoute: ...

    @property
    def member(self) -> ReplicatedMember | None: ...

    @property
    def leading(self) -> LeadingHere | None:
        """None: another node leads, or none."""

    @property
    def remote_serving(self) -> RemoteServing | None:
        """None: nothing is to be served here by another node."""

    @property
    def finds_no_leader(self) -> bool:
        """Whether something waits for one to be found."""

    def member_nodes(self) -> Sequence[NodeId]:
        """As its record names them."""

    def joined(self, driver: MemberDriver, member: Any) -> None:
        """This node has a member from now on: the one that its kind of queue has made."""

    def left(self) -> None:
        """This node has none any more, or none that is of use to clients."""

    def leading_changed(self) -> None:
        """The leadership has come to this node's member, or has left it."""

    def counts(self) -> QueueStatistics:
        """As broker/queues/queue_type.py has it."""

    def try_again(self) -> None:
        """There may be a leader to talk to."""

    def still_asks(self) -> bool:
        """Whether requests to the leader wait for answers. Called some ten times a second while they do."""

    def figures(self) -> dict[str, Any]:
        """What operators are shown of it besides its group."""


@dataclass(frozen=True, slots=True)
class QueueReports:
    """Listeners to what should never happen. The defaults ignore it."""

    on_damaged: Callable[[int, Damaged, Callable[[], bool]], None] | None = None
    """A member, by its group. Have it repaired, then call: False if only another process can go on. None: it is raised."""
    on_repaired: Callable[[MemberDriver], None] = lambda driver: None
    """The member that followed a damaged one votes."""
    on_lost: Callable[[QueueRecord, int], None] = lambda record, kept: None
    """A queue goes on with what is left here, up to this entry."""
    on_quarantined: Callable[[ReplicatedQueue, str], None] = lambda queue, why: None
    on_diverged: Callable[[ReplicatedQueue, Odd], None] = lambda queue, odd: None
    on_refused: Callable[[ReplicatedQueue, str], None] = lambda queue, why: None
    """Something was not proposed, as it would do harm to every member."""
    on_leads: Callable[[QueueRecord], None] = lambda record: None
    """This node leads the queue from now on."""
    on_not_delivered: Callable[[ReplicatedQueue, str], None] = lambda queue, why: None
    """Messages of a stream were not given to a reader."""
