"""Replicated queues as a node shows them that has no member of them, and whose clients make no use of them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from typing import Any

import pika
import pytest

import leveret
from leveret.records import NodeStatus, Queue
from tests.e2e.test_cluster import process_of
from tests.e2e.test_management_cluster import ask, get, until
from tests.running_cluster import RunningCluster, running_cluster

CHECK = "health/checks/quorum-queues-without-elected-leaders/all-vhosts"
KINDS = {"quorum": "x-quorum-initial-group-size", "stream": "x-initial-cluster-size"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with running_cluster(tmp_path_factory.mktemp("elsewhere") / "data", nodes=4) as running:
        until(lambda: [one["running"] for one in get(running, 1, "nodes")] == [True] * 4)
        yield running


@pytest.fixture(scope="module", autouse=True)
def queues(cluster: RunningCluster) -> None:
    """One of each kind, with three members."""
    connection = pika.BlockingConnection(pika.ConnectionParameters(*cluster.amqp(1), heartbeat=0))
    channel = connection.channel()
    channel.confirm_delivery()
    for kind, size in KINDS.items():
        channel.queue_declare(kind, durable=True, arguments={"x-queue-type": kind, size: 3})
        for _ in range(5):
            channel.basic_publish("", kind, b"message", pika.BasicProperties(delivery_mode=2))
    connection.close()


def members_of(cluster: RunningCluster, queue: str) -> list[int]:
    return [int(node[1:]) for node in get(cluster, 1, f"queues/%2F/{queue}")["members"]]


def far_from(cluster: RunningCluster, queue: str) -> int:
    """The number of the node without a member."""
    (far,) = {1, 2, 3, 4} - set(members_of(cluster, queue))
    return far


@pytest.mark.parametrize("kind", KINDS)
def test_a_healthy_queue_is_shown_as_where_its_members_are(cluster: RunningCluster, kind: str) -> None:
    """The first look of all: nobody has used it on this node."""
    far = far_from(cluster, kind)
    (listed,) = [one for one in get(cluster, far, "queues?sort=messages&sort_reverse=true") if one["name"] == kind]
    near = get(cluster, members_of(cluster, kind)[0], f"queues/%2F/{kind}")
    for shown in (listed, get(cluster, far, f"queues/%2F/{kind}")):
        for field in ("state", "messages", "messages_ready", "message_bytes", "leader", "node", "members", "online"):
            assert shown[field] == near[field], field
    assert (near["state"], near["messages"]) == ("running", 5)


def test_grpc_and_the_cluster_map_know_them(cluster: RunningCluster) -> None:
    far = far_from(cluster, "quorum")
    listed, status = asyncio.run(_told_over_grpc(cluster.grpc(far)))
    assert {one.name: one.ready for one in listed} == dict.fromkeys(KINDS, 5)
    assert status.messages_ready == 10
    groups = get(cluster, far, "leveret/groups")
    assert sorted(one["name"] for one in groups if one["leader"]) == ["quorum", "stream"]
    assert sum(load["leaders"] for load in get(cluster, far, "leveret/cluster")["load"].values()) == 2


async def _told_over_grpc(address: str) -> tuple[list[Queue], NodeStatus]:
    async with leveret.connect(address) as node:
        return await node.topology.queues(), await node.admin.node_status()


def test_the_health_check_goes_by_the_nodes_with_members_and_names_those_that_do_not_answer(
    cluster: RunningCluster,
) -> None:
    far = far_from(cluster, "quorum")
    assert ask(cluster, far, "GET", CHECK)[:2] == (200, {"status": "ok"})
    members = members_of(cluster, "quorum")
    hanging = [process_of(cluster, number) for number in members]
    try:
        for process in hanging[1:]:
            os.kill(process, signal.SIGSTOP)
        until(lambda: ask(cluster, far, "GET", CHECK)[0] == 503)
        told = ask(cluster, far, "GET", CHECK)[1]
        assert [one["name"] for one in told["queues"]] == ["quorum"]
        os.kill(hanging[0], signal.SIGSTOP)
        until(lambda: "unreachable_nodes" in _failure(cluster, far))
        told = _failure(cluster, far)
        assert told["unreachable_nodes"] == sorted(f"n{number}" for number in members)
        assert get(cluster, far, "queues/%2F/quorum")["state"] == "down"
    finally:
        for process in hanging:
            os.kill(process, signal.SIGCONT)
    until(lambda: ask(cluster, far, "GET", CHECK)[0] == 200)


def _failure(cluster: RunningCluster, node: int) -> Any:
    return ask(cluster, node, "GET", CHECK)[1]
