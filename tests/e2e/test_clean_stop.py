"""A node of a cluster that is stopped while clients everywhere hold its messages: the next start need not read everything."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pika

import leveret
from storage.names import CLASSIC_CLEAN_STOP
from tests.e2e.test_cluster import process_of, status_when, up
from tests.e2e.test_far_queues import channel_to, counts, known
from tests.running_cluster import RunningCluster, running_cluster

MESSAGES = 500
HELD = 50  # by each client at most
WITHIN_S = 60.0


@contextmanager
def amqp_holder(cluster: RunningCluster, number: int) -> Iterator[None]:
    """A client that holds messages, by a subscription and by a get, and says nothing while its node stops."""
    connection = pika.BlockingConnection(pika.ConnectionParameters(*cluster.amqp(number), heartbeat=0))
    channel = known(connection.channel(), "held")
    channel.basic_qos(prefetch_count=HELD)
    channel.basic_consume("held", lambda *delivery: None)
    assert channel.basic_get("held")[0] is not None
    try:
        yield
    finally:
        with suppress(pika.exceptions.AMQPError):
            connection.close()


@contextmanager
def grpc_holder(cluster: RunningCluster, number: int) -> Iterator[None]:
    with leveret.connect_sync(cluster.grpc(number)) as node:
        consumer = node.consume("held", prefetch=HELD)
        consumer.receive(WITHIN_S)
        yield


def wait_for_the_end(process: int) -> None:
    until = time.monotonic() + WITHIN_S
    while Path(f"/proc/{process}").exists():
        assert time.monotonic() < until, f"process {process} does not end"
        time.sleep(0.05)


def test_what_clients_of_all_nodes_hold_comes_back_before_a_stop_is_written_down(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "data", nodes=2) as cluster:
        status_when(cluster.grpc(1), lambda found: up(found) == {"n1": True, "n2": True})
        with leveret.connect_sync(cluster.grpc(1)) as node, node.publisher() as publisher:
            node.topology.declare_queue("held")
            publisher.publish_many([b"%d" % number for number in range(MESSAGES)], routing_key="held")
        with (
            amqp_holder(cluster, 1),
            amqp_holder(cluster, 2),
            grpc_holder(cluster, 1),
            grpc_holder(cluster, 2),
        ):
            before, stopped = len(cluster.lines), process_of(cluster, 1)
            os.kill(stopped, signal.SIGTERM)
            wait_for_the_end(stopped)
        assert not any("read everything" in line for line in cluster.lines[before:]), cluster.lines[before:]
        assert (cluster.data_dir / "n1" / CLASSIC_CLEAN_STOP).exists()

    again = RunningCluster(cluster.data_dir, cluster.base_port, "--nodes", "2")
    try:
        again.ready(2)
        with channel_to(again, 1) as home:
            assert counts(home, "held") == (MESSAGES, 0)
    finally:
        assert again.stop() == 0
