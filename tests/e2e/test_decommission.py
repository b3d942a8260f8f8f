"""A node leaves its cluster for good: what it plans, that nothing is lost, and that it can be cut short in every phase."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from leveret import errors
from leveret.records import ClusterStatus, DecommissionProgress
from tests.e2e.test_cluster import WITHIN_S, address_of, joining, on, process_of, status, status_when, up
from tests.e2e.test_far_queues import channel_to, known
from tests.e2e.test_management_cluster import ask, get
from tests.e2e.test_queue_members import group_when, voters
from tests.e2e.test_quorum_queues import all_are_voters, consumed, published
from tests.running_cluster import RunningCluster, running_cluster
from tests.running_node import RunningNode, running_node

QUEUES = [f"q{number:02}" for number in range(12)]
MESSAGES = 20
PHASES = ("draining", "moving", "leaving", "left")
STAY = {"n1", "n2", "n3"}


def filled(cluster: RunningCluster, node: RunningNode) -> None:
    """Queues with a member on the node, which belongs to the cluster now."""
    status_when(address_of(node), lambda found: len(found.metadata_voters) == 4)
    for queue in QUEUES:
        on(address_of(node), lambda one, queue=queue: one.topology.declare_queue(queue, kind="quorum"))  # type: ignore[misc]
        group_when(cluster.grpc(1), queue, lambda group: "extra" in voters(group) and bool(group.leader))
    with channel_to(cluster, 1) as channel:
        channel.confirm_delivery()
        for queue in QUEUES:
            published(known(channel, queue), queue, range(MESSAGES))


def progress_of(node: RunningNode) -> DecommissionProgress:
    return on(address_of(node), lambda one: one.admin.decommission_node())


def told_to_leave(node: RunningNode, phase: str) -> None:
    """Until it has come so far, or is gone already."""
    on(address_of(node), lambda one: one.admin.decommission_node("extra"))
    until = time.monotonic() + WITHIN_S
    while True:
        try:
            now = progress_of(node)
        except errors.ConnectionLost:
            return
        assert now.phase != "failed", now
        if now.phase in PHASES and PHASES.index(now.phase) >= PHASES.index(phase):
            return
        assert time.monotonic() < until, now


def belongs(found: ClusterStatus) -> bool:
    return "extra" in {one.name for one in found.nodes}


def nothing_is_lost(cluster: RunningCluster) -> None:
    """The node is gone, and each queue has as many members as before, with all that was confirmed."""
    status_when(cluster.grpc(1), lambda found: not belongs(found))
    for queue in QUEUES:
        group_when(cluster.grpc(2), queue, lambda group: voters(group) == STAY and bool(group.leader))
    with channel_to(cluster, 3) as channel:
        for queue in QUEUES:
            assert [number for number, _ in consumed(known(channel, queue), queue, MESSAGES)] == list(range(MESSAGES))


def test_a_node_says_what_would_move_then_moves_it_and_is_gone(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "data") as cluster:
        all_are_voters(cluster)
        with running_node(*joining(cluster, "--name", "extra"), data_dir=tmp_path / "extra") as node:
            filled(cluster, node)
            on(address_of(node), lambda one: one.topology.declare_queue("home"))
            path = "leveret/cluster/nodes/extra/decommission"
            told = get(cluster, 2, path)
            plan = told["plan"]
            assert [move["queue"] for move in plan["moves"]] == QUEUES
            assert {move["to"] for move in plan["moves"]} <= STAY
            assert {move["copies"] for move in plan["moves"]} == {3}
            assert [one["queue"] for one in plan["lost"]] == ["home"]
            assert (plan["obstacles"], told["progress"]["phase"]) == ([], "none")
            assert belongs(status(cluster.grpc(1))), "nothing was changed"

            code, refused, _ = ask(cluster, 2, "POST", path, {"confirm": "n1"})
            assert (code, "has the name of the node" in refused["reason"]) == (400, True)
            code, refused, _ = ask(cluster, 2, "POST", path, {"confirm": "extra"})
            assert (code, "1 classic queues with 0 messages live on node 'extra'" in refused["reason"]) == (400, True)
            code, begun, _ = ask(cluster, 2, "POST", path, {"confirm": "extra", "lose_queues": True})
            assert (code, begun["progress"]["phase"]) == (202, "draining")
            assert node.process.wait(WITHIN_S) is not None
        nothing_is_lost(cluster)


@pytest.mark.parametrize("phase", PHASES[:-1])
def test_a_node_that_is_killed_while_it_leaves_goes_on_when_it_starts(tmp_path: Path, phase: str) -> None:
    with running_cluster(tmp_path / "data") as cluster:
        all_are_voters(cluster)
        options = joining(cluster, "--name", "extra")
        with running_node(*options, data_dir=tmp_path / "extra") as node:
            filled(cluster, node)
            told_to_leave(node, phase)
            node.kill()
        # It may have been removed a moment before.
        status_when(cluster.grpc(1), lambda found: not belongs(found) or not up(found)["extra"])
        if belongs(status(cluster.grpc(1))):
            with running_node(*options, data_dir=tmp_path / "extra") as node:
                assert node.process.wait(WITHIN_S) is not None
        nothing_is_lost(cluster)


def test_it_goes_on_while_another_node_is_killed_and_comes_back(tmp_path: Path) -> None:
    """Queues that could do without a copy while the other node was away had one less for good."""
    with running_cluster(tmp_path / "data") as cluster:
        all_are_voters(cluster)
        with running_node(*joining(cluster, "--name", "extra"), data_dir=tmp_path / "extra") as node:
            filled(cluster, node)
            told_to_leave(node, "draining")
            before = len(cluster.lines)
            os.kill(process_of(cluster, 3), signal.SIGKILL)
            cluster.said(r"^n3 +\| ready: ", before)
            assert node.process.wait(WITHIN_S) is not None
        nothing_is_lost(cluster)


def test_what_was_taken_back_is_not_gone_on_with_when_the_node_starts(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "data") as cluster:
        all_are_voters(cluster)
        options = joining(cluster, "--name", "extra")
        with running_node(*options, data_dir=tmp_path / "extra") as node:
            filled(cluster, node)
            on(address_of(node), lambda one: one.admin.decommission_node("extra"))  # draining begins before the answer
            path = "leveret/cluster/nodes/extra/decommission"
            code, kept, _ = ask(cluster, 2, "DELETE", path)
            assert (code, kept["progress"]["phase"]) == (200, "none")
            node.kill()
        with running_node(*options, data_dir=tmp_path / "extra") as node:
            assert progress_of(node).phase == "none"
            status_when(cluster.grpc(1), lambda found: up(found).get("extra", False) and not drained(found))
            code, refused, _ = ask(cluster, 2, "DELETE", path)
            assert (code, "was not told to leave" in refused["reason"]) == (400, True)


def drained(found: ClusterStatus) -> bool:
    return any(one.draining for one in found.nodes)
