"""One consumer of this node: what the queue has given it, and what of that its client has not been given yet.

Deliveries carry ids that ascend without gaps, whoever brings them: the member here, the leader's node, or a look at what the
machine says is out. So what comes twice is seen, and what is missing too.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from broker.queues.consumer import Consumer
from broker.queues.held_back import HeldBack
from broker.queues.queue_type import Queue, Slice
from broker.queues.shared_limit import WakingHost
from quorum.ahead import Ahead
from quorum.bodies import Body, count_headers
from quorum.fifo.commands import Piece
from quorum.fifo.consumers import UNLIMITED_WINDOW

FIRST_ID = 1  # of a consumer's deliveries


class WaitingDelivery(NamedTuple):
    """Messages for the consumer. `source` is where they are: in the log here, or brought along."""

    first_id: int
    length: int
    delivery_count: int
    acquired_count: int
    source: Piece | Body


class Subscription:
    """See the module."""

    __slots__ = (
        "ahead", "consumer", "first_window", "held_back", "known", "next_id", "number", "stopped", "waiting", "window",
    )  # fmt: skip

    def __init__(self, consumer: Consumer, number: int, host: WakingHost) -> None:
        self.consumer = consumer
        self.number = number
        self.first_window = consumer.window or UNLIMITED_WINDOW  # what the group is told when it begins
        self.window = self.first_window  # what the group was told last
        self.held_back = HeldBack(consumer, host)
        self.ahead = Ahead()
        self.stopped = False  # the group has heard that it is held back: what still comes goes back
        self.known = False  # to the group, and so to the client
        self.next_id = FIRST_ID  # of the first message that has not come
        self.waiting: deque[WaitingDelivery] = deque()  # until the client can be written to

    def wanted_window(self) -> int:
        """How many messages the group may have out to it."""
        if self.consumer.no_ack:
            return self.first_window
        return 0 if self.held_back.still() else (self.consumer.window or UNLIMITED_WINDOW) + self.ahead.messages

    @property
    def own_window(self) -> int:
        """How many messages its client may hold, where that depends on nothing else; else 0."""
        consumer = self.consumer
        shares = consumer.shared is not None and consumer.shared.limit
        return 0 if consumer.no_ack or shares else consumer.prefetch

    @property
    def first_unseen(self) -> int:
        """Id of the first message that its client was not given."""
        return self.waiting[0].first_id if self.waiting else self.next_id

    def skip_to(self, first_id: int) -> None:
        """What was before it is out no more, and will not come."""
        self.next_id = max(self.next_id, first_id)

    def take_back(self) -> None:
        """What the client was not given yet is to come again, from somewhere else."""
        if self.waiting:
            self.next_id = self.waiting[0].first_id
            self.waiting.clear()

    def take(self, portion: WaitingDelivery) -> bool:
        """False: something before it is missing."""
        if portion.first_id > self.next_id:
            return False
        end = portion.first_id + portion.length
        if end <= self.next_id:
            return True
        missed = self.next_id - portion.first_id
        if missed:
            portion = without_first(portion, missed)
        self.waiting.append(portion)
        self.next_id = end
        return True


class Departed:
    """A consumer whose client has left. What still comes for it goes back, where a queue of an earlier version has handed out
    to it again what went back when it left (quorum/fifo/versions.py, WINDOWS_CHANGE)."""

    __slots__ = ("known_at", "next_id")

    def __init__(self, next_id: int) -> None:
        self.next_id = next_id  # of the first message that has not come; what came before is the client's to settle
        self.known_at: int | None = (
            None  # index of a state in which it is known to have left; None: it is not known yet
        )


def without_first(portion: WaitingDelivery, count: int) -> WaitingDelivery:
    source = portion.source
    if isinstance(source, Piece):
        source = source._replace(first=source.first + count, length=source.length - count)
    else:
        source = source.after(count)
    return portion._replace(first_id=portion.first_id + count, length=portion.length - count, source=source)


def slice_of(queue: Queue, number: int, delivery: WaitingDelivery, body: Body) -> Slice:
    """What a session is given of it; `number` is that of the consumer or get."""
    headers = count_headers(delivery.delivery_count, delivery.acquired_count)
    redelivered = bool(delivery.acquired_count) or body.delivered_elsewhere
    return Slice(
        queue, number, delivery.first_id, delivery.length, body.position, body.exchange, body.routing_key, redelivered,
        headers,
    )  # fmt: skip
