"""How fast messages may come in: limits `max-message-rate` and `max-byte-rate` of vhosts and users, per second and node.

Whoever publishes faster is held, not refused: what it has published is taken, and its next publish waits until that much may
have come (`charge`). All clients of a user, or of a vhost, share one allowance; of both kinds of limit the slower one counts.
Bytes are those of bodies. After a pause as much as BURST_MS allow comes at once.

A limit is kept as the time at which all that was taken will have been allowed, so charging is an addition. When it is changed
or lifted, those that wait hear of it within CHECK_AGAIN_MS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf

from broker.catalog.catalog import Catalog
from broker.limits import BYTE_RATE, MESSAGE_RATE
from broker.pending import Pending
from broker.records import UserRecord, VhostRecord
from broker.timers import Delays

BURST_MS = 100
CHECK_AGAIN_MS = 1_000

# "vhost" or "user", and its name
Limited = tuple[str, str]


@dataclass(slots=True)
class Allowance:
    """Of one user or vhost, under the limits that it had when this was made."""

    limits: Mapping[str, int]
    paid_at: float = -inf  # by the monotonic clock, ms: when all that was taken will have been allowed

    def charge(self, messages: int, size: int, now: int) -> float:
        """Take this much. When the next may come: not later than now, if that is at once."""
        cost_ms = max(self._ms(MESSAGE_RATE, messages), self._ms(BYTE_RATE, size))
        self.paid_at = max(self.paid_at, now - BURST_MS) + cost_ms
        return self.paid_at

    def _ms(self, limit: str, amount: int) -> float:
        per_second = self.limits.get(limit)
        if per_second is None or not amount:
            return 0.0
        return amount * 1_000 / per_second if per_second else inf


class RateLimits:
    """See the module. Of one node's broker."""

    def __init__(self, catalog: Catalog, delays: Delays) -> None:
        self.limited = catalog.rate_limited  # empty: nobody is charged
        self.held_total = 0  # publishes whose successors had to wait
        self.holding = 0  # channels and connections that wait now
        self._catalog = catalog
        self._delays = delays
        self._allowances: dict[Limited, Allowance] = {}

    def charge(
        self, vhost: str, user: str, messages: int, size: int, is_gone: Callable[[], bool]
    ) -> Pending[None] | None:
        """This much was published. None: the next may follow at once; otherwise when this is answered. `is_gone`: whether
        nobody waits for that any more."""
        now = self._delays.now_ms()
        waits = [
            (due, whose, allowance)
            for whose in (("vhost", vhost), ("user", user))
            if (allowance := self._allowance(whose)) is not None
            and (due := allowance.charge(messages, size, now)) > now
        ]
        if not waits:
            return None
        self.held_total += 1
        self.holding += 1
        answer: Pending[None] = Pending()
        due, whose, allowance = max(waits, key=lambda one: one[0])
        self._wait(answer, due, lambda: is_gone() or self._allowance(whose) is not allowance)
        return answer

    def _allowance(self, whose: Limited) -> Allowance | None:
        """None: it has no such limit."""
        if whose not in self.limited:
            self._allowances.pop(whose, None)
            return None
        limits = self._record(whose).limits
        found = self._allowances.get(whose)
        if found is None or found.limits != limits:
            found = self._allowances[whose] = Allowance(limits)
        return found

    def _record(self, whose: Limited) -> VhostRecord | UserRecord:
        kind, name = whose
        return self._catalog.vhosts[name] if kind == "vhost" else self._catalog.users[name]

    def _wait(self, answer: Pending[None], due: float, is_void: Callable[[], bool]) -> None:
        def check(_: int) -> None:
            if due <= self._delays.now_ms() or is_void():
                self.holding -= 1
                answer.resolve(None)
            else:
                self._wait(answer, due, is_void)

        self._delays.call_after(int(min(due + 1 - self._delays.now_ms(), CHECK_AGAIN_MS)), check)
