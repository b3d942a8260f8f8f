"""leveretctl node decommission: what it shows, what it asks, and how it ends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from front.node_ports import DecommissionProgress
from leveret.ctl.terminal import exits
from tests.unit.client.test_ctl import Ctl, node
from tests.unit.front.grpc.fakes import FakeCluster, Running

__all__ = ["node"]  # the fixture


@pytest.fixture
def leveretctl(node: Running, capsys: pytest.CaptureFixture[str]) -> Ctl:
    return Ctl(node.target, capsys)


@pytest.fixture
def cluster(node: Running) -> Iterator[FakeCluster]:
    yield node.cluster
    node.cluster.asked.clear()
    node.cluster.obstacles.clear()
    node.cluster.phases.clear()


def test_a_dry_run_shows_what_moves_and_what_is_lost_and_begins_nothing(leveretctl: Ctl, cluster: FakeCluster) -> None:
    shown = leveretctl("node", "decommission", "--dry-run")
    assert "1 replicated queues have a member on node 'n1'; 5 B are to be sent" in shown
    assert "lost: 1 classic queues with 7 messages" in shown
    plan = leveretctl.json("node", "decommission", "--dry-run")
    assert ([move["to"] for move in plan["moves"]], plan["lost"][0]["messages"]) == (["n2"], 7)
    cluster.obstacles.append("it rains")
    leveretctl("node", "decommission", "--dry-run", code=exits.TEMPORARY)
    assert cluster.asked == []


def test_who_types_another_name_begins_nothing(leveretctl: Ctl, cluster: FakeCluster) -> None:
    said = leveretctl("node", "decommission", "--confirm", "n2", code=exits.DATA)
    assert "this is node 'n1', and 'n2' was typed: nothing was begun" in said
    assert cluster.asked == []


def test_it_is_followed_until_the_node_has_left(leveretctl: Ctl, cluster: FakeCluster) -> None:
    cluster.phases += [DecommissionProgress("n1", *one) for one in (("draining",), ("moving", 1, 2), ("left", 2, 2))]
    said = leveretctl("node", "decommission", "--confirm", "n1", "--lose-queues").splitlines()
    assert said[:2] == ["draining ...", "moving: 1 of 2 queues are done"]
    assert said[2].startswith("node 'n1' has left its cluster")
    assert cluster.asked == ["decommission and lose queues"]


def test_what_failed_is_told_and_may_work_later(leveretctl: Ctl, cluster: FakeCluster) -> None:
    cluster.phases.append(DecommissionProgress("n1", "failed", 1, 2, "queue 'q' has no leader"))
    leveretctl("node", "decommission", "--confirm", "n1", code=exits.TEMPORARY)
    assert cluster.asked == ["decommission"]


def test_what_is_in_the_way_is_told_once_and_waited_for(leveretctl: Ctl, cluster: FakeCluster) -> None:
    waits = DecommissionProgress("n1", "waiting", 1, 2, "n2 is down")
    cluster.phases += [waits, waits, DecommissionProgress("n1", "left", 2, 2)]
    said = leveretctl("node", "decommission", "--confirm", "n1").splitlines()
    assert said[:-1] == ["waiting, and going on by itself: n2 is down"]


def test_it_is_taken_back(leveretctl: Ctl, cluster: FakeCluster) -> None:
    assert leveretctl("node", "decommission", "--cancel").strip() == "node 'n1' stays in its cluster"
    assert cluster.asked == ["stay"]
