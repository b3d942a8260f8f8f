"""A limit that consumers share, by itself; with queues it is in tests/contract/test_shared_limit.py."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from broker.queues.shared_limit import RESERVED_MS, SharedLimit

NOW = 5_000


class Host:
    """Notes who is woken, and what is to be called how much later."""

    def __init__(self) -> None:
        self.woken: list[Any] = []
        self.calls: dict[int, Callable[[int], None]] = {}

    def wake(self, queue: Any) -> None:
        self.woken.append(queue)

    def call_after(self, delay_ms: int, call: Callable[[int], None]) -> Callable[[], None]:
        self.calls[delay_ms] = call
        return lambda: self.calls.pop(delay_ms, None) and None


class Consumer(SimpleNamespace):
    """One of them, of a queue with its own name."""

    __hash__ = object.__hash__

    def __init__(self, queue: Any) -> None:
        super().__init__(queue=queue)


def limited() -> tuple[SharedLimit, Host, Consumer, Consumer]:
    """One message for both: it is reserved for the first, and the second waits."""
    limit, host, first, second = SharedLimit(), Host(), Consumer("first"), Consumer("second")
    limit.limit = 1
    limit.reserve(first, host)
    assert (limit.room_for(first), limit.room_for(second)) == (1, 0)
    return limit, host, first, second


def test_who_waits_is_woken_when_nothing_came_of_a_reservation() -> None:
    limit, host, _, second = limited()
    assert host.woken == []
    host.calls.pop(RESERVED_MS)(NOW)
    assert host.woken == ["second"]
    assert limit.room_for(second) == 1


def test_what_was_reserved_for_one_that_leaves_is_there_for_the_others() -> None:
    limit, host, first, second = limited()
    limit.leave(first)
    assert host.calls == {}, "nothing is to end any more"
    assert list(limit.take_waiting()) == ["second"]
    assert limit.room_for(second) == 1
