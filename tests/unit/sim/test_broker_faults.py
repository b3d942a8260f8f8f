"""Faults of the world of brokers happen, and what must notice them does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from node import peer_frames
from tests.sim.brokers.plan import draw
from tests.sim.plan import Fault
from tests.sim.run import Outcome, run

SECONDS = 22.0
DAMAGED = tuple(Fault(1.0 + at, "damaged bytes", node=1 + at % 3, span=0.5, value=0.2) for at in range(4))


def outcome_of(*faults: Fault, **shape: Any) -> Outcome:
    """Of these faults and no others."""
    drawn = draw(1, SECONDS)
    return run(replace(drawn, shape=replace(drawn.shape, voters=3, frail=0, all_must_heal=1, **shape), faults=faults))


def test_changed_bytes_end_a_connection_which_is_made_again() -> None:
    outcome = outcome_of(*DAMAGED)
    assert outcome.is_good, outcome.message
    assert outcome.faults == {"damaged bytes": len(DAMAGED)}
    assert outcome.counted["connection made again after damage"] >= len(DAMAGED)
    assert outcome.counted["message confirmed"] > 20


@pytest.mark.parametrize("unchecked", ["_check", "crc32c"])
def test_a_reader_that_believes_changed_bytes_is_found(unchecked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_frames, unchecked, lambda *_: 0)
    assert outcome_of(*DAMAGED).invariant == "frames_say_what_was_sent"
