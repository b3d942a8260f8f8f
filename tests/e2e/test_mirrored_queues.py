"""What is said of mirrored queues of RabbitMQ 3.x, each statement as it holds here: with pika, and policies as they were.

One node serves a queue (its leader, once called master), the others follow it. Statements on disk and RAM nodes are held by
test_ram_node.py and test_cluster.py, on a dead node's queues that are not mirrored by test_far_queues.py.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.e2e.test_cluster import on, process_of
from tests.e2e.test_management_cluster import ask, get, until
from tests.running_cluster import RunningCluster, running_cluster

NODES = (1, 2, 3)
COUNT = 30
WITHIN_S = 30.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with running_cluster(Path(tmp_path_factory.mktemp("mirrored"))) as running:
        until(lambda: _all_know(running))
        yield running


def _all_know(cluster: RunningCluster) -> bool:
    """Nodes tell each other of which version they are; a policy that only later versions know is refused until then."""
    return put_policy(cluster, "all", "^all\\.", {"ha-mode": "all", "ha-sync-mode": "automatic"}) in (201, 204)


def put_policy(cluster: RunningCluster, name: str, pattern: str, definition: dict[str, Any]) -> int:
    body = {"pattern": pattern, "definition": definition, "apply-to": "queues"}
    return ask(cluster, 1, "PUT", f"policies/%2F/{name}", body)[0]


def channel_to(cluster: RunningCluster, number: int) -> BlockingChannel:
    parameters = pika.ConnectionParameters(*cluster.amqp(number), heartbeat=0)
    channel = pika.BlockingConnection(parameters).channel()
    channel.confirm_delivery()
    return channel


def declared(cluster: RunningCluster, name: str, number: int = 1, **arguments: Any) -> BlockingChannel:
    channel = channel_to(cluster, number)
    channel.queue_declare(name, durable=True, arguments=arguments)
    return channel


def published(channel: BlockingChannel, queue: str, count: int = COUNT) -> list[bytes]:
    bodies = [str(number).encode() for number in range(count)]
    for body in bodies:
        channel.basic_publish("", queue, body, pika.BasicProperties(delivery_mode=2), mandatory=True)
    return bodies


def taken(channel: BlockingChannel, queue: str, count: int) -> list[bytes]:
    got: list[bytes] = []
    for method, _, body in channel.consume(queue, inactivity_timeout=WITHIN_S):
        assert method is not None, f"{len(got)} of {count} messages came, and no more within {WITHIN_S:g} s"
        channel.basic_ack(method.delivery_tag)
        got.append(body)
        if len(got) == count:
            break
    channel.cancel()
    return got


def shown(cluster: RunningCluster, queue: str, number: int = 1) -> dict[str, Any]:
    found: dict[str, Any] = get(cluster, number, f"queues/%2F/{queue}")
    return found


def shown_with(cluster: RunningCluster, queue: str, others: int) -> dict[str, Any]:
    """Once the node that is asked knows who leads."""
    until(lambda: len(shown(cluster, queue)["slave_nodes"]) == others)
    return shown(cluster, queue)


def test_a_queue_declared_under_the_policy_is_on_all_nodes_and_shown_as_tools_of_old_read_it(
    cluster: RunningCluster,
) -> None:
    declared(cluster, "all.shown", **{"x-queue-mode": "lazy"})
    found = shown_with(cluster, "all.shown", 2)
    assert (found["type"], found["policy"]) == ("quorum", "all")
    assert found["mirroring"] == {"mode": "all", "active": True, "notice": ""}
    assert found["synchronised_slave_nodes"] == found["slave_nodes"]
    declared(cluster, "all.shown", **{"x-queue-mode": "lazy"})  # as clients do whenever they connect


def test_reads_and_writes_go_to_the_one_that_leads_whichever_node_a_client_talks_to(cluster: RunningCluster) -> None:
    declared(cluster, "all.reached")
    bodies = [body for number in NODES for body in published(channel_to(cluster, number), "all.reached", 5)]
    assert taken(channel_to(cluster, 3), "all.reached", len(bodies)) == bodies


def test_all_members_have_the_messages_in_one_order(cluster: RunningCluster) -> None:
    bodies = published(declared(cluster, "all.ordered", 2), "all.ordered")
    for number in NODES:
        path = "leveret/queues/%2F/all.ordered/browse"
        until(
            lambda number=number, path=path: [one["payload"].encode() for one in get(cluster, number, path)] == bodies
        )  # type: ignore[misc]


def led_by(cluster: RunningCluster, queue: str) -> set[str]:
    return {"n1", "n2", "n3"} - set(shown(cluster, queue)["slave_nodes"])


def test_a_queue_is_mirrored_and_not_a_node_so_each_has_a_leader_of_its_own(cluster: RunningCluster) -> None:
    for queue, node in (("all.led.1", "n1"), ("all.led.2", "n2")):
        declared(cluster, queue)
        shown_with(cluster, queue, 2)
        if led_by(cluster, queue) != {node}:
            on(cluster.grpc(1), lambda one, queue=queue, node=node: one.admin.transfer_queue_leader(queue, node))  # type: ignore[misc]
        until(lambda queue=queue, node=node: led_by(cluster, queue) == {node})  # type: ignore[misc]


def test_so_many_nodes_have_it_as_the_policy_says(cluster: RunningCluster) -> None:
    assert put_policy(cluster, "two", "^two\\.", {"ha-mode": "exactly", "ha-params": 2}) == 201
    assert put_policy(cluster, "named", "^named\\.", {"ha-mode": "nodes", "ha-params": ["rabbit@n3"]}) == 201
    for queue, others in (("two.q", 1), ("named.q", 0)):
        declared(cluster, queue)
        shown_with(cluster, queue, others)
    group = get(cluster, 1, "leveret/queues/%2F/named.q/group")
    assert [one["node"] for one in group["members"]] == ["n3"]


def test_a_policy_may_come_at_any_time_and_a_queue_that_was_there_becomes_mirrored_while_it_is_used(
    cluster: RunningCluster,
) -> None:
    channel = declared(cluster, "later.q")
    bodies = published(channel, "later.q")
    consumer, before = channel_to(cluster, 2), []
    consumer.basic_qos(prefetch_count=1)
    consumer.basic_consume("later.q", lambda _, method, __, body: before.append((method.redelivered, body)))
    while not before:
        consumer.connection.process_data_events(time_limit=WITHIN_S)
    assert put_policy(cluster, "later", "^later\\.", {"ha-mode": "all"}) == 201
    until(lambda: shown(cluster, "later.q")["type"] == "quorum")
    bodies += published(channel, "later.q", 2)
    consumer.connection.close()
    assert before == [(False, bodies[0])], "it keeps what it holds, and its subscription"
    assert shown_with(cluster, "later.q", 2)["mirroring"] == {"mode": "all", "active": True, "notice": ""}
    found = taken(declared(cluster, "later.q", 3), "later.q", COUNT + 2)  # as clients declare it whenever they connect
    assert sorted(found) == sorted(bodies), "what the consumer held comes again, when its node has given it back"


def test_a_consumer_that_wants_to_be_told_of_a_new_leader_is_accepted(cluster: RunningCluster) -> None:
    channel = declared(cluster, "all.told")
    channel.basic_consume("all.told", lambda *_: None, arguments={"x-cancel-on-ha-failover": True})


def test_when_the_leader_dies_another_that_has_all_that_was_confirmed_takes_over_and_consumers_stay(
    cluster: RunningCluster,
) -> None:
    bodies = published(declared(cluster, "all.survives", 1), "all.survives")
    consumer = channel_to(cluster, 2)
    seen = len(cluster.lines)
    os.kill(process_of(cluster, 1), signal.SIGKILL)
    assert taken(consumer, "all.survives", COUNT) == bodies
    more = published(channel_to(cluster, 3), "all.survives")
    assert taken(consumer, "all.survives", COUNT) == more
    cluster.said(r"^n1 +\| ready: ", seen)


def test_when_all_nodes_die_at_once_what_was_confirmed_is_there(cluster: RunningCluster) -> None:
    bodies = published(declared(cluster, "all.rises", 2), "all.rises")
    seen = len(cluster.lines)
    for number in NODES:
        os.kill(process_of(cluster, number), signal.SIGKILL)
    cluster.ready(len(NODES), seen)
    assert taken(channel_to(cluster, 1), "all.rises", COUNT) == bodies
