"""What a campaign says of itself."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from tests.sim.brokers.layer import LAYER
from tests.sim.campaign import ASKED_OFTEN, Totals


def totals(faults: int, confirmed: int) -> Totals:
    one = Totals(replace(LAYER, big=1), seeds=1)
    one.faults, one.counted = Counter(kill=faults), Counter({"message confirmed": confirmed})
    return one


def test_a_big_campaign_in_which_nobody_is_served_between_faults_is_told_of() -> None:
    assert [told for told in totals(100, 99).never_reached() if told.startswith("progress")]
    assert not [told for told in totals(100, 100).never_reached() if told.startswith("progress")]


def test_a_small_campaign_tells_of_a_fault_that_never_happened_however_often_it_was_asked_for() -> None:
    """A word of the log came to mean another thing, and no simulated node was stopped in order any more."""
    one = Totals(
        LAYER, seeds=1, asked=Counter({"clean stop": ASKED_OFTEN, "kill": ASKED_OFTEN, "drain": ASKED_OFTEN - 1})
    )
    one.faults = Counter(kill=1)
    assert one.never_reached() == [f"fault: clean stop, asked for {ASKED_OFTEN} times"]
