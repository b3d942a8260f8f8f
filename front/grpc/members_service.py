"""The part of leveret.v1.Admin that is about the members of quorum queues: where they are, and which of them leads."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace

from broker.errors import InvalidRequest, NotSupported, PreconditionFailed
from broker.operations.operator import ADMINISTRATOR
from front.grpc.call import DEFAULT_VHOST, Context, Front, answers_errors
from front.grpc.caller import operator
from front.grpc.stubs import stub_of
from front.member_moves import MemberMoves
from front.node_ports import ChangeView, Chosen, GroupView, MemberMoveView, MemberView, QueueMembersPort
from leveret.v1 import admin_pb2 as pb


class MembersMethods:
    """Mixed into AdminService."""

    front: Front
    members: QueueMembersPort | None
    moves: MemberMoves

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
        return _changes(await members.rebalance(_of_kind(request), request.by or "queues", dry_run=request.dry_run))

    @answers_errors
    async def MoveQueueMembers(self, request: pb.MoveQueueMembersRequest, context: Context) -> None:
        """Whoever leaves the call ends it behind no more than the step that is under way."""
        members, chosen, by = self._members("MoveQueueMembers"), _of_kind(request), request.by or "queues"
        if request.dry_run:
            await _write(members.move_members(chosen, by, dry_run=True), context)
            return
        run = await self.moves.begin(operator(), by)
        await _write(run.follow(members.move_members(chosen, by)), context)
        if run.state == "ended":
            raise PreconditionFailed("somebody has ended the moves: what was moved stays moved, and the rest is left")


async def _write(moves: AsyncGenerator[MemberMoveView, None], context: Context) -> None:
    async with aclosing(moves):
        async for move in moves:
            await context.write(stub_of(pb.QueueMemberMove, move))


def group_stub(view: GroupView | None) -> pb.QueueGroup | None:
    if view is None:
        return None
    return stub_of(pb.QueueGroup, view, members=map(_member, view.members))


def _member(view: MemberView) -> pb.QueueMember:
    return stub_of(pb.QueueMember, view, readers=[stub_of(pb.QueueReader, one) for one in view.readers])


def _chosen(
    request: pb.GrowQueuesRequest | pb.ShrinkQueuesRequest | pb.RebalanceQueuesRequest | pb.MoveQueueMembersRequest,
) -> Chosen:
    return Chosen(request.vhost_pattern, request.queue_pattern)


def _of_kind(request: pb.RebalanceQueuesRequest | pb.MoveQueueMembersRequest) -> Chosen:
    if request.kind not in ("", "quorum", "stream"):
        raise InvalidRequest(f"queues of kind {request.kind!r} have no members to spread: there are quorum and stream")
    return replace(_chosen(request), kind=request.kind)


def _changes(found: Sequence[ChangeView]) -> pb.QueueChanges:
    return pb.QueueChanges(changes=[stub_of(pb.QueueChange, one) for one in found])
