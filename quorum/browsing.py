"""Looking at the ready messages of a queue without taking them: from this node's member, or from another node's."""

from __future__ import annotations

from collections.abc import Iterator

from broker.messages import browsed
from broker.messages.browsed import Browsed, bounded
from broker.pending import Pending
from broker.queues.queue_type import QueueHost
from native.content import singles
from quorum import letters
from quorum.member import QueueMember
from replicated.ports import QueuePorts
from replicated.remote_browsing import BrowsedQueue, browse_somewhere


def browse(
    queue: BrowsedQueue[QueueMember], ports: QueuePorts, host: QueueHost, skip: int, limit: int, now: int
) -> Pending[list[Browsed]]:
    return browse_somewhere(
        queue,
        ports,
        host,
        now,
        here=lambda member: browse_member(member, skip, limit),
        letter=lambda: letters.browse(queue.group, skip, limit),
        decode=letters.decode_browsed,
    )


def browse_member(member: QueueMember, skip: int, limit: int) -> list[Browsed]:
    """Raises Damaged."""
    return bounded(_messages(member, skip, min(limit, browsed.COUNT_MAX)), limit)


def _messages(member: QueueMember, skip: int, limit: int) -> Iterator[Browsed]:
    for some in member.machine.browse(skip, limit):
        body = member.bodies.get(some.piece)
        redelivered = bool(some.acquired_count) or body.delivered_elsewhere
        for content in singles(body.content, body.position, some.piece.length):
            yield Browsed(
                body.exchange, body.routing_key, content, body.persistent, redelivered,
                some.delivery_count, some.acquired_count,
            )  # fmt: skip
