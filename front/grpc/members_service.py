"""The part of leveret.v1.Admin that is about the members of quorum queues: where they are, and which of them leads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from broker.errors import InvalidRequest, NotSupported
from broker.operations.operator import ADMINISTRATOR
from front.grpc.call import DEFAULT_VHOST, Context, Front, answers_errors
from front.grpc.caller import operator
from front.grpc.stubs import stub_of
from leveret.v1 import admin_pb2 as pb


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
class Chosen:
    """Queues of this kind whose vhost and name match these regular expressions; empty: all."""

    vhost_pattern: str = ""
    queue_pattern: str = ""
    kind: str = ""


class QueueMembersPort(Protocol):
    """What the service needs of the node; node/replicas/members.py fulfils it. Raises BrokerErrors. Nodes are named."""

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

    async def rebalance(self, chosen: Chosen) -> Sequence[ChangeView]:
        """Nodes lead as many queues each, as far as the members allow it."""


class MembersMethods:
    """Mixed into AdminService."""

    front: Front
    members: QueueMembersPort | None

    def _members(self, what: str) -> QueueMembersPort:
        who = operator()
        who.require_tag(ADMINISTRATOR)
        if self.members is None:
            raise NotSupported("this node has no quorum queues")
        self.front.logger.info("user %r: %s", who.name, what)
        return self.members

    @answers_errors
    async def AddQueueMember(self, request: pb.AddQueueMemberRequest, context: Context) -> pb.AddQueueMemberResponse:
        members = self._members(f"AddQueueMember {request.queue!r} on {request.node}")
        await members.add(request.vhost or DEFAULT_VHOST, request.queue, request.node)
        return pb.AddQueueMemberResponse()

    @answers_errors
    async def DeleteQueueMember(
        self, request: pb.DeleteQueueMemberRequest, context: Context
    ) -> pb.DeleteQueueMemberResponse:
        members = self._members(f"DeleteQueueMember {request.queue!r} on {request.node}")
        await members.delete(request.vhost or DEFAULT_VHOST, request.queue, request.node, anyway=request.anyway)
        return pb.DeleteQueueMemberResponse()

    @answers_errors
    async def TransferQueueLeader(
        self, request: pb.TransferQueueLeaderRequest, context: Context
    ) -> pb.TransferQueueLeaderResponse:
        members = self._members(f"TransferQueueLeader {request.queue!r} to {request.node}")
        await members.transfer(request.vhost or DEFAULT_VHOST, request.queue, request.node)
        return pb.TransferQueueLeaderResponse()

    @answers_errors
    async def GrowQueues(self, request: pb.GrowQueuesRequest, context: Context) -> pb.QueueChanges:
        members = self._members(f"GrowQueues {request.node or request.count}")
        chosen = _chosen(request)
        if bool(request.node) == bool(request.count):
            raise InvalidRequest("give either a node or a count of members, to which queues are to grow")
        if request.count:
            return _changes(await members.grow_to(request.count, chosen))
        return _changes(await members.grow(request.node, chosen, even_only=request.even_only))

    @answers_errors
    async def ShrinkQueues(self, request: pb.ShrinkQueuesRequest, context: Context) -> pb.QueueChanges:
        members = self._members(f"ShrinkQueues {request.node}")
        return _changes(await members.shrink(request.node, _chosen(request), anyway=request.anyway))

    @answers_errors
    async def RebalanceQueues(self, request: pb.RebalanceQueuesRequest, context: Context) -> pb.QueueChanges:
        members = self._members("RebalanceQueues")
        chosen = replace(_chosen(request), kind=request.kind)
        if chosen.kind not in ("", "quorum", "stream"):
            raise InvalidRequest(
                f"queues of kind {chosen.kind!r} have no leaders to spread: there are quorum and stream"
            )
        return _changes(await members.rebalance(chosen))


def group_stub(view: GroupView | None) -> pb.QueueGroup | None:
    if view is None:
        return None
    return stub_of(pb.QueueGroup, view, members=map(_member, view.members))


def _member(view: MemberView) -> pb.QueueMember:
    return stub_of(pb.QueueMember, view, readers=[stub_of(pb.QueueReader, one) for one in view.readers])


def _chosen(request: pb.GrowQueuesRequest | pb.ShrinkQueuesRequest | pb.RebalanceQueuesRequest) -> Chosen:
    return Chosen(request.vhost_pattern, request.queue_pattern)


def _changes(found: Sequence[ChangeView]) -> pb.QueueChanges:
    return pb.QueueChanges(changes=[stub_of(pb.QueueChange, one) for one in found])
