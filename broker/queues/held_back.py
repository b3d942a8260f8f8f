"""What the limit of its channel (broker/queues/shared_limit.py) does to a consumer of a queue elsewhere.

Such a queue does not know how much is left of the limit, so it sends as much as the whole of it allows, and the excess waits on
this node. After KEPT_WAITING_MS it goes back to its queue, where others can have it, and the consumer is given nothing
more until it is its turn again.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.queues.consumer import Consumer
from broker.queues.shared_limit import WakingHost

KEPT_WAITING_MS = 1_000  # longer than most clients take for a message, shorter than others should wait for one


class HeldBack:
    """See the module. Of one consumer."""

    __slots__ = ("_consumer", "_forget", "_host", "_is_over", "yes")

    def __init__(self, consumer: Consumer, host: WakingHost) -> None:
        self.yes = False  # its queue is to give it nothing
        self._consumer = consumer
        self._host = host
        self._is_over = False  # what has come for it has waited here for long enough
        self._forget: Callable[[], None] | None = None

    def keep_waiting(self) -> bool:
        """Something waits for it here, and there is no room. False: for too long, so it is held back now."""
        if self._forget is None:
            self._forget = self._host.call_after(KEPT_WAITING_MS, self._has_waited)
        if not self._is_over:
            return True
        self.served()
        self.yes = True
        return False

    def _has_waited(self, _: int) -> None:
        self._is_over = True
        self._host.wake(self._consumer.queue)

    def served(self) -> None:
        """It was given something, or nothing waits for it any more."""
        if self._forget is not None:
            self._forget()
            self._forget = None
            self._is_over = False

    def still(self) -> bool:
        """Whether it is held back. Where there is room again it no longer is, and a part of the room is reserved for it."""
        shared = self._consumer.shared
        if self.yes and shared is not None and self._consumer.shared_left():
            self.yes = False
            shared.reserve(self._consumer, self._host)
        return self.yes
