"""Looking at the ready messages of a queue without taking them: from this node's member, or from another node's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Protocol

from broker import browsed
from broker.browsed import Browsed, bounded
from broker.errors import ResourceExhausted
from broker.pending import Pending
from broker.queue_type import QueueHost
from broker.records import QueueRecord
from native.content import singles
from quorum import letters
from quorum.member import QueueMember
from raft.core.errors import Damaged
from raft.core.messages import NodeId
from replicated.letters import BadLetter
from replicated.ports import QueuePorts
from replicated.reply_timeout import ReplyTimeout


class BrowsedQueue(Protocol):
    """What is needed of a queue to look at its messages."""

    record: QueueRecord

    @property
    def group(self) -> int: ...

    @property
    def member(self) -> QueueMember | None: ...

    def member_nodes(self) -> Sequence[NodeId]: ...


def browse(
    queue: BrowsedQueue, ports: QueuePorts, host: QueueHost, skip: int, limit: int, now: int
) -> Pending[list[Browsed]]:
    """As the member here has it, leader or not; else as another one does that can be reached."""
    if queue.member is not None:
        try:
            return Pending.of(browse_member(queue.member, skip, limit))
        except Damaged as damage:
            ports.groups.damaged(queue.group, damage)
    nodes = [node for node in queue.member_nodes() if node != ports.node and ports.calls.connected(node)]
    refused = ResourceExhausted(f"no node with a member of {queue.record.label} can be asked what is in it")
    if not nodes:
        return Pending.failed(refused)
    waiting: ReplyTimeout[list[Browsed]] = ReplyTimeout(host, now, lambda: refused)
    letter = letters.browse(queue.group, skip, limit)
    ports.calls.ask(nodes[0], ports.topic, letter, partial(_told, waiting, refused))
    return waiting.answer


def _told(waiting: ReplyTimeout[list[Browsed]], refused: ResourceExhausted, data: bytes | None) -> None:
    try:
        found = letters.decode_browsed(data) if data is not None else None
    except BadLetter:
        found = None
    if found is None:
        waiting.fail(refused)
    else:
        waiting.resolve(found)


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
