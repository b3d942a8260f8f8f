"""Makes the plan of a failure smaller, as long as it breaks the same promise: fewer faults and questions, a simpler shape.

Delta debugging (Zeller's ddmin): take out large parts first, then smaller ones. Every attempt is a whole run, so their number
is bounded; what is left when it is used up is still a plan that fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from tests.sim.plan import Plan

ATTEMPTS_MAX = 400
SIMPLER: tuple[dict[str, Any], ...] = (
    {"spare": 0},
    {"groups": 1},
    {"clients": 1},
    {"keys": 1},
    {"all_must_heal": 1},
    {"frail": 0},
    {"voters": 3},
    {"net_delay_s": 0.001},
    {"fsync_s": 0.001},
    {"job_s": 0.0},
)
Part = TypeVar("Part")


class Shrinker:
    """`fails` runs a plan and says whether it breaks the same promise."""

    def __init__(self, fails: Callable[[Plan], bool], attempts_max: int = ATTEMPTS_MAX) -> None:
        self.attempts = 0
        self._fails = fails
        self._attempts_max = attempts_max

    def smaller(self, plan: Plan) -> Plan:
        plan = self._without_faults(plan)
        plan = self._simpler(plan)
        asks = self._fewest(plan.asks, lambda left: replace(plan, asks=tuple(left)))
        return self._without_faults(replace(plan, asks=tuple(asks)))

    def _without_faults(self, plan: Plan) -> Plan:
        faults = self._fewest(plan.faults, lambda left: replace(plan, faults=tuple(left)))
        return replace(plan, faults=tuple(faults))

    def _simpler(self, plan: Plan) -> Plan:
        for change in SIMPLER:
            simpler = replace(plan, shape=replace(plan.shape, **change))
            if simpler.shape != plan.shape and self._still_fails(simpler):
                plan = simpler
        return plan

    def _fewest(self, parts: Sequence[Part], plan_of: Callable[[list[Part]], Plan]) -> list[Part]:
        left = list(parts)
        size = max(1, len(left) // 2)
        while left:
            at, found = 0, False
            while at < len(left):
                fewer = left[:at] + left[at + size :]
                if self._still_fails(plan_of(fewer)):
                    left, found = fewer, True
                else:
                    at += size
            if size == 1 and not found:
                break
            size = max(1, size // 2) if not found else min(size, max(1, len(left) // 2))
        return left

    def _still_fails(self, plan: Plan) -> bool:
        if self.attempts >= self._attempts_max:
            return False
        self.attempts += 1
        return self._fails(plan)
