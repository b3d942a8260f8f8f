"""Faults are counted when they have happened, and not when they were asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.sim.plan import Fault, Plan, Shape, draw
from tests.sim.run import run

SECONDS = 20.0
NEVER = 1_000_000.0  # as many calls no disk gets in a few seconds


def happened(*faults: Fault, seeks: int = 0) -> dict[str, int]:
    drawn = draw(1, SECONDS)
    outcome = run(Plan(1, replace(Shape(), seconds=SECONDS, frail=1, seeks=seeks), faults, drawn.asks))
    assert outcome.is_good, outcome.message
    return outcome.faults


@pytest.mark.parametrize(
    "kind",
    [
        "power cut at a call", "kill at a call", "power cut at a start", "no room for a call", "write fails", "read fails",
        "fsync fails",
    ],
)  # fmt: skip
def test_a_call_that_never_came_did_not_fail(kind: str) -> None:
    assert happened(Fault(1.0, kind, node=1, span=0.5, value=NEVER)) == {}


@pytest.mark.parametrize("kind", ["power cut at a call", "kill at a call", "power cut at a start", "fsync fails"])
def test_a_call_that_came_failed_once(kind: str) -> None:
    assert happened(Fault(1.0, kind, node=1, span=0.5, value=1.0)) == {kind: 1}


@pytest.mark.parametrize("kind", ["isolate", "delay", "flapping", "one way cut", "clog", "slow fsync", "lying fsync"])
def test_nothing_happens_to_a_node_that_is_down(kind: str) -> None:
    dead = Fault(1.0, "kill", node=1, span=3.0)
    assert happened(dead, Fault(1.5, kind, node=1, other=2, span=0.5, value=0.2)) == {"kill": 1}
    assert happened(Fault(1.5, kind, node=1, other=2, span=2.0, value=0.2)) == {kind: 1}


def test_a_node_that_writes_is_stopped_in_order_as_soon_as_it_does_not() -> None:
    assert happened(Fault(1.0, "clean stop", node=1, span=0.5)) == {"clean stop": 1}


def test_a_copy_of_a_disk_that_nobody_was_put_on_is_no_old_disk() -> None:
    """The node is down and its disk replaced before the copy is taken out."""
    wiped = Fault(1.5, "wiped disk", node=1, span=0.2)
    assert happened(Fault(1.0, "old disk", node=1, span=0.2, value=1.0), wiped) == {"wiped disk": 1}


def test_a_change_that_is_refused_did_not_happen() -> None:
    """There is no spare node to add, and nothing to promote."""
    assert happened(Fault(1.0, "add member", node=0), Fault(1.5, "promote", node=0)) == {}


@pytest.mark.parametrize("kind", ["kill", "pause", "isolate", "reset", "write fails"])
def test_a_fault_that_seeks_hits_another_node_when_its_own_is_down(kind: str) -> None:
    dead, fault = Fault(1.0, "kill", node=1, span=3.0), Fault(1.5, kind, node=1, other=1, span=0.5, value=1.0)
    told = happened(dead, fault, seeks=1)
    assert sum(told.values()) == 2, told
    assert sum(happened(dead, fault).values()) == 1


def test_what_is_lost_without_a_word_is_lost_only_where_it_was_meant_to_be() -> None:
    dead = Fault(1.0, "kill", node=1, span=3.0)
    assert happened(dead, Fault(1.5, "lying fsync", node=1, span=0.5), seeks=1) == {"kill": 1}


def test_a_disk_may_follow_several_rules_at_once() -> None:
    late = Fault(1.0, "write fails", node=1, span=0.5, value=30.0)
    soon = Fault(1.1, "read fails", node=1, span=0.5, value=NEVER)
    assert happened(late, soon, seeks=1) == {"write fails": 1}
    assert happened(late, soon) == {}
