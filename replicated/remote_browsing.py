"""Looking at messages of a replicated queue without taking them: from this node's member, or from another node's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar

from broker.errors import ResourceExhausted
from broker.pending import Pending
from broker.queues.queue_type import QueueHost
from broker.records import QueueRecord
from raft.core.errors import Damaged
from raft.core.messages import NodeId
from replicated.letters import BadLetter
from replicated.ports import QueuePorts
from replicated.reply_timeout import ReplyTimeout

M = TypeVar("M", covariant=True)
T = TypeVar("T")
Decode = Callable[[bytes], list[T] | None]  # None: that node has no member. Raises BadLetter


class BrowsedQueue(Protocol[M]):
    """What is needed of a queue to look at its messages."""

    record: QueueRecord

    @property
    def group(self) -> int: ...

    @property
    def readable_member(self) -> M | None: ...

    def member_nodes(self) -> Sequence[NodeId]: ...


def browse_somewhere(
    queue: BrowsedQueue[M],
    ports: QueuePorts,
    host: QueueHost,
    now: int,
    *,
    here: Callable[[M], list[T]],
    letter: Callable[[], bytes],
    decode: Decode[T],
) -> Pending[list[T]]:
    """As the member here has it, leader or not; else as another one does that can be reached. `here` may raise Damaged."""
    member = queue.readable_member
    if member is not None:
        try:
            return Pending.of(here(member))
        except Damaged as damage:
            ports.groups.damaged(queue.group, damage)
    nodes = [node for node in queue.member_nodes() if node != ports.node and ports.calls.connected(node)]
    refused = ResourceExhausted(f"no node with a member of {queue.record.label} can be asked what is in it")
    if not nodes:
        return Pending.failed(refused)
    waiting: ReplyTimeout[list[T]] = ReplyTimeout(host, lambda: refused)
    ports.calls.ask(nodes[0], ports.topic, letter(), partial(_answered, waiting, refused, decode))
    return waiting.answer


def _answered(
    waiting: ReplyTimeout[list[T]], refused: ResourceExhausted, decode: Decode[T], data: bytes | None
) -> None:
    try:
        found = decode(data) if data is not None else None
    except BadLetter:
        found = None
    if found is None:
        waiting.fail(refused)
    else:
        waiting.resolve(found)
