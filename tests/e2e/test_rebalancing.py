"""Leaders are spread over real nodes: told before it is done, and begun again after the node that did it was killed."""

from __future__ import annotations

import os
import re
import signal
from collections import Counter
from pathlib import Path

import leveret
from tests.e2e.test_cluster import on, process_of
from tests.e2e.test_far_queues import channel_to, known
from tests.e2e.test_management_cluster import ask, until
from tests.e2e.test_queue_members import group_when, voters
from tests.e2e.test_quorum_queues import QUORUM, all_are_voters, consumed, published
from tests.running_cluster import RunningCluster, running_cluster

QUEUES = [f"q{number:02}" for number in range(12)]
MESSAGES = 10
REBALANCE = "rebalance/queues"
MOVES = "leveret/cluster/member-moves"


def led_by_one_node(cluster: RunningCluster) -> None:
    """All of them by n1, with messages in each."""
    with channel_to(cluster, 1) as channel:
        channel.confirm_delivery()
        for queue in QUEUES:
            channel.queue_declare(queue, durable=True, arguments=QUORUM)
            published(channel, queue, range(MESSAGES))
    for queue in QUEUES:
        group_when(cluster.grpc(2), queue, lambda group: len(voters(group)) == 3 and bool(group.leader))
        on(cluster.grpc(2), lambda one, queue=queue: one.admin.transfer_queue_leader(queue, "n1"))  # type: ignore[misc]


def leaders(cluster: RunningCluster) -> Counter[str]:
    groups = [group_when(cluster.grpc(2), queue, lambda group: bool(group.leader)) for queue in QUEUES]
    return Counter(group.leader for group in groups)


def test_a_dry_run_tells_the_moves_and_the_loads_and_changes_nothing(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "data") as cluster:
        all_are_voters(cluster)
        led_by_one_node(cluster)
        code, told, _ = ask(cluster, 3, "POST", REBALANCE, {"dry_run": True})
        assert (code, len(told), {one["error"] for one in told}) == (200, 8, {""})
        assert re.search(r"\(n1 led 12 queues, n[23] 0; this is 1\)$", told[0]["done"])
        by_bytes = on(cluster.grpc(3), lambda one: one.admin.rebalance_queues(by="bytes", dry_run=True))
        assert len(by_bytes) == 8 and f"n1 led {12 * MESSAGES} bytes" in by_bytes[0].done
        assert on(cluster.grpc(3), lambda one: one.admin.rebalance_queues(by="entries", dry_run=True)) == []
        assert ask(cluster, 3, "POST", REBALANCE, {"by": "luck"})[0] == 400
        assert leaders(cluster) == {"n1": 12}


def test_a_rebalance_whose_node_is_killed_is_finished_by_the_next_one(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "data") as cluster:
        all_are_voters(cluster)
        led_by_one_node(cluster)
        assert ask(cluster, 3, "POST", REBALANCE, {})[0] == 204
        before = len(cluster.lines)
        os.kill(process_of(cluster, 3), signal.SIGKILL)
        cluster.said(r"^n3 +\| ready: ", before)
        all_are_voters(cluster)

        def spread() -> bool:
            assert ask(cluster, 3, "POST", REBALANCE, {})[0] == 204
            return sorted(leaders(cluster).values()) == [4, 4, 4]

        until(spread)
        with channel_to(cluster, 3) as channel:
            for queue in QUEUES:
                found = consumed(known(channel, queue), queue, MESSAGES)
                assert [number for number, _ in found] == list(range(MESSAGES))


def moves_of(cluster: RunningCluster, *, dry_run: bool = False) -> list[tuple[str, str, str]]:
    """Each in which state, from where, and to where."""

    async def asked(node: leveret.Node) -> list[tuple[str, str, str]]:
        found = node.admin.move_queue_members(dry_run=dry_run)
        return [(step.state, step.source, step.target) async for step in found]

    return on(cluster.grpc(3), asked)


def test_members_move_over_http_with_a_dry_run_and_progress_that_every_node_tells(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "data") as cluster:
        all_are_voters(cluster)
        with channel_to(cluster, 1) as channel:
            for queue in QUEUES:
                channel.queue_declare(queue, durable=True, arguments={**QUORUM, "x-quorum-initial-group-size": 1})
        for queue in QUEUES:
            group_when(cluster.grpc(3), queue, lambda group: voters(group) == {"n1"})
        code, planned, _ = ask(cluster, 3, "POST", MOVES, {"dry_run": True})
        assert (code, Counter(one["target"] for one in planned)) == (200, {"n2": 4, "n3": 4})
        assert ask(cluster, 1, "GET", MOVES)[1] == [], "nothing was begun"
        code, begun, _ = ask(cluster, 3, "POST", MOVES, {"by": "queues"})
        assert (code, begun["node"], begun["state"], begun["user"]) == (202, "n3", "moving", "guest")
        until(lambda: ask(cluster, 1, "GET", MOVES)[1][0]["state"] == "done")
        (run,) = ask(cluster, 2, "GET", MOVES)[1]
        assert (run["node"], run["moved"], run["total"], run["error"]) == ("n3", 8, 8, "")
        assert [(one["number"], one["state"]) for one in run["moves"]] == [(number, "moved") for number in range(1, 9)]
        assert leaders(cluster) == {"n1": 4, "n2": 4, "n3": 4}
        assert ask(cluster, 1, "DELETE", f"{MOVES}/n3")[0] == 404, "it is over"


def test_members_move_from_the_node_that_has_all_and_take_messages_and_leaders_along(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "data") as cluster:
        all_are_voters(cluster)
        with channel_to(cluster, 1) as channel:
            channel.confirm_delivery()
            for queue in QUEUES:
                channel.queue_declare(queue, durable=True, arguments={**QUORUM, "x-quorum-initial-group-size": 1})
                published(channel, queue, range(MESSAGES))
        for queue in QUEUES:
            group_when(cluster.grpc(3), queue, lambda group: voters(group) == {"n1"})
        planned = moves_of(cluster, dry_run=True)
        assert Counter(planned) == {("planned", "n1", "n2"): 4, ("planned", "n1", "n3"): 4}
        moved = moves_of(cluster)
        assert [state for state, _, _ in moved] == ["copying", "moved"] * 8
        assert moves_of(cluster) == moves_of(cluster, dry_run=True) == []
        assert leaders(cluster) == {"n1": 4, "n2": 4, "n3": 4}
        with channel_to(cluster, 2) as channel:
            for queue in QUEUES:
                assert len(voters(group_when(cluster.grpc(1), queue, lambda group: bool(group.leader)))) == 1
                found = consumed(known(channel, queue), queue, MESSAGES)
                assert [number for number, _ in found] == list(range(MESSAGES))
