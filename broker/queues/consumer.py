"""A subscription as its queue sees it: who it is, what it may take now, and where deliveries go.

The queue decides whose turn it is; the consumer says how many messages it has room for and passes what it gets to its
session. `outstanding <= prefetch` whenever prefetch is set and every message is acknowledged by hand. The consumers of a
channel may have a limit together, beside (broker/queues/shared_limit.py).
"""

from __future__ import annotations

from typing import Any, Protocol

from broker.actors import LogActor
from broker.queues.queue_type import Queue, Slice
from broker.queues.shared_limit import SharedLimit

# A consumer without prefetch still takes its messages in portions, so that one never starves the others.
UNLIMITED_PORTION = 2048


class DeliverySink(Protocol):
    """Where a consumer's messages go: a session, or an internal consumer."""

    @property
    def writable(self) -> bool:
        """False while the client reads too slowly; `Queue.pump` is called again when that ends."""

    def deliver(self, consumer: Consumer, piece: Slice, content: bytes) -> None:
        """Hand these messages to the client. `content` holds them from `piece.position` on."""

    def consumer_cancelled(self, consumer: Consumer) -> None:
        """The queue ended this subscription: it was deleted, or the consumer has not settled in time (`timed_out`)."""


class Consumer:
    """One subscription."""

    __slots__ = (
        "active", "actor", "arguments", "delivered", "exclusive", "no_ack", "outstanding", "prefetch", "priority", "queue",
        "session_ends", "shared", "sink", "tag", "timed_out", "timeout_ms",
    )  # fmt: skip

    def __init__(
        self,
        tag: str,
        queue: Queue,
        sink: DeliverySink,
        *,
        no_ack: bool = False,
        prefetch: int = 0,
        exclusive: bool = False,
        priority: int = 0,
        arguments: dict[str, Any] | None = None,
        shared: SharedLimit | None = None,
        actor: LogActor | None = None,
    ) -> None:
        self.tag = tag
        self.actor = actor
        self.queue = queue
        self.sink = sink
        self.no_ack = no_ack
        self.prefetch = prefetch  # messages that may be outstanding; 0 is no limit. Never limits a no_ack consumer
        self.exclusive = exclusive
        self.priority = priority
        self.arguments = arguments or {}
        self.shared = None if no_ack else shared  # with the other consumers of its channel
        self.outstanding = 0  # delivered and not settled yet
        self.delivered = 0  # ever
        self.active = True  # False while another consumer is the queue's single active one
        self.timeout_ms: int | None = None  # within which its queue wants what it delivers settled; None: for ever
        self.session_ends = False  # when it is cancelled: all that it holds comes back next
        self.timed_out = False  # why its queue ended it: it did not settle in time

    def room(self) -> int:
        """How many messages it may be given now."""
        return self.prefetch_left() if self.active and self.sink.writable else 0

    def prefetch_left(self) -> int:
        """How many more its prefetch and its channel's allow it to hold; asked when there are messages for it."""
        if self.no_ack:
            return UNLIMITED_PORTION
        left = self.prefetch - self.outstanding if self.prefetch else UNLIMITED_PORTION
        if left <= 0:
            return 0
        if left > UNLIMITED_PORTION:
            left = UNLIMITED_PORTION
        shared = self.shared
        return left if shared is None or not shared.limit else min(left, shared.room_for(self))

    def shared_left(self) -> int:
        """How many more the limit of its channel allows it to be given."""
        shared = self.shared
        return shared.room_for(self) if shared is not None and shared.limit else UNLIMITED_PORTION

    @property
    def window(self) -> int:
        """For a queue elsewhere: how many messages may be out to it at most, or on their way. 0 is no limit."""
        if self.no_ack:
            return 0
        prefetch, shared = self.prefetch, self.shared.limit if self.shared is not None else 0
        return min(prefetch, shared) if prefetch and shared else prefetch or shared

    def deliver(self, piece: Slice, content: bytes) -> None:
        if not self.no_ack:
            self.outstanding += piece.count
            shared = self.shared
            if shared is not None:
                shared.outstanding += piece.count
                if shared.limit:
                    shared.served(self)
        self.sink.deliver(self, piece, content)

    def settled(self, count: int) -> None:
        """So many of those that it was given have come back."""
        self.outstanding -= count
        shared = self.shared
        if shared is not None:
            shared.outstanding -= count
            assert shared.outstanding >= 0, f"{-shared.outstanding} messages more were settled than were out"
