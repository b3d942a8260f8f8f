"""The management API of a cluster: each node shows all of it, and goes on when one of the others does not answer."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pika
import pytest

from tests.e2e.test_cluster import process_of
from tests.running_cluster import RunningCluster, running_cluster

WITHIN_S = 60.0
LOGIN = "Basic " + base64.b64encode(b"guest:guest").decode()
JSON = "application/json"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with running_cluster(Path(tmp_path_factory.mktemp("management"))) as running:
        running.ready(3)
        yield running


def ask(
    cluster: RunningCluster, number: int, method: str, path: str, body: Any = None
) -> tuple[int, Any, dict[str, str]]:
    connection = http.client.HTTPConnection(*cluster.http(number), timeout=WITHIN_S)
    sent = None if body is None else json.dumps(body)
    connection.request(method, f"/api/{path}", sent, {"Authorization": LOGIN, "Content-Type": JSON})
    response = connection.getresponse()
    raw = response.read()
    connection.close()
    return response.status, json.loads(raw) if raw else None, dict(response.headers)


def get(cluster: RunningCluster, number: int, path: str) -> Any:
    status, found, _ = ask(cluster, number, "GET", path)
    assert status == 200, (path, status, found)
    return found


def until(what: Callable[[], bool]) -> None:
    """Asked again each time it is not so yet; answers take a while each."""
    deadline = time.monotonic() + WITHIN_S
    while not what():
        assert time.monotonic() < deadline, "it has not become so"


def test_any_node_shows_what_clients_do_on_the_others(cluster: RunningCluster) -> None:
    connection = pika.BlockingConnection(pika.ConnectionParameters(*cluster.amqp(2), heartbeat=0))
    channel = connection.channel()
    channel.queue_declare("lives-on-2", durable=True)
    channel.queue_declare("everywhere", durable=True, arguments={"x-queue-type": "quorum"})
    channel.basic_publish("", "lives-on-2", b"one")
    channel.basic_consume("everywhere", lambda *_: None, consumer_tag="far")
    until(lambda: any(one["name"] == "lives-on-2" for one in get(cluster, 1, "queues")))
    (shown,) = get(cluster, 1, "connections")
    assert (shown["node"], shown["channels"]) == ("n2", 1)
    assert [one["connection_details"]["name"] for one in get(cluster, 3, "channels")] == [shown["name"]]
    (consumer,) = get(cluster, 1, "consumers")
    assert (consumer["consumer_tag"], consumer["channel_details"]["node"]) == ("far", "n2")
    assert get(cluster, 1, "overview")["object_totals"]["connections"] == 1
    for path in ("queues/%2F/lives-on-2", "queues"):
        found = get(cluster, 1, path)
        queue = found if isinstance(found, dict) else next(one for one in found if one["name"] == "lives-on-2")
        assert (queue["node"], queue["messages"], queue["message_bytes"]) == ("n2", 1, 3), path
    spread = get(cluster, 1, "queues/%2F/everywhere")
    assert (sorted(spread["members"]), sorted(spread["online"])) == (["n1", "n2", "n3"], ["n1", "n2", "n3"])
    status = get(cluster, 1, "queues/quorum/%2F/everywhere/status")
    assert {one["Node Name"] for one in status} == {"n1", "n2", "n3"}
    assert sum(one["Raft State"] == "leader" for one in status) == 1
    assert ask(cluster, 3, "DELETE", f"connections/{quote(shown['name'])}")[0] == 204
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
        connection.process_data_events(10)
    assert ask(cluster, 3, "DELETE", f"connections/{quote(shown['name'])}")[0] == 404


def test_leveretctl_says_whose_clients_it_lists_and_which_nodes_may_have_more(cluster: RunningCluster) -> None:
    def listed(noun: str) -> tuple[str, str]:
        command = [sys.executable, "-m", "leveret.ctl", "--node", cluster.grpc(1), noun, "list"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=True)
        return done.stdout, done.stderr

    with contextlib.closing(pika.BlockingConnection(pika.ConnectionParameters(*cluster.amqp(2), heartbeat=0))):
        for noun in ("connection", "channel", "consumer"):
            said, beside = listed(noun)
            assert said == f"no {noun}s at node 'n1'\n"
            assert f"only of node 'n1', which was asked; there may be {noun}s at n2, n3, too" in beside


def test_a_node_that_hangs_is_named_and_the_others_are_shown(cluster: RunningCluster) -> None:
    assert [one["running"] for one in get(cluster, 1, "nodes")] == [True, True, True]
    hanging = process_of(cluster, 3)
    os.kill(hanging, signal.SIGSTOP)
    try:
        status, found, headers = ask(cluster, 1, "GET", "nodes")
        assert status == 200
        assert {one["name"]: one["running"] for one in found} == {"n1": True, "n2": True, "n3": False}
        assert headers["X-Leveret-Missing-Nodes"] == "n3"
        for path in ("overview", "connections", "channels", "consumers", "queues", "vhosts"):
            assert ask(cluster, 1, "GET", path)[0] == 200, path
    finally:
        os.kill(hanging, signal.SIGCONT)
    until(lambda: all(one["running"] for one in get(cluster, 1, "nodes")))


def test_what_clients_of_several_nodes_do_is_added_up_and_sorted_by(cluster: RunningCluster) -> None:
    connections = [
        pika.BlockingConnection(pika.ConnectionParameters(*cluster.amqp(number), heartbeat=0)) for number in (1, 2)
    ]
    first, second = (connection.channel() for connection in connections)
    first.queue_declare("summed", durable=True, arguments={"x-queue-type": "quorum"})
    first.queue_bind("summed", "amq.direct")
    second.queue_declare("many-on-2", durable=True)
    for channel, count in ((first, 2), (second, 3)):
        channel.confirm_delivery()
        for _ in range(count):
            channel.basic_publish("amq.direct", "summed", b"x")
    for _ in range(9):
        second.basic_publish("", "many-on-2", b"x")

    def is_counted() -> bool:
        queue = get(cluster, 3, "queues/%2F/summed")
        exchange = get(cluster, 3, "exchanges/%2F/amq.direct")
        counted = queue.get("message_stats", {}).get("publish"), exchange.get("message_stats", {}).get("publish_in")
        return (*counted, queue["messages"]) == (5, 5, 5)

    until(is_counted)
    shown = get(cluster, 3, "queues/%2F/summed")
    assert [(one["exchange"]["name"], one["stats"]["publish"]) for one in shown["incoming"]] == [("amq.direct", 5)]
    (vhost,) = get(cluster, 3, "vhosts")
    overview = get(cluster, 3, "overview")
    messages = sum(one["messages"] for one in get(cluster, 3, "queues"))
    assert vhost["messages"] == overview["queue_totals"]["messages"] == messages, "each queue is counted once"
    assert set(vhost["cluster_state"]) == {"n1", "n2", "n3"}
    for column, top in (("messages", ["many-on-2", "summed"]), ("message_stats.publish", ["many-on-2", "summed"])):
        path = f"queues?page=1&page_size=2&sort={column}&sort_reverse=true"
        until(lambda path=path, top=top: [one["name"] for one in get(cluster, 1, path)["items"]] == top)  # type: ignore[misc]
    for connection in connections:
        connection.close()
