"""Direct reply-to: answers that go straight to the requester's session, through no queue.

A requester consumes (or gets) from the pseudo queue and publishes requests whose reply-to names it; on the way the name is
replaced by one that only this requester has, and that says on which node of a cluster it is. Whoever publishes to that name
through the default exchange reaches the requester at most once: not at all when it is gone, or has fallen too far behind.

    amq.rabbitmq.reply-to . place . token        without the place where there is one node only
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from broker.actors import LogActor
from broker.catalog.policy import EffectiveArguments
from broker.errors import NotSupported, PreconditionFailed
from broker.messages.browsed import Browsed
from broker.messages.message import Run
from broker.names import DIRECT_REPLY_TO
from broker.pending import Pending
from broker.queues.consumer import Consumer
from broker.queues.queue_type import Got, HeldSlice, Outcome, QueueStatistics, Slice
from broker.records import QueueRecord
from native.content import skip
from wire.amqp.tables import property_span

REPLY_PREFIX = DIRECT_REPLY_TO + "."
_RAW_DIRECT_REPLY_TO = DIRECT_REPLY_TO.encode()
NAME_RANDOM_BYTES = 24
# Replies kept for a requester that does not read or get them: no promise holds them, so the rest is dropped.
WAITING_MAX = 1_000


def is_reply_name(name: str) -> bool:
    return name == DIRECT_REPLY_TO or name.startswith(REPLY_PREFIX)


@dataclass(slots=True)
class _WaitingReply:
    run: Run
    position: int
    count: int


class ReplyQueue:
    """What one requester's replies pass through: to its session a queue like any other, in no catalog. Fulfils Queue."""

    def __init__(self, vhost: str, name: str, forget: Callable[[ReplyQueue], None]) -> None:
        self.record = QueueRecord(
            vhost, name, "classic", durable=False, exclusive=True, auto_delete=True, arguments={}, id=0
        )
        raw = name.encode()
        self.short_string = bytes((len(raw),)) + raw  # its name, as properties have it
        self.ready_count = 0
        self._forget = forget
        self._consumer: Consumer | None = None
        self._waiting: deque[_WaitingReply] = deque()
        self._figures = QueueStatistics()

    @property
    def consumer_count(self) -> int:
        return 1  # a requester that only gets counts as one: whoever asks wants to know whether replies arrive

    def add(self, run: Run, now: int) -> None:
        """Replies from their publisher; too many for a requester that does not take them are dropped."""
        self._figures.published += run.count
        if self.ready_count + run.count <= WAITING_MAX:
            self._waiting.append(_WaitingReply(run, 0, run.count))
            self.ready_count += run.count
            self.pump(now)

    def consume(self, consumer: Consumer, now: int) -> None:
        self._consumer = consumer

    def cancel(self, consumer: Consumer, now: int) -> None:
        if consumer is self._consumer:
            self._forget(self)

    def get(self, no_ack: bool, now: int, by: LogActor | None = None) -> Pending[Got | None]:
        if not no_ack:
            raise PreconditionFailed("reply consumer cannot acknowledge")
        if not self._waiting:
            return Pending.of(None)
        piece, content = self._take(1)
        self._figures.got += 1
        return Pending.of(Got(piece, content, self.ready_count))

    def pump(self, now: int) -> None:
        consumer = self._consumer
        while self._waiting and consumer is not None and (room := consumer.room()):
            piece, content = self._take(room)
            self._figures.delivered_no_ack += piece.count
            consumer.deliver(piece, content)

    def _take(self, count_max: int) -> tuple[Slice, bytes]:
        first = self._waiting[0]
        run, count = first.run, min(count_max, first.count)
        self.ready_count -= count
        piece = Slice(self, None, 0, count, first.position, run.exchange, run.routing_key)
        if count == first.count:
            self._waiting.popleft()
        else:
            first.position = skip(run.content, first.position, count)
            first.count -= count
        return piece, run.content

    def settle(self, piece: Slice, outcome: Outcome, now: int) -> None:
        raise AssertionError("replies are never acknowledged, so none can come back")

    def settle_all(self, held: Sequence[HeldSlice], outcome: Outcome, now: int) -> None:
        raise AssertionError("replies are never acknowledged, so none can come back")

    def used(self, now: int) -> None:
        """Lives as long as its session."""

    def browse(self, skip: int, limit: int, now: int) -> Pending[list[Browsed]]:
        raise NotSupported("replies cannot be browsed")

    def purge(self, now: int, by: LogActor | None = None) -> Pending[int]:
        raise NotSupported("replies cannot be purged")

    def policy_changed(self, effective: EffectiveArguments, now: int) -> None:
        """No policy applies to what is not declared."""

    @property
    def accounted_here(self) -> bool:
        return True

    @property
    def is_starving(self) -> bool:
        return False

    def counts(self) -> QueueStatistics:
        return self.statistics()

    def sizes(self) -> QueueStatistics:
        return self.statistics()

    def statistics(self) -> QueueStatistics:
        self._figures.ready = self.ready_count
        self._figures.consumers = self.consumer_count
        return self._figures


class Elsewhere(Protocol):
    """The way to requesters on other nodes."""

    def deliver(self, place: str, vhost: str, run: Run) -> bool:
        """False: there is no such place, or no way there now."""

    def is_there(self, place: str, vhost: str, name: str) -> Pending[bool]:
        """Whether a requester of that name waits at that place. False also when nobody can tell."""


class Replies:
    """Who waits for replies on this node, by the name that was given out."""

    def __init__(self, random_bytes: Callable[[int], bytes]) -> None:
        self._random_bytes = random_bytes
        self._place = ""
        self._elsewhere: Elsewhere | None = None
        self._queues: dict[tuple[str, str], ReplyQueue] = {}

    def join(self, place: str, elsewhere: Elsewhere) -> None:
        """This node is one of several. Before anybody is given a name."""
        assert not self._queues, f"{len(self._queues)} requesters have names that lead to no place"
        assert "." not in place, f"place {place} has a dot"
        self._place, self._elsewhere = place, elsewhere

    def open(self, vhost: str) -> ReplyQueue:
        token = urlsafe_b64encode(self._random_bytes(NAME_RANDOM_BYTES)).decode().rstrip("=")
        name = f"{REPLY_PREFIX}{self._place}.{token}" if self._place else REPLY_PREFIX + token
        queue = ReplyQueue(vhost, name, self._forget)
        self._queues[vhost, queue.record.name] = queue
        return queue

    def is_there(self, vhost: str, name: str) -> Pending[bool]:
        """Whether a requester waits for replies to this name, here or elsewhere."""
        place = self._place_of(name)
        if place == self._place or self._elsewhere is None:
            return Pending.of((vhost, name) in self._queues)
        return self._elsewhere.is_there(place, vhost, name)

    def deliver(self, vhost: str, run: Run, now: int) -> bool:
        """Hand replies to their requester; False when it is gone. What goes elsewhere may find nobody there."""
        queue = self._queues.get((vhost, run.routing_key))
        if queue is not None:
            queue.add(run, now)
            return True
        place = self._place_of(run.routing_key)
        return place != self._place and self._elsewhere is not None and self._elsewhere.deliver(place, vhost, run)

    def _place_of(self, name: str) -> str:
        place, dot, _ = name.removeprefix(REPLY_PREFIX).partition(".")
        return place if dot else ""

    def _forget(self, queue: ReplyQueue) -> None:
        self._queues.pop((queue.record.vhost, queue.record.name), None)

    def close(self, queue: ReplyQueue) -> None:
        """The requester's session ends."""
        self._forget(queue)


def addressed(props: bytes, reply_queue: ReplyQueue | None) -> bytes:
    """The properties of a request with the name that leads back to its requester. Raises PreconditionFailed without one."""
    start, end = property_span(props, "reply_to")
    if props[start + 1 : end] != _RAW_DIRECT_REPLY_TO:
        return props  # a reply name that somebody passes on
    if reply_queue is None:
        raise PreconditionFailed("fast reply consumer does not exist")
    return props[:start] + reply_queue.short_string + props[end:]
