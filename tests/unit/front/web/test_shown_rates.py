"""Rates: between looks that are a step apart."""

from __future__ import annotations

from typing import Any

import pytest

from front.web import shown_rates
from front.web.shown_rates import KEPT_MS, STEP_MS, ShownRates


class Looks:
    """Somebody who looks at what has counted, at times of the test's choice."""

    def __init__(self) -> None:
        self.now = 1_000_000
        self.rates = ShownRates(lambda: self.now)

    def look(self, publish: int, key: str = "queue", after_ms: int = STEP_MS) -> float:
        self.now += after_ms
        shown: dict[str, Any] = {"name": "q", "publish": publish, "publish_details": {"rate": 0.0}}
        found: float = self.rates.fill(key, shown)["publish_details"]["rate"]
        return found


def test_who_looks_again_sees_what_came_in_between() -> None:
    looks = Looks()
    assert [looks.look(0), looks.look(50), looks.look(50), looks.look(150, after_ms=2 * STEP_MS)] == [
        0.0,
        10.0,
        0.0,
        10.0,
    ]


def test_looks_within_a_step_see_the_same_whoever_looks() -> None:
    looks = Looks()
    looks.look(0)
    assert [looks.look(50), looks.look(60, after_ms=1), looks.look(900, after_ms=STEP_MS - 2)] == [10.0, 10.0, 10.0]
    assert looks.look(100, key="another") == 0.0


@pytest.mark.parametrize("after_ms", [KEPT_MS + 1, -1_000])
def test_an_old_look_or_a_clock_that_was_set_back_is_no_rate(after_ms: int) -> None:
    looks = Looks()
    looks.look(0)
    assert looks.look(1_000, after_ms=after_ms) == 0.0


def test_what_begins_to_count_anew_has_no_negative_rate() -> None:
    looks = Looks()
    looks.look(1_000)
    assert looks.look(3) == 0.0


def test_what_nobody_looked_at_for_longest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown_rates, "SAMPLED_MAX", 2)
    looks = Looks()
    for key in ("a", "b", "c"):
        looks.look(0, key)
    assert [looks.look(500, "b"), looks.look(500, "a")] == [50.0, 0.0]
