"""Three real processes of the register machine: commits go on when one is killed, paused, or comes back with nothing."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from raft.core.messages import node_of
from tests.raft_node.client import Client
from tests.raft_node.cluster import Cluster, Process, eventually, running_cluster
from tests.raft_node.wire import Said

COMMIT_WITHIN_S = 30.0


def test_a_killed_leader_is_followed_and_returns(tmp_path: Path) -> None:
    with running_cluster(tmp_path, "--groups", "3") as cluster:
        client = Client(cluster)
        assert client.put(1, b"key", b"before", COMMIT_WITHIN_S) == 1
        leader = cluster.leader(1)
        leader.kill()
        assert client.put(1, b"key", b"after", COMMIT_WITHIN_S) > 1
        leader.start()
        must_agree(cluster)
        assert client.get(1, b"key", COMMIT_WITHIN_S) == b"after"


def test_a_paused_leader_answers_no_stale_read_when_it_goes_on(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as cluster:
        client = Client(cluster)
        client.put(1, b"key", b"before", COMMIT_WITHIN_S)
        leader = cluster.leader(1)
        leader.signal(signal.SIGSTOP)
        asked = client.begin_read(leader, 1, b"key")  # waits in its socket until it goes on
        client.put(1, b"key", b"after", COMMIT_WITHIN_S, avoid=leader)
        leader.signal(signal.SIGCONT)
        said, found = asked.result(COMMIT_WITHIN_S)
        assert said is not Said.OK or found[1] == b"after"
        must_agree(cluster)


def test_a_wiped_member_returns_as_a_learner_and_is_promoted(tmp_path: Path) -> None:
    with running_cluster(tmp_path, "--groups", "20", "--snapshot-entries", "100") as cluster:
        client = Client(cluster)
        for number in range(300):
            client.put(number % 20 + 1, b"key %d" % number, b"x" * 100, COMMIT_WITHIN_S)
        victim = cluster.others(cluster.leader(1))[0]
        old = victim.call("status", group=1)["member"]
        for _ in range(2):
            victim.kill()
            victim.wipe()
            client.put(1, b"while it was away", b"y", COMMIT_WITHIN_S)
            victim.start()
            for group in range(1, 21):
                eventually(lambda group=group: is_voter(victim, group), f"node {victim.number} voting in group {group}")
            status = victim.call("status", group=1)
            new = status["member"]
            assert new > old, "a later member of a node has a higher number"
            assert sorted(map(node_of, status["voters"])) == [1, 2, 3]
            assert not status["learners"]
            assert old not in status["voters"]
            must_agree(cluster, groups=20)
            old = new


def test_all_killed_at_once_come_back_with_everything(tmp_path: Path) -> None:
    with running_cluster(tmp_path, "--groups", "5", "--log-file-bytes", "65536", "--snapshot-entries", "50") as cluster:
        client = Client(cluster)
        for number in range(200):
            client.put(number % 5 + 1, b"key %d" % number, b"x" * 1_000, COMMIT_WITHIN_S)
        for node in cluster.nodes.values():
            node.kill()
        for node in cluster.nodes.values():
            node.begin()
        for node in cluster.nodes.values():
            node.wait_until_ready()
        for number in range(200):
            assert client.get(number % 5 + 1, b"key %d" % number, COMMIT_WITHIN_S) == b"x" * 1_000
        must_agree(cluster, groups=5)


@pytest.mark.parametrize("secret", ["another secret of other tests", ""])
def test_a_node_with_another_secret_is_not_let_in(tmp_path: Path, secret: str) -> None:
    with running_cluster(tmp_path) as cluster:
        client = Client(cluster)
        victim = cluster.others(cluster.leader(1))[0]
        victim.kill()
        victim.secret = secret
        if secret:
            victim.start()
        else:
            with pytest.raises(RuntimeError, match="secret"):
                victim.start()
        client.put(1, b"key", b"value", COMMIT_WITHIN_S)
        if secret:
            others = [node.call("status", group=1)["applied"] for node in cluster.others(victim)]
            assert victim.call("status", group=1)["applied"] < max(others)
            eventually(lambda: refused(cluster), "a word about the refusal in a log")


def refused(cluster: Cluster) -> bool:
    return any("knows this cluster's secret" in node.log.read_text() for node in cluster.nodes.values())


def is_voter(node: Process, group: int) -> bool:
    status = node.call("status", group=group)
    return status["member"] in status["voters"]


def must_agree(cluster: Cluster, groups: int = 1) -> None:
    """All nodes have applied the same, in the end."""
    for group in range(1, groups + 1):

        def agreed(group: int = group) -> bool:
            said = [node.call("status", group=group) for node in cluster.alive()]
            return len({(one["applied"], one["digest"]) for one in said}) == 1

        eventually(agreed, f"agreement of group {group}")
