"""For operators: where quorum queues and streams have their copies, and which of them leads. A part of leveret.admin."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from leveret.records import QueueChange, QueueMemberMove, from_stub
from leveret.requests import NodeRequests
from leveret.v1 import admin_pb2 as pb


class MemberAdmin:
    """What each call needs of its user stands in admin.proto. A vhost not given is the connection's."""

    def __init__(self, node: NodeRequests) -> None:
        self._node = node

    async def _call(self, method: str, request: Any) -> Any:
        return await self._node.call("admin", method, request)

    def _vhost(self, vhost: str | None) -> str:
        return self._node.vhost if vhost is None else vhost

    async def add_queue_member(self, queue: str, node: str, *, vhost: str | None = None) -> None:
        """The node gets a copy of the queue, which votes once it has caught up."""
        await self._call("AddQueueMember", pb.AddQueueMemberRequest(vhost=self._vhost(vhost), queue=queue, node=node))

    async def delete_queue_member(
        self, queue: str, node: str, *, vhost: str | None = None, anyway: bool = False
    ) -> None:
        """The node gives up its copy of the queue. `anyway`: also where too few of the others can be reached."""
        request = pb.DeleteQueueMemberRequest(vhost=self._vhost(vhost), queue=queue, node=node, anyway=anyway)
        await self._call("DeleteQueueMember", request)

    async def transfer_queue_leader(self, queue: str, node: str, *, vhost: str | None = None) -> None:
        """Have the member on this node lead."""
        request = pb.TransferQueueLeaderRequest(vhost=self._vhost(vhost), queue=queue, node=node)
        await self._call("TransferQueueLeader", request)

    async def grow_queues(
        self, node: str, *, even_only: bool = False, vhost_pattern: str = "", queue_pattern: str = ""
    ) -> list[QueueChange]:
        """Give the node a copy of each quorum queue that has none there, or only of those with an even number of copies."""
        request = pb.GrowQueuesRequest(
            node=node, even_only=even_only, vhost_pattern=vhost_pattern, queue_pattern=queue_pattern
        )
        return await self._changes("GrowQueues", request)

    async def grow_queues_to(
        self, count: int, *, vhost_pattern: str = "", queue_pattern: str = ""
    ) -> list[QueueChange]:
        """Give each quorum queue as many copies, on nodes that are chosen as for a new queue."""
        request = pb.GrowQueuesRequest(count=count, vhost_pattern=vhost_pattern, queue_pattern=queue_pattern)
        return await self._changes("GrowQueues", request)

    async def shrink_queues(
        self, node: str, *, anyway: bool = False, vhost_pattern: str = "", queue_pattern: str = ""
    ) -> list[QueueChange]:
        """Have the node give up its copies of quorum queues."""
        request = pb.ShrinkQueuesRequest(
            node=node, anyway=anyway, vhost_pattern=vhost_pattern, queue_pattern=queue_pattern
        )
        return await self._changes("ShrinkQueues", request)

    async def rebalance_queues(
        self,
        *,
        kind: str = "",
        vhost_pattern: str = "",
        queue_pattern: str = "",
        by: str = "",
        dry_run: bool = False,
    ) -> list[QueueChange]:
        """Have the nodes carry about as much each by leading queues of the kinds quorum and stream, or only of one of them.
        `by`: queues, bytes, or entries (that logs grow by in a second). With `dry_run` the moves are only told."""
        request = pb.RebalanceQueuesRequest(
            vhost_pattern=vhost_pattern, queue_pattern=queue_pattern, kind=kind, by=by, dry_run=dry_run
        )
        return await self._changes("RebalanceQueues", request)

    async def move_queue_members(
        self,
        *,
        kind: str = "",
        vhost_pattern: str = "",
        queue_pattern: str = "",
        by: str = "",
        dry_run: bool = False,
    ) -> AsyncGenerator[QueueMemberMove, None]:
        """Have the nodes keep about as much each of the queues of the kinds quorum and stream, or only of one of them: members
        move one after the other. `by` as of `rebalance_queues`. Leaving the loop earlier ends it; a queue that has one member
        too many for it loses that the next time."""
        request = pb.MoveQueueMembersRequest(
            vhost_pattern=vhost_pattern, queue_pattern=queue_pattern, kind=kind, by=by, dry_run=dry_run
        )
        async with aclosing(self._node.answers("admin", "MoveQueueMembers", request)) as answers:
            async for answer in answers:
                yield from_stub(QueueMemberMove, answer)

    async def _changes(self, method: str, request: Any) -> list[QueueChange]:
        return [from_stub(QueueChange, change) for change in (await self._call(method, request)).changes]
