"""deploy/compose.yaml as its reader runs it: unmodified pika on each node's port, and nodes that are killed under it."""

from __future__ import annotations

import re
import time
from functools import partial

import pika
import pytest

from tests.containers.cluster import DISK_NODES, NODES, STOP_WITHIN_S, ContainerCluster
from tests.pika_steps import GET_WITHIN_S, consumed, declared, published

pytestmark = pytest.mark.containers


def states(cluster: ContainerCluster, asked: str) -> dict[str, tuple[str, bool]]:
    """Of each node, its kind and whether it is up, as one of them sees it."""
    found = cluster.status(asked)
    return {node.name: (node.kind, node.up) for node in found.nodes} if found else {}


def sees(cluster: ContainerCluster, asked: str, nodes: dict[str, tuple[str, bool]]) -> bool:
    return states(cluster, asked) == nodes


def is_healthy(cluster: ContainerCluster, node: str) -> bool:
    return bool(cluster.container(node).attrs["State"]["Health"]["Status"] == "healthy")


def until_all_are_up(cluster: ContainerCluster) -> None:
    everybody = {name: ("disk" if name in DISK_NODES else "ram", True) for name in NODES}
    for node in NODES:
        cluster.eventually(partial(sees, cluster, node, everybody), f"{node} seeing all")


def test_every_node_is_healthy_and_sees_the_others(cluster: ContainerCluster) -> None:
    until_all_are_up(cluster)
    for node in NODES:
        cluster.eventually(partial(is_healthy, cluster, node), f"health of {node}")
    told = cluster.run("n4", "leveretctl", "cluster", "status")
    assert "leveret (" in told and "!" not in told, told
    for node in NODES:
        assert re.search(rf"^\W*{node}\W+(disk|ram)\W+up\b", told, re.MULTILINE), told


def test_the_image_runs_as_nobody_special_and_has_compiled_kernels(cluster: ContainerCluster) -> None:
    assert cluster.run("n1", "id", "-un").strip() == "leveret"
    assert re.search(r"\bCapEff:\s+0+$", cluster.run("n1", "cat", "/proc/self/status"), re.MULTILINE)
    assert '"kernels": "compiled"' in cluster.run("n1", "leveret", "doctor", "--json")
    with pytest.raises(Exception, match="non-zero exit status"):
        cluster.run("n1", "touch", "/opt/leveret/written")


@pytest.mark.parametrize("killed", NODES)
def test_a_killed_node_is_done_without_and_comes_back(cluster: ContainerCluster, killed: str) -> None:
    queue = f"without.{killed}"
    first, second, third = (name for name in NODES if name != killed)
    on_killed, publishing, consuming = (cluster.connected(node) for node in (killed, first, second))
    declared(on_killed.channel(), queue)
    before = published(on_killed.channel(), queue, "before")
    assert consumed(consuming.channel(), queue, len(before)) == before
    sent = published(on_killed.channel(), queue, "on the node to be killed")

    cluster.container(killed).kill()
    assert cluster.container(killed).attrs["State"]["ExitCode"] == 137

    sent += published(publishing.channel(), queue, "meanwhile")
    assert consumed(consuming.channel(), queue, len(sent)) == sent
    cluster.eventually(lambda: not states(cluster, third)[killed][1], f"{third} noticing that {killed} is down")
    assert f"! node {killed} is down" in cluster.run(third, "leveretctl", "cluster", "status")
    waiting = published(publishing.channel(), queue, "waiting")

    cluster.start_again(killed)
    until_all_are_up(cluster)
    again = cluster.connected(killed)
    assert consumed(again.channel(), queue, len(waiting)) == waiting
    again.channel().queue_delete(queue)
    for connection in (again, publishing, consuming):
        connection.close()


def test_a_node_that_ends_by_itself_is_started_again(cluster: ContainerCluster) -> None:
    """Not `docker kill`: the engine takes that for the operator's will."""
    before = cluster.times_ready("n2")
    cluster.run("n2", "sh", "-c", "kill -9 $(cat /proc/1/task/1/children)")
    cluster.until_ready("n2", before + 1)
    until_all_are_up(cluster)


@pytest.mark.parametrize("node", ["n1", "n4"])
def test_a_stop_is_clean_and_within_the_grace_period(cluster: ContainerCluster, node: str) -> None:
    connection = cluster.connected(node)
    began = time.monotonic()
    assert cluster.stop(node) == 0
    assert time.monotonic() - began < STOP_WITHIN_S / 2
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        connection.process_data_events(GET_WITHIN_S)
    assert closed.value.reply_code == 320
    cluster.start_again(node)
    until_all_are_up(cluster)


def test_what_was_declared_and_published_survives_the_end_of_all_nodes(cluster: ContainerCluster) -> None:
    connection = cluster.connected("n3")
    declared(connection.channel(), "survives")
    sent = published(connection.channel(), "survives", "kept")
    for node in NODES:
        cluster.container(node).kill()
    before = {node: cluster.times_ready(node) for node in NODES}
    for node in NODES:
        cluster.container(node).start()
    for node in NODES:
        cluster.until_ready(node, before[node] + 1)
    until_all_are_up(cluster)
    again = cluster.connected("n4")
    assert consumed(again.channel(), "survives", len(sent)) == sent
    again.channel().queue_delete("survives")
    again.close()
