"""A reply with a timeout: for requests that need a leader while the queue may have none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from broker.errors import BrokerError
from broker.pending import Pending
from broker.queues.queue_type import QueueHost

WAIT_MS = 15_000  # as long as a channel waits for an operation in RabbitMQ

T = TypeVar("T")


class ReplyTimeout(Generic[T]):
    """One reply. `resolve` tells whether it was in time."""

    __slots__ = ("_cancel", "answer")

    def __init__(self, host: QueueHost, error: Callable[[], BrokerError]) -> None:
        self.answer: Pending[T] = Pending()
        self._cancel = host.call_after(WAIT_MS, lambda _: self.fail(error()))

    def resolve(self, value: T) -> bool:
        """False: nobody waits for it any more."""
        if self.answer.answered:
            return False
        self._cancel()
        self.answer.resolve(value)
        return True

    def fail(self, error: BrokerError) -> None:
        if not self.answer.answered:
            self._cancel()
            self.answer.fail(error)
