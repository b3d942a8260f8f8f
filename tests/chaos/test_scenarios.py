"""The table of scenarios: documented, and made of faults that exist."""

from __future__ import annotations

import re
from pathlib import Path

from tests.chaos.kinds import FAULTS, Fault
from tests.chaos.scenarios import BY_NAME, SCENARIOS, SHORT

DOCUMENT = Path(__file__).parents[2] / "docs" / "chaos.md"


def test_the_document_lists_all_scenarios_in_their_order() -> None:
    rows = re.findall(r"^\| ([a-z-]+) \| [345]", DOCUMENT.read_text(), re.MULTILINE)
    assert rows == [scenario.name for scenario in SCENARIOS]


def test_every_kind_of_fault_is_used_and_can_be_done() -> None:
    used = frozenset[Fault]().union(*(scenario.faults for scenario in SCENARIOS))
    assert used == set(Fault) == set(FAULTS)


def test_the_short_selection_exists() -> None:
    assert set(SHORT) <= set(BY_NAME)


def test_logs_must_prove_each_queue_unless_a_disk_is_damaged_put_aside_or_full() -> None:
    assert BY_NAME["leader-killed"].logs_are_kept
    assert BY_NAME["power-cut-of-all"].logs_are_kept
    may_not_know = {scenario.name for scenario in SCENARIOS if not scenario.logs_are_kept}
    assert may_not_know == {
        "forgotten-and-joined", "decommission-cut-short", "survive-cut-short", "disk-full", "home-disk-full",
        "home-disk-nearly-full", "home-killed-on-a-full-disk", "rotten-log", "shortened-log", "wiped-disk",
        "old-copy-of-a-disk",
    }  # fmt: skip
