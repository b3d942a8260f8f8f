"""Messages that were consumed are published again from the log of a node: over HTTP, gRPC and the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from tests.e2e.test_cli import run
from tests.e2e.test_management_cluster import ask, get, until
from tests.running_cluster import RunningCluster, running_cluster

SERVING = 1  # the node that is asked
MESSAGES = 40
KINDS = ("classic", "quorum")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """Of each queue, at home on node 1, MESSAGES were consumed, the last one was rejected, and one waits."""
    with running_cluster(Path(tmp_path_factory.mktemp("replays"))) as running:
        running.ready(3)
        connection = pika.BlockingConnection(pika.ConnectionParameters(*running.amqp(SERVING)))
        channel = connection.channel()
        channel.confirm_delivery()
        for kind in KINDS:
            channel.queue_declare(f"again-{kind}", durable=True)
            channel.queue_declare(kind, durable=True, arguments={"x-queue-type": kind})
            for number in range(MESSAGES + 2):
                channel.basic_publish("", kind, b"%d" % number, pika.BasicProperties(delivery_mode=2))
            for number in range(MESSAGES + 1):
                method, _, _ = channel.basic_get(kind)
                if number < MESSAGES:
                    channel.basic_ack(method.delivery_tag)
                else:
                    channel.basic_reject(method.delivery_tag, requeue=False)
        connection.close()
        yield running


def path_of(kind: str) -> str:
    return f"leveret/queues/%2F/{kind}/replay"


def target_of(kind: str) -> dict[str, Any]:
    return {"exchange": "amq.default", "routing_key": f"again-{kind}", "rate": 0}


def durable(cluster: RunningCluster, kind: str, **order: Any) -> Any:
    """The dry run, once the log is known to have all that was done: what is acknowledged is committed a little later."""
    found: Any = None

    def has_all() -> bool:
        nonlocal found
        status, found, _ = ask(cluster, SERVING, "POST", path_of(kind), {**target_of(kind), "dry_run": True, **order})
        assert status == 200, found
        return bool(found["messages"] + sum(found["skipped"].values()) == MESSAGES + 1)

    until(has_all)
    return found


def taken(cluster: RunningCluster, queue: str) -> list[tuple[bytes, dict[str, Any]]]:
    with pika.BlockingConnection(pika.ConnectionParameters(*cluster.amqp(SERVING))) as connection:
        channel, found = connection.channel(), []
        while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
            found.append((got[2], got[1].headers))
        return found


def waiting(cluster: RunningCluster, queue: str) -> int:
    return int(get(cluster, SERVING, f"queues/%2F/{queue}")["messages"])


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_consumed_comes_again_in_order_and_marked_and_the_queue_keeps_what_it_has(
    cluster: RunningCluster, kind: str
) -> None:
    dry = durable(cluster, kind)
    assert (dry["messages"], dry["skipped"], dry["unknown"]) == (MESSAGES, {"rejected": 1}, "")
    assert dry["causes"] == [{"end": "acked", "exchange": "", "routing_key": kind, "messages": MESSAGES}]
    status, begun, _ = ask(cluster, SERVING, "POST", path_of(kind), target_of(kind))
    assert status == 202, begun
    until(lambda: get(cluster, SERVING, f"leveret/replays/{begun['id']}")["state"] != "running")
    done = get(cluster, SERVING, f"leveret/replays/{begun['id']}")
    assert (done["state"], done["published"], done["answered_to"]) == ("done", MESSAGES, dry["last"]), done
    found = taken(cluster, f"again-{kind}")
    assert [body for body, _ in found] == [b"%d" % number for number in range(MESSAGES)]
    assert {headers["x-replay-of"] for _, headers in found} == {kind}
    assert {headers["x-replay-id"] for _, headers in found} == {begun["id"]}
    assert found[0][1]["x-replay-place"] == dry["first"]
    assert waiting(cluster, kind) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_part_of_it_and_then_the_rest_behind_the_place_that_it_told(cluster: RunningCluster, kind: str) -> None:
    durable(cluster, kind)
    ctl = ("leveret.ctl", "--node", cluster.grpc(SERVING), "replay", kind, "--exchange=", f"--key=again-{kind}")
    part = json.loads(run(*ctl, "--json", "--limit", "15", "--rate", "0").stdout)
    assert (part["state"], part["published"]) == ("done", 15), part
    rest = run(*ctl, "--after", part["answered_to"], "--rate", "0")
    assert (rest.returncode, f"{MESSAGES - 15} of {MESSAGES - 15} messages" in rest.stdout) == (0, True), rest
    assert [body for body, _ in taken(cluster, f"again-{kind}")] == [b"%d" % number for number in range(MESSAGES)]


def test_what_was_rejected_is_meant_when_it_is_asked_for(cluster: RunningCluster) -> None:
    assert durable(cluster, "classic", ends=["rejected"])["messages"] == 1


def test_a_node_whose_log_does_not_have_the_queue_says_which_has(cluster: RunningCluster) -> None:
    status, said, _ = ask(cluster, 2, "POST", path_of("classic"), {**target_of("classic"), "dry_run": True})
    assert (status, "are in the logs of n1" in said["reason"]) == (400, True), said


def test_a_target_that_is_not_there_keeps_it_from_beginning(cluster: RunningCluster) -> None:
    status, said, _ = ask(cluster, SERVING, "POST", path_of("classic"), {"exchange": "nowhere"})
    assert (status, "nowhere" in said["reason"]) == (404, True), said
