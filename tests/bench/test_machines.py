"""What is computed from measurements: tests/bench/cores.py and at_rest.py."""

from __future__ import annotations

import pytest

from tests.bench.at_rest import Asked, Load, Unit, Units, difference, of_a_node, pings_per_second
from tests.bench.cores import Cost


def test_by_chance_one_client_in_so_many_is_at_its_queues_node() -> None:
    cost = Cost(home=1.0, elsewhere=2.0)
    assert cost.per_second_at_home(4) == 4e6
    assert cost.per_second_by_chance(1) == 1e6
    assert cost.per_second_by_chance(4) == pytest.approx(4e6 / (0.25 + 1.5))


def test_one_of_so_many_costs_a_node_its_part_of_the_difference() -> None:
    found = difference(Load(3_600, 0.6), 3, Load(600, 0.3), 3, 100)
    assert found.memory == pytest.approx(10.0)
    assert found.cores == pytest.approx(0.001)
    assert (
        difference(Load(3_600, 0.1), 3, Load(600, 0.3), 3, 100).cores == 0.0
    )  # no work, but for what is measured wrong


def test_a_node_knows_all_queues_and_neighbours_and_has_its_share_of_members() -> None:
    units = Units(Unit(1_000.0, 0.1), Unit(10.0, 0.01), Unit(1.0, 0.0), Unit(0.0, 0.002), Unit(5.0, 0.001))
    node = of_a_node(units, Asked(nodes=10, queues=100, quorum_share=0.5))
    assert node.memory == 1_000 + 9 * 10 + 100 + 15 * 5
    assert node.cores == pytest.approx(0.1 + 9 * 0.01 + 5 * 0.002 + 15 * 0.001)
    assert pings_per_second(10) == 360
