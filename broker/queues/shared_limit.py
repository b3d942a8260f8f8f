"""A limit of messages that the consumers of one channel share: basic.qos with global=true.

    limit        what may be out to all of them together; 0: no limit. It may change while they run
    outstanding  delivered to those that acknowledge, and not settled: consumers count that, also without a limit
    kept waiting consumers whose queue had something for them when there was no room, the longest first: when room comes back
                 their queues are asked in this order, and who is served goes behind the others

A queue of this node asks for room when it has something to deliver. What a queue elsewhere sends in excess may be held back
(held_back.py): when it is that consumer's turn again, one message of the room that comes back is reserved for it, for
RESERVED_MS, as queues of this node would take it before the message arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from broker.queues.queue_type import Queue

RESERVED_MS = 1_000  # much longer than a message takes from one node to another


class WakingHost(Protocol):
    """What is needed of a broker.queues.queue_type.QueueHost."""

    def wake(self, queue: Queue) -> None: ...

    def call_after(self, delay_ms: int, call: Callable[[int], None]) -> Callable[[], None]: ...


class SharingConsumer(Protocol):
    """A consumer under such a limit."""

    queue: Queue


class SharedLimit:
    """See the module."""

    __slots__ = ("_kept_waiting", "_reserved", "limit", "outstanding")

    def __init__(self) -> None:
        self.limit = 0
        self.outstanding = 0
        self._kept_waiting: dict[
            SharingConsumer, bool
        ] = {}  # True: its queue was woken, and has asked for nothing since
        self._reserved: dict[SharingConsumer, Callable[[], None]] = {}  # for whom, and what ends it

    def room_for(self, consumer: SharingConsumer) -> int:
        """How many messages this consumer may be given now, asked because there are some. Only where there is a limit."""
        reserved = len(self._reserved) - (consumer in self._reserved)
        room = self.limit - self.outstanding - reserved
        if room > 0:
            return room
        self._kept_waiting[consumer] = False  # where it stands already
        return 0

    def served(self, consumer: SharingConsumer) -> None:
        """It was given messages."""
        if self._kept_waiting:  # behind the others, if it is kept waiting again
            self._kept_waiting.pop(consumer, None)
        if self._reserved:
            self._unreserve(consumer)

    def take_waiting(self) -> Iterable[Queue]:
        """The queues to be woken now, if there is room, in their order. Who was woken before and had nothing has left."""
        if not self._kept_waiting or 0 < self.limit <= self.outstanding:
            return ()
        self._kept_waiting = {consumer: True for consumer, woken in self._kept_waiting.items() if not woken}
        return dict.fromkeys(consumer.queue for consumer in self._kept_waiting)

    def reserve(self, consumer: SharingConsumer, host: WakingHost) -> None:
        """One message is on its way to it, perhaps. It is in nobody's way any more."""
        self._kept_waiting.pop(consumer, None)

        def end(_: int) -> None:
            del self._reserved[consumer]
            for queue in self.take_waiting():
                host.wake(queue)

        if consumer not in self._reserved:
            self._reserved[consumer] = host.call_after(RESERVED_MS, end)

    def _unreserve(self, consumer: SharingConsumer) -> None:
        cancel = self._reserved.pop(consumer, None)
        if cancel is not None:
            cancel()

    def leave(self, consumer: SharingConsumer) -> None:
        """It consumes no more. What it holds still counts."""
        self._kept_waiting.pop(consumer, None)
        self._unreserve(consumer)
