"""Nodes whose disk, or whose log, is lost or rotten: repaired by the others without an operator, and told in words.

What is damaged is the log of a process that is killed right after: `leveret cluster` starts it again, as a supervisor would.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from leveret import errors
from leveret.records import ClusterStatus
from node.catalog.courier import TIMEOUT_S
from node.commands.survival import survive
from node.identity import NodeIdentity
from storage.lmdb_store import LmdbStore
from tests.e2e.test_cluster import on, process_of, status, status_when, up
from tests.e2e.test_far_queues import PERSISTENT, channel_at, channel_to, counts, known
from tests.e2e.test_queue_members import ONE, group_when, voters
from tests.e2e.test_quorum_queues import EVERYBODY, QUORUM, all_are_voters, consumed, published
from tests.running_cluster import ROOT, RunningCluster, running_cluster
from tests.running_node import running_node

MESSAGES = 120
MARKED_S = 1.5  # after which an idle log has said that its end is durable


def log_files(directory: Path) -> list[Path]:
    return sorted((directory / "log").glob("*.log"))


def rot(files: Iterable[Path]) -> None:
    """A bit here and there in the middle of what was written."""
    for path in files:
        content = path.read_bytes().rstrip(b"\0")
        with path.open("r+b") as file:
            for at in range(len(content) // 3, len(content) // 2, 256):
                file.seek(at)
                file.write(bytes([content[at] ^ 1]))


def with_a_queue(cluster: RunningCluster) -> None:
    """`orders` on all three nodes, led by n1, with confirmed messages; and `here`, a classic one on n1."""
    all_are_voters(cluster)
    with channel_to(cluster, 1) as channel:
        channel.queue_declare("orders", durable=True, arguments=QUORUM)
        channel.queue_declare("here", durable=True)
        channel.confirm_delivery()
        published(channel, "orders", range(MESSAGES))
        published(channel, "here", range(10))
    group_when(cluster.grpc(1), "orders", lambda group: {one.lag for one in group.members} == {0})


def has_caught_up(cluster: RunningCluster, began: dict[str, str]) -> None:
    """n3 has another member than before, and it votes; whoever else is lost then, n3 has everything."""
    group = group_when(
        cluster.grpc(1),
        "orders",
        lambda found: voters(found) == {"n1", "n2", "n3"} and {one.lag for one in found.members} == {0},
    )
    now = {one.node: one.member for one in group.members}
    assert now["n3"] != began["n3"] and now["n1"] == began["n1"] and now["n2"] == began["n2"]
    on(cluster.grpc(1), lambda node: node.admin.transfer_queue_leader("orders", "n3"))
    stopped = process_of(cluster, 1)
    os.kill(stopped, signal.SIGSTOP)
    try:
        with channel_to(cluster, 3) as channel:
            found = consumed(known(channel, "orders"), "orders", MESSAGES)
            assert [number for number, _ in found] == list(range(MESSAGES))
    finally:
        os.kill(stopped, signal.SIGCONT)


def members_of(cluster: RunningCluster) -> dict[str, str]:
    group = group_when(cluster.grpc(1), "orders", lambda found: len(found.members) == 3)
    return {one.node: one.member for one in group.members}


def test_a_node_that_lost_its_disk_is_given_everything_by_the_others(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "data") as cluster:
        with_a_queue(cluster)
        began, before = members_of(cluster), len(cluster.lines)
        victim = process_of(cluster, 3)
        (tmp_path / "data" / "n3").rename(tmp_path / "lost")
        os.kill(victim, signal.SIGKILL)
        cluster.said(r"^n3 +\| ready: ", before)
        cluster.said(r"warning.*node 'n3' has come back without what it had on its disk", before)
        all_are_voters(cluster)
        has_caught_up(cluster, began)
        status_when(cluster.grpc(2), lambda found: found.problems == ())


def test_a_node_whose_log_is_gone_has_no_vote_of_before_and_is_given_everything_by_the_others(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "data") as cluster:
        with_a_queue(cluster)
        began, before = members_of(cluster), len(cluster.lines)
        victim = process_of(cluster, 3)
        os.kill(victim, signal.SIGSTOP)
        for path in log_files(tmp_path / "data" / "n3"):
            path.unlink()
        os.kill(victim, signal.SIGKILL)
        cluster.said(r"^n3 +\| ready: ", before)
        cluster.said(r"^n3 +\|.* error .*nothing is left of the log", before)
        all_are_voters(cluster)
        has_caught_up(cluster, began)
        said = "node n3 found nothing of its log when it started"
        status_when(cluster.grpc(2), lambda found: any(said in problem for problem in found.problems))


def test_bit_rot_in_one_nodes_log_is_repaired_by_the_others_and_told(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "data") as cluster:
        with_a_queue(cluster)
        time.sleep(MARKED_S)
        began, before = members_of(cluster), len(cluster.lines)
        victim = process_of(cluster, 3)
        os.kill(victim, signal.SIGSTOP)
        rot(log_files(tmp_path / "data" / "n3"))
        os.kill(victim, signal.SIGKILL)
        cluster.said(r"^n3 +\| ready: ", before)
        cluster.said(r"^n3 +\|.* error .*the log is damaged: file \d+, \d+ bytes at \d+", before)
        cluster.said(r"^n3 +\|.* error .*'//orders'.*will be repaired from the others", before)
        all_are_voters(cluster)
        has_caught_up(cluster, began)

        def told(found: ClusterStatus) -> bool:
            return any("node n3 found its log damaged when it started" in problem for problem in found.problems)

        found = status_when(cluster.grpc(2), told)
        assert any("which the other nodes repair" in problem for problem in found.problems)


def test_without_a_majority_nothing_changes_quorum_queues_wait_and_classic_ones_go_on(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "data") as cluster:
        with_a_queue(cluster)
        away = [process_of(cluster, number) for number in (2, 3)]
        with channel_to(cluster, 1) as channel:
            channel.basic_qos(prefetch_count=1)
            for process in away:
                os.kill(process, signal.SIGSTOP)
            try:
                found = status_when(cluster.grpc(1), lambda found: bool(found.missing))
                assert set(found.missing) == {"n2", "n3"}
                words = "\n".join(found.problems)
                assert (
                    "nothing can be declared or changed: of the disk nodes n1, n2, n3 these are down: n2, n3" in words
                )
                assert "1 replicated queues have no majority of their members, such as queue 'orders'" in words
                began = time.monotonic()
                with pytest.raises(errors.ResourceExhausted, match=r"'n[23]', 'n[23]' cannot be reached"):
                    on(cluster.grpc(1), lambda node: node.topology.declare_queue("refused", kind="quorum"))
                with pytest.raises(errors.ResourceExhausted, match=r"'n[23]', 'n[23]' cannot be reached"):
                    on(cluster.grpc(1), lambda node: node.admin.add_user("refused", "secret"))
                with pytest.raises(errors.ResourceExhausted, match=r"'n[23]', 'n[23]' cannot be reached"):
                    on(cluster.grpc(1), lambda node: node.admin.forget_node("n2"))
                assert time.monotonic() - began < TIMEOUT_S, "none of them waits for nodes that are away"
                channel.basic_publish("", "orders", b"500", PERSISTENT)  # waits, unconfirmed
                channel.basic_publish("", "here", b"10", PERSISTENT)
                assert [channel.basic_get("here", auto_ack=True)[2] for _ in range(11)] == [
                    b"%d" % n for n in range(11)
                ]
                group = on(cluster.grpc(1), lambda node: node.admin.queue_status("orders")).group
                assert group is not None and group.leader == "" and group.needed == 2
                assert {one.node: one.state for one in group.members if one.node != "n1"} == {
                    "n2": "down",
                    "n3": "down",
                }
            finally:
                for process in away:
                    os.kill(process, signal.SIGCONT)
            status_when(cluster.grpc(1), lambda found: not found.missing and up(found) == EVERYBODY)
        with channel_to(cluster, 2) as channel:
            found = [number for number, _ in consumed(known(channel, "orders"), "orders", MESSAGES + 1)]
            assert found == [*range(MESSAGES), 500]
        on(cluster.grpc(1), lambda node: node.topology.declare_queue("declared.again", kind="quorum"))


def test_the_only_disk_node_is_away_and_a_ram_node_goes_on_routing(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "data", nodes=1, ram_nodes=1) as cluster:
        status_when(cluster.grpc(2), lambda found: all(up(found).values()) and len(found.nodes) == 2)
        with channel_to(cluster, 2) as channel:
            channel.queue_declare("at.the.ram.node", durable=True)
            channel.confirm_delivery()
            stopped = process_of(cluster, 1)
            os.kill(stopped, signal.SIGSTOP)
            try:
                status_when(cluster.grpc(2), lambda found: found.missing == ("n1",))
                published(channel, "at.the.ram.node", range(20))
                assert channel.basic_get("at.the.ram.node", auto_ack=True)[2] == b"0"
                changes: list[Callable[..., object]] = [
                    lambda node: node.topology.declare_queue("refused"),
                    lambda node: node.topology.declare_exchange("refused", "direct"),
                    lambda node: node.admin.add_user("refused", "secret"),
                    lambda node: node.admin.set_permissions("guest", "", "", ""),
                    lambda node: node.admin.forget_node("n1"),
                ]
                for change in changes:
                    with pytest.raises(errors.ResourceExhausted, match="n1"):
                        on(cluster.grpc(2), change)  # type: ignore[arg-type]
            finally:
                os.kill(stopped, signal.SIGCONT)
            status_when(cluster.grpc(2), lambda found: not found.missing)
            on(cluster.grpc(2), lambda node: node.topology.declare_queue("declared.again"))


@pytest.mark.parametrize("what", ["rotten", "gone"])
def test_a_node_alone_goes_on_with_what_is_left_of_its_quorum_queues_and_says_what_is_lost(
    tmp_path: Path, what: str
) -> None:
    data = tmp_path / "data"
    with running_node(data_dir=data) as node:
        with channel_at(*node.amqp) as channel:
            channel.queue_declare("payments", durable=True, arguments=QUORUM)
            channel.confirm_delivery()
            published(channel, "payments", range(MESSAGES))
        time.sleep(MARKED_S)
        node.kill()
    if what == "rotten":
        rot(log_files(data))
    else:
        shutil.rmtree(data / "log")
        (data / "log").mkdir()
    with running_node(data_dir=data) as node:
        target = f"{node.grpc[0]}:{node.grpc[1]}"
        (problem,) = [one for one in status(target).problems if "may have lost messages of 1 quorum queue" in one]
        assert "such as queue 'payments' in vhost '/': it had the only copy" in problem
        assert "queue 'payments' in vhost '/' had its only copy on this node, and a part of that is damaged" in (
            node.log.read_text()
        )
        group_when(target, "payments", lambda group: len(voters(group)) == 1 and bool(group.leader))
        with channel_at(*node.amqp) as channel:
            left, _ = counts(channel, "payments")
            assert left < MESSAGES
            assert consumed(channel, "payments", left) == [(number, False) for number in range(left)] if left else True
            channel.confirm_delivery()
            published(channel, "payments", range(1000, 1010))
            assert consumed(channel, "payments", 10) == [(number, False) for number in range(1000, 1010)]


def leveret(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "node.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT, check=False)


CUT_BEFORE_THE_CATALOG = LmdbStore, "commit"
CUT_BEHIND_THE_CATALOG = NodeIdentity, "survive"


class CutShortError(Exception):
    """The process of the command is gone."""


def cut_short(directory: Path, owner: type[object], step: str) -> None:
    """The command is ended just before this step."""

    def end(*_: object) -> None:
        raise CutShortError

    with pytest.MonkeyPatch.context() as patched, pytest.raises(CutShortError):
        patched.setattr(owner, step, end)
        survive(directory, confirm="n1")


def test_a_node_whose_others_are_lost_for_good_goes_on_alone_when_an_operator_says_so(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running_cluster(data) as cluster:
        with_a_queue(cluster)
        on(cluster.grpc(2), lambda node: node.topology.declare_queue("only.on.n2"))
        on(cluster.grpc(2), lambda node: node.topology.declare_queue("one.member.on.n2", kind="quorum", arguments=ONE))
    for name in ("n2", "n3"):
        shutil.rmtree(data / name)
    told = leveret("survive", "--data-dir", str(data / "n1"))
    assert told.returncode == 0, told.stderr
    assert "Removed for good: n2, n3" in told.stdout and "it is not done yet" in told.stdout
    assert "2 queues were only on removed nodes and are lost: " in told.stdout
    assert "queue 'only.on.n2' in vhost '/'" in told.stdout and "queue 'one.member.on.n2' in vhost '/'" in told.stdout
    other = leveret("survive", "--data-dir", str(data / "n1"), "--confirm", "n2")
    assert (other.returncode, "the directory of node 'n1', and 'n2' was typed" in other.stderr) == (69, True)
    assert not (data / "n1" / "survival.json").exists()
    for broken in (CUT_BEFORE_THE_CATALOG, CUT_BEHIND_THE_CATALOG):
        cut_short(data / "n1", *broken)
        waits = leveret("survive", "--data-dir", str(data / "n1"))
        assert (waits.returncode, "it is not done yet" in waits.stdout) == (0, True)
    done = leveret("survive", "--data-dir", str(data / "n1"), "--confirm", "n1")
    assert (done.returncode, "done: start the node" in done.stdout) == (0, True), done.stderr
    report = json.loads((data / "n1" / "survival.json").read_text())
    assert (report["node"], report["removed_nodes"]) == ("n1", ["n2", "n3"])
    assert {one["queue"] for one in report["lost_queues"]} == {"only.on.n2", "one.member.on.n2"}
    assert leveret("survive", "--data-dir", str(data / "n1"), "--confirm", "n1").returncode == 0, "as often as you like"
    secret = str(data / "secret")
    with running_node(
        "--name", "n1", "--peer", "127.0.0.1:0", "--secret-file", secret, data_dir=data / "n1"
    ) as node:  # fmt: skip
        target = f"{node.grpc[0]}:{node.grpc[1]}"
        found = status_when(target, lambda found: found.metadata_voters == ("n1",))
        assert up(found) == {"n1": True}
        group_when(target, "orders", lambda group: voters(group) == {"n1"} and group.leader == "n1")
        with channel_at(*node.amqp) as channel:
            assert consumed(channel, "orders", MESSAGES) == [(number, False) for number in range(MESSAGES)]
            assert counts(channel, "here") == (10, 0)
        on(target, lambda one: one.topology.declare_queue("declared.again", kind="quorum"))
        peer = node.addresses["peer"]
        joining = ["--peer", "127.0.0.1:0", "--join", f"{peer[0]}:{peer[1]}", "--secret-file", secret, "--name", "n2"]
        with running_node(*joining, data_dir=tmp_path / "new"):
            status_when(target, lambda found: set(found.metadata_voters) == {"n1", "n2"} and all(up(found).values()))
            on(target, lambda one: one.admin.add_queue_member("orders", "n2"))
            group_when(target, "orders", lambda group: voters(group) == {"n1", "n2"})
    later = leveret("survive", "--data-dir", str(data / "n1"))
    assert "Removed for good: n2. If" in later.stdout, "a cluster that began since is another loss"
    again = leveret("survive", "--data-dir", str(tmp_path))
    assert (again.returncode, "is no data directory of a node" in again.stderr) == (69, True)
