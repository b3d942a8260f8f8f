"""Quorum queues of a cluster of real processes, used by clients that know nothing of it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from pika.adapters.blocking_connection import BlockingChannel

from tests.e2e.test_cluster import process_of, status_when, up
from tests.e2e.test_far_queues import PERSISTENT, channel_to, counts
from tests.running_cluster import RunningCluster, running_cluster

QUORUM = {"x-queue-type": "quorum"}
EVERYBODY = {"n1": True, "n2": True, "n3": True}


def all_are_voters(cluster: RunningCluster) -> None:
    for number in (1, 2, 3):
        status_when(cluster.grpc(number), lambda found: up(found) == EVERYBODY and len(found.metadata_voters) == 3)


def published(channel: BlockingChannel, queue: str, numbers: range) -> None:
    """Each is confirmed before the next one goes."""
    for number in numbers:
        channel.basic_publish("", queue, str(number).encode(), PERSISTENT, mandatory=True)


def consumed(channel: BlockingChannel, queue: str, count: int) -> list[tuple[int, bool]]:
    """Number and redelivered flag of the first messages, all acknowledged."""
    channel.basic_qos(prefetch_count=50)
    seen: list[tuple[int, bool]] = []
    for method, _, body in channel.consume(queue):
        seen.append((int(body), method.redelivered))
        channel.basic_ack(method.delivery_tag)
        if len(seen) == count:
            break
    channel.cancel()
    return seen


def test_whoever_is_killed_nothing_is_lost_doubled_or_out_of_order(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "data") as cluster:
        all_are_voters(cluster)
        with channel_to(cluster, 1) as home:
            home.queue_declare("payments", durable=True, arguments=QUORUM)
        with channel_to(cluster, 2) as publisher, channel_to(cluster, 3) as consumer:
            publisher.confirm_delivery()
            published(publisher, "payments", range(100))
            seen_before = len(cluster.lines)
            os.kill(process_of(cluster, 1), signal.SIGKILL)  # it leads: the queue was declared there
            published(publisher, "payments", range(100, 200))
            assert consumed(consumer, "payments", 200) == [(number, False) for number in range(200)]
            cluster.said(r"^n1 +\| ready: ", seen_before)
            all_are_voters(cluster)
            with channel_to(cluster, 1) as back:
                assert counts(back, "payments") == (0, 0)


def test_all_nodes_stop_and_start_and_every_message_is_there(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "data") as cluster:
        all_are_voters(cluster)
        with channel_to(cluster, 1) as channel:
            channel.queue_declare("kept", durable=True, arguments=QUORUM)
            channel.confirm_delivery()
            published(channel, "kept", range(50))
    with running_cluster(tmp_path / "data", base_port=cluster.base_port) as cluster, channel_to(cluster, 3) as channel:
        assert consumed(channel, "kept", 50) == [(number, False) for number in range(50)]
