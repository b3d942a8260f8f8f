"""Streams of a cluster of real processes, used by a client that knows nothing of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.e2e.test_cluster import process_of
from tests.e2e.test_far_queues import channel_to
from tests.e2e.test_quorum_queues import all_are_voters, published
from tests.running_cluster import ROOT, RunningCluster, running_cluster
from tests.running_node import RunningNode

STREAM = {"x-queue-type": "stream"}


def read(channel: BlockingChannel, stream: str, count: int, offset: Any = "first") -> list[tuple[int, bytes]]:
    """Offset and body of so many messages, all acknowledged."""
    channel.basic_qos(prefetch_count=50)
    seen: list[tuple[int, bytes]] = []
    for method, properties, body in channel.consume(stream, arguments={"x-stream-offset": offset}):
        assert not method.redelivered
        seen.append((properties.headers["x-stream-offset"], body))
        channel.basic_ack(method.delivery_tag)
        if len(seen) == count:
            break
    channel.cancel()
    return seen


def numbered(numbers: range) -> list[tuple[int, bytes]]:
    return [(number, str(number).encode()) for number in numbers]


def test_whoever_is_killed_a_stream_is_the_same_on_every_node(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "data") as cluster:
        all_are_voters(cluster)
        with channel_to(cluster, 1) as home:
            home.queue_declare("events", durable=True, arguments=STREAM)
        with channel_to(cluster, 2) as publisher, channel_to(cluster, 3) as reader:
            publisher.confirm_delivery()
            published(publisher, "events", range(100))
            assert read(reader, "events", 10) == numbered(range(10))
            seen_before = len(cluster.lines)
            os.kill(process_of(cluster, 1), signal.SIGKILL)  # it leads: the stream was declared there
            published(publisher, "events", range(100, 200))
            assert read(reader, "events", 200) == numbered(range(200))
            cluster.said(r"^n1 +\| ready: ", seen_before)
            all_are_voters(cluster)
            with channel_to(cluster, 1) as back:
                assert read(back, "events", 50, 150) == numbered(range(150, 200))
    with running_cluster(tmp_path / "data", base_port=cluster.base_port) as cluster, channel_to(cluster, 3) as channel:
        assert read(channel, "events", 200) == numbered(range(200))


def test_pika_reads_what_it_published_with_all_its_properties(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "data", nodes=1) as cluster, channel_to(cluster, 1) as channel:
        channel.exchange_declare("facts", "topic", durable=True)
        channel.queue_declare("log", durable=True, arguments={**STREAM, "x-max-age": "7D"})
        channel.queue_bind("log", "facts", "#")
        channel.confirm_delivery()
        sent = pika.BasicProperties(
            content_type="application/json", headers={"n": 1, "deep": {"list": [1, "two", None]}}, delivery_mode=1,
            priority=3, correlation_id="c", reply_to="r", expiration="1", message_id="m", timestamp=17, type="t",
            user_id="guest", app_id="a",
        )  # fmt: skip
        channel.basic_publish("facts", "a.b", b'{"x": 1}', sent, mandatory=True)
        channel.basic_qos(prefetch_count=1)
        method, properties, body = next(iter(channel.consume("log", arguments={"x-stream-offset": "first"})))
        assert (method.exchange, method.routing_key, body) == ("facts", "a.b", b'{"x": 1}')
        offset = properties.headers.pop("x-stream-offset")
        assert offset == 0 and properties == sent


@pytest.mark.parametrize(
    ("arguments", "durable", "code"),
    [
        (STREAM, False, 406),
        ({**STREAM, "x-message-ttl": 1}, True, 406),
        ({**STREAM, "x-max-age": "soon"}, True, 406),
        ({**STREAM, "x-stream-max-segment-size-bytes": 3_000_000_001}, True, 406),
        ({**STREAM, "x-stream-filter-size-bytes": 15}, True, 406),
        ({**STREAM, "x-queue-leader-locator": "anywhere"}, True, 406),
    ],
)
def test_what_no_stream_can_be_is_refused(
    node: RunningNode, arguments: dict[str, Any], durable: bool, code: int
) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(node.amqp_url))
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
        connection.channel().queue_declare("wrong", durable=durable, arguments=arguments)
    assert refused.value.reply_code == code
    connection.close()


REFUSED = {
    "get": (540, lambda channel: channel.basic_get("once")),
    "purge": (540, lambda channel: channel.queue_purge("once")),
    "no acknowledgement": (540, lambda channel: channel.basic_consume("once", print, auto_ack=True)),
    "no prefetch": (406, lambda channel: channel.basic_consume("once", print)),
    "priority": (406, lambda channel: limited(channel).basic_consume("once", print, arguments={"x-priority": 1})),
    "offset": (406, lambda channel: limited(channel).basic_consume("once", print, arguments={"x-stream-offset": "x"})),
    "another kind": (406, lambda channel: channel.queue_declare("once", durable=True)),
}


def limited(channel: BlockingChannel) -> BlockingChannel:
    channel.basic_qos(prefetch_count=1)
    return channel


@pytest.mark.parametrize("what", REFUSED)
def test_what_a_stream_cannot_do_is_refused_with_the_codes_that_clients_know(node: RunningNode, what: str) -> None:
    code, ask = REFUSED[what]
    connection = pika.BlockingConnection(pika.URLParameters(node.amqp_url))
    channel = connection.channel()
    for _ in range(2):
        channel.queue_declare("once", durable=True, arguments={**STREAM, "x-queue-leader-locator": "least-leaders"})
    with pytest.raises((pika.exceptions.ChannelClosedByBroker, pika.exceptions.ConnectionClosedByBroker)) as refused:
        ask(channel)
    assert refused.value.reply_code == code


def ctl(cluster: RunningCluster, *arguments: str) -> str:
    command = [sys.executable, "-m", "leveret.ctl", "--node", cluster.grpc(1), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT, check=True).stdout


def until_voters(cluster: RunningCluster, stream: str, nodes: list[str]) -> None:
    for _ in range(60):
        members = json.loads(ctl(cluster, "--json", "queue", "status", stream))["group"]["members"]
        if [one["node"] for one in members if one["membership"] == "voter"] == nodes:
            return
    raise AssertionError(f"the members of {stream} are {members}, not voters on {nodes}")


def test_members_of_a_stream_are_administered_as_those_of_a_quorum_queue(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "data") as cluster:
        all_are_voters(cluster)
        with channel_to(cluster, 1) as channel:
            channel.queue_declare("moved", durable=True, arguments={**STREAM, "x-initial-cluster-size": 1})
            channel.confirm_delivery()
            published(channel, "moved", range(20))
        ctl(cluster, "queue", "add-member", "moved", "n2")
        until_voters(cluster, "moved", ["n1", "n2"])
        ctl(cluster, "queue", "transfer", "moved", "n2")
        ctl(cluster, "queue", "delete-member", "moved", "n1")
        with channel_to(cluster, 2) as channel:
            assert read(channel, "moved", 20) == numbered(range(20))
        until_voters(cluster, "moved", ["n2"])
