"""replicated/reply_timeout.py: one answer, in time or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker.errors import ResourceExhausted
from replicated.reply_timeout import WAIT_MS, ReplyTimeout

NOW = 1_000


class Host:
    """Timers that the test lets run out."""

    def __init__(self) -> None:
        self.timers: dict[int, Callable[[int], None]] = {}

    def call_after(self, delay_ms: int, call: Callable[[int], None]) -> Callable[[], None]:
        self.timers[delay_ms] = call
        return lambda: self.timers.pop(delay_ms) and None


def reply(host: Any) -> tuple[ReplyTimeout[str], list[str]]:
    waited: ReplyTimeout[str] = ReplyTimeout(host, lambda: ResourceExhausted("no leader"))
    told: list[str] = []
    waited.answer.then(told.append, lambda error: told.append(error.text))
    return waited, told


def test_an_answer_in_time_is_told_and_ends_the_waiting() -> None:
    host = Host()
    waited, told = reply(host)
    assert list(host.timers) == [WAIT_MS]
    assert waited.resolve("done") and told == ["done"]
    assert host.timers == {}


def test_an_answer_that_comes_too_late_is_told_to_nobody() -> None:
    host = Host()
    waited, told = reply(host)
    host.timers[WAIT_MS](NOW)
    assert told == ["no leader"]
    assert not waited.resolve("done")
    assert told == ["no leader"]


def test_a_failure_ends_the_waiting_and_counts_once() -> None:
    host = Host()
    waited, told = reply(host)
    waited.fail(ResourceExhausted("deleted"))
    assert host.timers == {}
    waited.fail(ResourceExhausted("again"))
    assert told == ["deleted"]
