"""When a queue's messages, and the queue itself, come to their end of life: its two timers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from broker.catalog.policy import EffectiveArguments
from broker.queues.queue_type import EXPIRES_RETRY_MS, UNUSED, Queue, QueueHost


def expiry_of(expiration_ms: int | None, effective: EffectiveArguments, now: int) -> int | None:
    """When a message published now dies of old age: its own time to live or the queue's, whichever is shorter."""
    ttl = effective.message_ttl_ms
    if expiration_ms is None:
        return None if ttl is None else now + ttl
    return now + (expiration_ms if ttl is None else min(expiration_ms, ttl))


class Alarm:
    """One call that is due at some time, `when`. Setting it to the time it has costs nothing."""

    __slots__ = ("_cancel", "_host", "when")

    def __init__(self, host: QueueHost) -> None:
        self._host = host
        self.when: int | None = None
        self._cancel: Callable[[], None] | None = None

    def set(self, when: int | None, call: Callable[[int], None]) -> None:
        """Call at this time, and no more at the time set before. None: not at all."""
        if when == self.when:
            return
        if self._cancel is not None:
            self._cancel()
        self.when, self._cancel = when, None
        if when is not None:
            self._cancel = self._host.call_at(when, lambda now: self._ring(call, now))

    def _ring(self, call: Callable[[int], None], now: int) -> None:
        self.when = self._cancel = None
        call(now)

    def cancel(self) -> None:
        self.set(None, lambda now: None)


class DisusedQueue(Queue, Protocol):
    @property
    def deleted(self) -> bool: ...


class Disuse:
    """What `x-expires` says: a queue that has no consumers goes when nobody has used it for so long."""

    __slots__ = ("_alarm", "_expires_ms", "_host", "used_at")

    def __init__(self, host: QueueHost, now: int) -> None:
        self.used_at = now
        self._host = host
        self._alarm = Alarm(host)
        self._expires_ms: int | None = None

    def watch(self, queue: DisusedQueue, expires_ms: int | None) -> None:
        """It was used, or something else holds for it. None: it may lie there for ever."""
        self._expires_ms = expires_ms
        self._alarm.set(None if expires_ms is None else self.used_at + expires_ms, partial(self._ring, queue))

    def _ring(self, queue: DisusedQueue, now: int) -> None:
        expires_ms = self._expires_ms
        if queue.deleted or expires_ms is None:
            return
        if queue.consumer_count:
            self.used_at = now
        if now >= self.used_at + expires_ms:
            self._host.delete_queue(queue, UNUSED, partial(self._is_as_unused, queue, self.used_at))
            self._alarm.set(now + EXPIRES_RETRY_MS, partial(self._ring, queue))
        else:
            self.watch(queue, expires_ms)

    def _is_as_unused(self, queue: DisusedQueue, used_at: int) -> bool:
        return not (queue.deleted or queue.consumer_count) and self.used_at == used_at

    def cancel(self) -> None:
        self._alarm.cancel()
