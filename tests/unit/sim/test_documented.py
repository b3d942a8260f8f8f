"""docs/simulation.md names every kind of fault and every invariant, and nothing else in its tables."""

from __future__ import annotations

import re
from pathlib import Path

from tests.sim.brokers.faults import BROKER_HAPPENINGS
from tests.sim.brokers.invariants import BROKER_INVARIANTS
from tests.sim.brokers.plan import BROKER_KINDS
from tests.sim.engine_faults import ENGINE_HAPPENINGS
from tests.sim.invariants import INVARIANTS
from tests.sim.plan import KINDS

TEXT = (Path(__file__).parents[3] / "docs" / "simulation.md").read_text()


def named_in(section: str) -> list[str]:
    """What stands in the first column of its table."""
    rest = re.split(f"\n##+ {section}\n", TEXT)[1]
    rows = [line.split("|")[1] for line in rest.partition("\n##")[0].splitlines() if line.startswith("| `")]
    return [name for row in rows for name in re.findall("`([^`]+)`", row)]


def test_the_table_of_faults_is_whole() -> None:
    assert sorted(named_in("Faults")) == sorted(KINDS)


def test_the_table_of_faults_of_brokers_is_whole() -> None:
    assert sorted(named_in("Faults of brokers")) == sorted(set(BROKER_KINDS) - set(KINDS))


def test_every_kind_of_fault_can_happen() -> None:
    assert sorted(ENGINE_HAPPENINGS) == sorted(KINDS)
    assert sorted(BROKER_HAPPENINGS) == sorted(BROKER_KINDS)


def test_the_table_of_invariants_is_whole() -> None:
    assert sorted(named_in("Invariants")) == sorted(INVARIANTS)


def test_the_table_of_invariants_of_brokers_is_whole() -> None:
    assert sorted(named_in("Invariants of brokers")) == sorted(BROKER_INVARIANTS)
