"""Clusters of real processes: who belongs to them, and what an operator is told."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pika
import pytest

import leveret
from leveret import errors
from leveret.records import ClusterStatus
from tests.ports import free_base_port
from tests.running_cluster import RunningCluster, running_cluster
from tests.running_node import RunningNode, running_node, start_node

T = TypeVar("T")
WITHIN_S = 90.0
LOOK_S = 0.05


def on(target: str, work: Callable[[leveret.Node], Awaitable[T]]) -> T:
    async def run() -> T:
        async with leveret.connect(target) as node:
            return await work(node)

    return asyncio.run(run())


def status(target: str) -> ClusterStatus:
    return on(target, lambda node: node.admin.cluster_status())


def when(target: str, ask: Callable[[leveret.Node], Awaitable[T]], holds: Callable[[T], bool]) -> T:
    """The first answer of which this holds. Nobody tells of it, so it is asked for again and again, for a bounded time."""

    async def work(node: leveret.Node) -> T:
        until = asyncio.get_running_loop().time() + WITHIN_S
        while not holds(found := await ask(node)):
            assert asyncio.get_running_loop().time() < until, f"after {WITHIN_S} s it is still {found}"
            await asyncio.sleep(LOOK_S)
        return found

    return on(target, work)


def status_when(target: str, holds: Callable[[ClusterStatus], bool]) -> ClusterStatus:
    return when(target, lambda node: node.admin.cluster_status(), holds)


async def queues_of(node: leveret.Node) -> set[str]:
    return {queue.name for queue in await node.topology.queues()}


def up(found: ClusterStatus) -> dict[str, bool]:
    return {node.name: node.up for node in found.nodes}


def process_of(cluster: RunningCluster, number: int) -> int:
    return on(cluster.grpc(number), lambda node: node.admin.node_status()).process_id


def test_three_nodes_are_one_cluster_that_loses_and_finds_one_of_them(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "data") as cluster:
        everybody = {"n1": True, "n2": True, "n3": True}
        seen = [
            status_when(cluster.grpc(number), lambda found: up(found) == everybody and len(found.metadata_voters) == 3)
            for number in (1, 2, 3)
        ]
        assert len({found.cluster_id for found in seen}) == 1
        assert [found.seen_by for found in seen] == ["n1", "n2", "n3"]
        assert all(found.metadata_leader and not found.problems for found in seen)
        assert {node.kind for node in seen[0].nodes} == {"disk"}

        on(cluster.grpc(1), lambda node: node.topology.declare_queue("seen.everywhere"))
        for number in (2, 3):
            when(cluster.grpc(number), queues_of, lambda names: names == {"seen.everywhere"})

        before = len(cluster.lines)
        os.kill(process_of(cluster, 2), signal.SIGKILL)
        lost = status_when(cluster.grpc(1), lambda found: not up(found)["n2"])
        assert any("node n2 is down" in problem for problem in lost.problems)
        on(cluster.grpc(3), lambda node: node.topology.declare_queue("declared.without.n2"))
        cluster.said(r"^n2 \| ready: ", after=before)
        status_when(cluster.grpc(1), lambda found: up(found) == everybody)
        when(cluster.grpc(2), queues_of, lambda names: names == {"seen.everywhere", "declared.without.n2"})

    with_same_data = RunningCluster(tmp_path / "data", cluster.base_port, "--nodes", "3")
    try:
        with_same_data.ready(3)
        again = status_when(cluster.grpc(3), lambda found: up(found) == everybody)
        assert again.cluster_id == seen[0].cluster_id
        assert sorted(node.number for node in again.nodes) == [1, 2, 3]
    finally:
        assert with_same_data.stop() == 0


def test_without_a_majority_of_disk_nodes_nothing_changes_and_the_missing_are_named(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "data", nodes=2, ram_nodes=1) as cluster:
        status_when(cluster.grpc(3), lambda found: len(found.metadata_voters) == 2 and all(up(found).values()))
        host, port = cluster.amqp(1)
        connection = pika.BlockingConnection(pika.ConnectionParameters(host, port))
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("existing", durable=True)
        before = len(cluster.lines)
        process = process_of(cluster, 2)
        os.kill(process, signal.SIGSTOP)
        try:
            found = status_when(cluster.grpc(1), lambda found: bool(found.missing))
            assert found.missing == ("n2",)
            assert "these are down: n2" in found.problems[0]
            with pytest.raises(errors.ResourceExhausted, match="n2"):
                on(cluster.grpc(1), lambda node: node.topology.declare_queue("refused"))
            channel.basic_publish("", "existing", b"goes on")
            assert channel.basic_get("existing", auto_ack=True)[2] == b"goes on"
        finally:
            os.kill(process, signal.SIGCONT)
        status_when(cluster.grpc(1), lambda found: not found.missing and all(up(found).values()))
        on(cluster.grpc(1), lambda node: node.topology.declare_queue("declared.again"))
        connection.close()
        assert not any("started again" in line for line in cluster.lines[before:])


def joining(cluster: RunningCluster, *options: str) -> list[str]:
    secret = str(cluster.data_dir / "secret")
    return ["--peer", "127.0.0.1:0", "--join", cluster.peer(1), "--secret-file", secret, *options]


def address_of(node: RunningNode) -> str:
    return f"{node.grpc[0]}:{node.grpc[1]}"


def test_a_node_joins_is_forgotten_while_it_is_down_and_then_refuses_to_start(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "data", nodes=1) as cluster:
        extra = tmp_path / "extra"
        with running_node(*joining(cluster, "--name", "extra"), data_dir=extra) as node:
            found = status_when(address_of(node), lambda found: len(found.metadata_voters) == 2)
            assert up(found) == {"n1": True, "extra": True}
            with pytest.raises(errors.RequestRefused, match="'extra' is up"):
                on(cluster.grpc(1), lambda one: one.admin.forget_node("extra"))
            on(address_of(node), lambda one: one.admin.change_node_kind("ram"))
            found = status_when(
                cluster.grpc(1), lambda found: found.metadata_voters == ("n1",) and all(up(found).values())
            )
            assert {one.name: one.kind for one in found.nodes} == {"n1": "disk", "extra": "ram"}
            node.stop()
        status_when(cluster.grpc(1), lambda found: not up(found)["extra"])
        on(cluster.grpc(1), lambda one: one.admin.forget_node("extra"))
        assert up(status(cluster.grpc(1))) == {"n1": True}
        with pytest.raises(RuntimeError, match="'extra' belongs to its cluster no more: node 2 was removed"):
            start_node(extra, *joining(cluster, "--name", "extra"))


def test_a_name_in_use_is_refused_and_a_node_with_a_wiped_disk_is_the_same_node(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "data", nodes=2) as cluster:
        with running_node(*joining(cluster, "--name", "extra"), data_dir=tmp_path / "first") as node:
            number = {one.name: one.number for one in status(address_of(node)).nodes}["extra"]
            with pytest.raises(RuntimeError, match="the name 'extra' is in use by a node that is up"):
                start_node(tmp_path / "second", *joining(cluster, "--name", "extra"))
            status_when(cluster.grpc(1), lambda found: len(found.metadata_voters) == 3)
            node.kill()
        with running_node(*joining(cluster, "--name", "extra"), data_dir=tmp_path / "wiped") as node:
            found = status_when(
                address_of(node), lambda found: len(found.metadata_voters) == 3 and all(up(found).values())
            )
            assert {one.name: one.number for one in found.nodes}["extra"] == number


def test_a_node_leaves_and_stops_and_the_others_go_on(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "data", nodes=1) as cluster:
        with running_node(*joining(cluster, "--name", "extra"), data_dir=tmp_path / "extra") as node:
            status_when(cluster.grpc(1), lambda found: len(found.metadata_voters) == 2)
            on(address_of(node), lambda one: one.topology.declare_queue("home"))
            with pytest.raises(errors.LeveretError, match=r"1 classic queues .* would be lost, 'home' in vhost '/'"):
                on(address_of(node), lambda one: one.admin.leave_cluster())
            assert up(status(cluster.grpc(1)))["extra"], "nothing was changed"
            on(address_of(node), lambda one: one.admin.leave_cluster(lose_queues=True))
            assert node.process.wait(WITHIN_S) == 0
        found = status_when(cluster.grpc(1), lambda found: found.metadata_voters == ("n1",))
        assert up(found) == {"n1": True}
        on(cluster.grpc(1), lambda one: one.topology.declare_queue("goes.on"))


def test_a_drained_node_sends_its_clients_away_leads_nothing_and_is_revived(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "data") as cluster:
        leader = status_when(cluster.grpc(1), lambda found: len(found.metadata_voters) == 3).metadata_leader
        number = int(leader[1:])
        host, port = cluster.amqp(number)
        connection = pika.BlockingConnection(pika.ConnectionParameters(host, port))
        on(cluster.grpc(number), lambda node: node.admin.drain_node())
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match=r"drained for maintenance") as closed:
            connection.process_data_events(WITHIN_S)
        assert closed.value.reply_code == 320
        with pytest.raises(pika.exceptions.AMQPConnectionError):
            pika.BlockingConnection(pika.ConnectionParameters(host, port))
        with pytest.raises(errors.LeveretError, match="drained for maintenance"):
            on(cluster.grpc(number), lambda node: node.topology.declare_queue("refused"))
        found = status_when(
            cluster.grpc(number % 3 + 1),
            lambda found: found.metadata_leader not in ("", leader) and bool(found.problems),
        )
        assert found.problems == (f"node {leader} is drained: revive it when the maintenance is over",)

        on(cluster.grpc(number), lambda node: node.admin.revive_node())
        pika.BlockingConnection(pika.ConnectionParameters(host, port)).close()
        assert not status_when(cluster.grpc(number), lambda found: not found.problems).problems


def test_an_empty_node_joins_while_it_runs_and_one_that_holds_something_does_not(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "data", nodes=1) as cluster:
        secret = ("--peer", "127.0.0.1:0", "--secret-file", str(cluster.data_dir / "secret"))
        with running_node("--name", "extra", *secret, data_dir=tmp_path / "extra") as node:
            on(address_of(node), lambda one: one.topology.declare_queue("mine"))
            with pytest.raises(errors.RequestRefused, match="holds 1 queues, which would be lost"):
                on(address_of(node), lambda one: one.admin.join_cluster(cluster.peer(1)))
            on(address_of(node), lambda one: one.topology.delete_queue("mine"))
            on(address_of(node), lambda one: one.admin.join_cluster(cluster.peer(1)))
            found = status_when(cluster.grpc(1), lambda found: len(found.metadata_voters) == 2)
            assert up(found) == {"n1": True, "extra": True}


def test_a_node_that_was_forgotten_while_it_could_not_hear_stops_when_it_is_told(tmp_path: Path) -> None:
    with (
        running_cluster(tmp_path / "data", nodes=2) as cluster,
        running_node(*joining(cluster, "--name", "extra"), data_dir=tmp_path / "extra") as node,
    ):
        status_when(cluster.grpc(1), lambda found: len(found.metadata_voters) == 3)
        node.process.send_signal(signal.SIGSTOP)
        status_when(cluster.grpc(1), lambda found: not up(found)["extra"])
        on(cluster.grpc(1), lambda one: one.admin.forget_node("extra"))
        node.process.send_signal(signal.SIGCONT)
        assert node.process.wait(WITHIN_S) == 78
        assert "node 'extra' belongs to its cluster no more" in node.log.read_text()


def test_nodes_whose_addresses_change_find_each_other_again(tmp_path: Path) -> None:
    """The one with the lower number is called, and nobody can call it where it was."""
    secret = tmp_path / "secret"
    secret.write_text("a secret that both nodes know")
    first = ("--name", "first", "--peer", "127.0.0.1:0", "--secret-file", str(secret))
    with running_node(*first, data_dir=tmp_path / "first") as one:
        host, port = one.addresses["peer"]
        second = ("--name", "second", "--peer", "127.0.0.1:0", "--secret-file", str(secret), "--join", f"{host}:{port}")
        with running_node(*second, data_dir=tmp_path / "second") as other:
            status_when(address_of(one), lambda found: len(found.metadata_voters) == 2)
            one.stop()
            status_when(address_of(other), lambda found: not up(found)["first"])
            with running_node(*first, data_dir=tmp_path / "first") as again:
                assert again.addresses["peer"] != (host, port)
                now = "{}:{}".format(*again.addresses["peer"])
                found = status_when(
                    address_of(other),
                    lambda found: all(up(found).values()) and {node.address for node in found.nodes} >= {now},
                )
                assert up(found) == {"first": True, "second": True}


def test_nodes_that_all_come_back_elsewhere_at_once_find_each_other(tmp_path: Path) -> None:
    """Each asked the others once when it started, and those that were not there yet were never asked again."""
    with running_cluster(tmp_path / "data") as cluster:
        on(cluster.grpc(1), lambda node: node.topology.declare_queue("kept"))
        before = {cluster.peer(number) for number in (1, 2, 3)}
    with running_cluster(tmp_path / "data", base_port=free_base_port(6)) as moved:
        now = {moved.peer(number) for number in (1, 2, 3)}
        assert not now & before
        found = status_when(
            moved.grpc(1), lambda found: all(up(found).values()) and {node.address for node in found.nodes} == now
        )
        assert len(found.metadata_voters) == 3
        when(moved.grpc(3), queues_of, lambda names: names == {"kept"})


def test_leaders_leave_one_after_the_other_until_one_node_is_left(tmp_path: Path) -> None:
    cluster = RunningCluster(tmp_path / "data", free_base_port(3), "--nodes", "3")
    try:
        cluster.ready(3)
        left = {"n1", "n2", "n3"}
        asked = "n1"
        while len(left) > 1:
            found = status_when(
                cluster.grpc(int(asked[1])),
                lambda found: set(found.metadata_voters) == left and bool(found.metadata_leader),
            )
            leader = found.metadata_leader
            on(cluster.grpc(int(leader[1])), lambda node: node.admin.leave_cluster())
            cluster.said(rf"^{leader} +\| has stopped with exit code 0")
            left.remove(leader)
            asked = min(left)
        found = status_when(cluster.grpc(int(asked[1])), lambda found: found.metadata_leader == asked)
        assert (up(found), found.problems) == ({asked: True}, ())
        on(cluster.grpc(int(asked[1])), lambda node: node.topology.declare_queue("goes.on"))
    finally:
        assert cluster.stop() == 0


def test_a_node_becomes_a_ram_node_and_a_disk_node_again(tmp_path: Path) -> None:
    with (
        running_cluster(tmp_path / "data", nodes=1) as cluster,
        running_node(*joining(cluster, "--name", "extra"), data_dir=tmp_path / "extra") as node,
    ):
        status_when(cluster.grpc(1), lambda found: len(found.metadata_voters) == 2)
        on(cluster.grpc(1), lambda one: one.topology.declare_queue("kept"))
        target = address_of(node)
        for kind, voters in (("ram", 1), ("disk", 2)):
            target = changed(cluster, target, kind, voters)
            when(target, queues_of, lambda names: names == {"kept"})


def changed(cluster: RunningCluster, target: str, kind: str, voters: int) -> str:
    """Have node extra become of this kind; where it listens then, since its process begins again on other ports."""

    def is_changed(found: ClusterStatus) -> bool:
        states = {one.name: (one.kind, one.up) for one in found.nodes}
        moved = grpc_of(found, "extra") not in ("", target)
        return len(found.metadata_voters) == voters and states["extra"] == (kind, True) and moved

    on(target, lambda node: node.admin.change_node_kind(kind))
    return grpc_of(status_when(cluster.grpc(1), is_changed), "extra")


def grpc_of(found: ClusterStatus, name: str) -> str:
    listeners = {one.name: one.listeners for one in found.nodes}[name]
    return next((one.address for one in listeners if one.protocol == "grpc"), "")
