"""Members of quorum queues on real nodes: moved by command, and replaced when their node leaves or is forgotten."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from leveret import errors
from leveret.records import QueueGroup
from tests.e2e.test_cluster import WITHIN_S, address_of, joining, on, process_of, status, status_when, up, when
from tests.e2e.test_far_queues import channel_to, known
from tests.e2e.test_quorum_queues import QUORUM, all_are_voters, consumed, published
from tests.ports import free_base_port
from tests.running_cluster import RunningCluster, running_cluster
from tests.running_node import running_node

ONE = {**QUORUM, "x-quorum-initial-group-size": 1}


def voters(group: QueueGroup | None) -> set[str]:
    assert group is not None, "a quorum queue has a group"
    return {member.node for member in group.members if member.membership == "voter"}


def group_when(target: str, queue: str, holds: Callable[[QueueGroup], bool]) -> QueueGroup:
    found = when(
        target,
        lambda node: node.admin.queue_status(queue),
        lambda one: one.group is not None and holds(one.group),
    ).group
    assert found is not None
    return found


def test_members_and_leaders_are_moved_by_command_from_any_node(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "data") as cluster:
        all_are_voters(cluster)
        with channel_to(cluster, 1) as channel:
            for number in range(6):
                channel.queue_declare(f"q{number}", durable=True, arguments=ONE)
            channel.queue_declare("classic", durable=True)
            channel.confirm_delivery()
            published(channel, "q0", range(50))
        n1, n3 = cluster.grpc(1), cluster.grpc(3)
        for number in range(6):
            group_when(n3, f"q{number}", lambda group: (voters(group), group.leader) == ({"n1"}, "n1"))
        for node in ("n2", "n3"):
            grown = on(n3, lambda one, node=node: one.admin.grow_queues(node, queue_pattern="^q[0-5]$"))  # type: ignore[misc]
            assert {(change.queue, change.error) for change in grown} == {(f"q{number}", "") for number in range(6)}
            for number in range(6):
                group_when(n3, f"q{number}", lambda group, node=node: node in voters(group))  # type: ignore[misc]
        assert on(n1, lambda one: one.admin.grow_queues("n3")) == []
        handed = on(n3, lambda one: one.admin.rebalance_queues())
        assert len(handed) == 4 and not any(change.error for change in handed)
        leaders = [on(n1, lambda one, n=n: one.admin.queue_status(f"q{n}")).group.leader for n in range(6)]  # type: ignore[misc,union-attr]
        assert sorted(leaders) == ["n1", "n1", "n2", "n2", "n3", "n3"]
        group = group_when(n1, "q0", lambda group: {one.lag for one in group.members} == {0})
        assert len({(one.term, one.last, one.commit, one.digest) for one in group.members}) == 1
        assert (group.needed, group.open_entries, group.change_pending) == (2, 0, False)

        on(n3, lambda one: one.admin.transfer_queue_leader("q0", "n2"))
        assert on(n1, lambda one: one.admin.queue_status("q0")).group.leader == "n2"  # type: ignore[union-attr]
        shrunk = on(n3, lambda one: one.admin.shrink_queues("n2"))
        assert [change.error for change in shrunk] == [""] * 6
        group_when(n3, "q0", lambda group: voters(group) == {"n1", "n3"})
        # Nothing is to be grown before the catalog of n3 has heard that a member is gone.
        (grown_to,) = when(n3, lambda one: one.admin.grow_queues_to(3, queue_pattern="^q1$"), bool)
        assert (grown_to.queue, grown_to.error) == ("q1", "")
        group_when(n3, "q1", lambda group: voters(group) == {"n1", "n2", "n3"})
        with pytest.raises(errors.RequestRefused, match="has no member on node 'n2'"):
            on(n3, lambda one: one.admin.delete_queue_member("q0", "n2"))
        with pytest.raises(errors.RequestRefused, match="is a classic one"):
            on(n3, lambda one: one.admin.add_queue_member("classic", "n2"))
        with pytest.raises(errors.RequestRefused, match="there are n1, n2, n3"):
            on(n3, lambda one: one.admin.add_queue_member("q0", "n9"))
        with channel_to(cluster, 2) as channel:
            assert consumed(known(channel, "q0"), "q0", 50) == [(number, False) for number in range(50)]


def test_a_voter_is_kept_while_another_one_is_away(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "data") as cluster:
        all_are_voters(cluster)
        with channel_to(cluster, 1) as channel:
            channel.queue_declare("careful", durable=True, arguments=QUORUM)
        stopped = process_of(cluster, 3)
        os.kill(stopped, signal.SIGSTOP)
        try:
            status_when(cluster.grpc(1), lambda found: not up(found)["n3"])
            with pytest.raises(errors.RequestRefused, match="no majority that can be reached"):
                on(cluster.grpc(1), lambda one: one.admin.delete_queue_member("careful", "n2"))
            group = group_when(cluster.grpc(1), "careful", lambda group: bool(group.leader))
            away = next(member for member in group.members if member.node == "n3")
            assert (away.state, away.membership) == ("down", "voter")
            assert away.away_since_ms > 0
        finally:
            os.kill(stopped, signal.SIGCONT)
        group_when(cluster.grpc(1), "careful", lambda group: "down" not in {one.state for one in group.members})


def test_members_of_a_forgotten_node_are_replaced_and_nothing_confirmed_is_lost(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "data") as cluster:
        all_are_voters(cluster)
        with running_node(*joining(cluster, "--name", "extra"), data_dir=tmp_path / "extra") as node:
            status_when(address_of(node), lambda found: len(found.metadata_voters) == 4)
            on(address_of(node), lambda one: one.topology.declare_queue("orders", kind="quorum"))
            found = group_when(address_of(node), "orders", lambda group: bool(group.leader))
            if found.leader != "extra":  # it is eager, and on a busy machine another one may be earlier all the same
                on(address_of(node), lambda one: one.admin.transfer_queue_leader("orders", "extra"))
                found = group_when(address_of(node), "orders", lambda group: group.leader == "extra")
            assert len(found.members) == 3
            with channel_to(cluster, 1) as channel:
                channel = known(channel, "orders")
                channel.confirm_delivery()
                published(channel, "orders", range(100))
            node.kill()
        status_when(cluster.grpc(1), lambda found: not up(found)["extra"])
        before = group_when(cluster.grpc(1), "orders", lambda group: group.leader not in ("", "extra"))
        assert "extra" in voters(before)  # a node that is merely down keeps its member
        on(cluster.grpc(1), lambda one: one.admin.forget_node("extra"))
        group_when(cluster.grpc(2), "orders", lambda group: voters(group) == {"n1", "n2", "n3"})
        assert status(cluster.grpc(2)).problems == ()
        with channel_to(cluster, 3) as channel:
            assert [number for number, _ in consumed(known(channel, "orders"), "orders", 100)] == list(range(100))


def test_a_node_that_leaves_takes_no_quorum_queue_along(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "data", nodes=1) as cluster:
        with running_node(*joining(cluster, "--name", "extra"), data_dir=tmp_path / "extra") as node:
            status_when(address_of(node), lambda found: len(found.metadata_voters) == 2)
            arguments = {"x-quorum-initial-group-size": 1}
            on(address_of(node), lambda one: one.topology.declare_queue("moves", kind="quorum", arguments=arguments))
            on(address_of(node), lambda one: one.topology.declare_queue("both", kind="quorum"))
            group_when(cluster.grpc(1), "moves", lambda group: voters(group) == {"extra"})
            with channel_to(cluster, 1) as channel:
                channel.confirm_delivery()
                for queue in ("moves", "both"):
                    published(known(channel, queue), queue, range(30))
            on(address_of(node), lambda one: one.admin.leave_cluster())
            assert node.process.wait(WITHIN_S) == 0
        for queue in ("moves", "both"):
            group_when(cluster.grpc(1), queue, lambda group: voters(group) == {"n1"} and group.leader == "n1")
            with channel_to(cluster, 1) as channel:
                assert [number for number, _ in consumed(channel, queue, 30)] == list(range(30))


def test_queues_grow_by_themselves_when_they_are_told_to(tmp_path: Path) -> None:
    config = tmp_path / "grow.toml"
    config.write_text("[quorum]\nreconcile = true\nreconcile_interval_s = 2\n")
    data = tmp_path / "data"
    cluster = RunningCluster(data, free_base_port(3), "--nodes", "3", "--config", str(config))
    try:
        cluster.ready(3)
        all_are_voters(cluster)
        arguments = {"x-quorum-initial-group-size": 1, "x-quorum-target-group-size": 3}
        on(cluster.grpc(1), lambda one: one.topology.declare_queue("grows", kind="quorum", arguments=arguments))
        on(cluster.grpc(1), lambda one: one.topology.declare_queue("stays", kind="quorum", arguments=ONE))
        group_when(cluster.grpc(1), "grows", lambda group: voters(group) == {"n1", "n2", "n3"})
        group_when(cluster.grpc(1), "stays", lambda group: voters(group) == {"n1"})
    finally:
        assert cluster.stop() == 0
