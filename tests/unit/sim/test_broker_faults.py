"""Faults of the world of brokers happen, and what must notice them does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from node.identity import NodeIdentity
from node.peers import frames as peer_frames
from tests.sim.brokers.plan import draw
from tests.sim.plan import Ask, Fault
from tests.sim.run import Outcome, run

SECONDS = 22.0
DAMAGED = tuple(Fault(1.0 + at, "damaged bytes", node=1 + at % 3, span=0.5, value=0.2) for at in range(4))


def outcome_of(*faults: Fault, asks: tuple[Ask, ...] = (), **shape: Any) -> Outcome:
    """Of these faults and no others, and of what is asked for besides."""
    drawn = draw(1, SECONDS)
    shaped = replace(drawn.shape, voters=3, frail=0, all_must_heal=1, **shape)
    return run(replace(drawn, shape=shaped, faults=faults, asks=(*drawn.asks, *asks)))


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


KILLED_RAM_NODE = tuple(Fault(at, "kill", node=4, span=0.3) for at in (2.0, 6.0))


def test_a_ram_node_asks_for_the_catalog_at_each_start() -> None:
    outcome = outcome_of(*KILLED_RAM_NODE, ram=1, seeks=0)
    assert outcome.is_good, outcome.message
    assert outcome.faults == {"kill": 2}
    assert outcome.counted["RAM node began with the catalog of the others"] == 3


def test_a_ram_node_whose_next_member_has_the_number_of_the_last_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader believes that it has still what the one before had acknowledged."""
    monkeypatch.setattr(NodeIdentity, "renew_disk", lambda _: None)
    assert not outcome_of(*KILLED_RAM_NODE, ram=1, seeks=0).is_good


@pytest.mark.parametrize("seconds", [-3600.0, 3600.0])
def test_the_wall_clock_of_one_node_jumps(seconds: float) -> None:
    outcome = outcome_of(*(Fault(1.0 + node, "wall clock jump", node=node, value=seconds) for node in (1, 2)))
    assert outcome.is_good, outcome.message
    assert outcome.faults == {"wall clock jump": 2}
    assert outcome.counted["message confirmed"] > 20


CONVERT = tuple(Ask(at, 1, 0, "convert", "turning-4", 0) for at in (2.0, 4.0, 6.0, 8.0))


def test_the_home_of_a_queue_that_is_converted_ends_behind_its_fence() -> None:
    ends = tuple(Fault(ask.at, "end in mid change", span=0.5, value=0.002) for ask in CONVERT)
    outcome = outcome_of(*ends, asks=CONVERT, converted="turning-4")
    assert outcome.is_good, outcome.message
    assert outcome.faults["end in mid change"] > 0
    assert outcome.counted["conversion cut behind its fence"] > 0


def test_a_queue_is_converted_while_a_node_does_not_hear_of_it() -> None:
    blind = tuple(Fault(CONVERT[0].at - 0.1, "catalog out of reach", node=node, span=3.0) for node in (1, 2, 3))
    outcome = outcome_of(*blind, asks=CONVERT, converted="turning-4")
    assert outcome.is_good, outcome.message
    assert outcome.faults["catalog out of reach"] > 0
    assert outcome.counted["queue converted"] == 1
