"""Redrive in a cluster: dead-letter queues of every kind, on this node and on others, over HTTP, gRPC and the command line."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from tests.e2e.test_cli import run
from tests.e2e.test_management_cluster import ask, get, until
from tests.running_cluster import RunningCluster, running_cluster

SERVING = 1  # the node that is asked
MESSAGES = 300
KINDS = [("classic", 1), ("classic", 2), ("quorum", 1)]
_names = itertools.count(1)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with running_cluster(Path(tmp_path_factory.mktemp("redrive"))) as running:
        running.ready(3)
        yield running


class RedriveCase:
    """A dead-letter queue of one kind with MESSAGES messages that died in `work`."""

    def __init__(self, cluster: RunningCluster, kind: str, home: int) -> None:
        number = next(_names)
        self.cluster = cluster
        self.work, self.dead = f"work-{number}", f"dead-{number}"
        self.connection = pika.BlockingConnection(pika.ConnectionParameters(*cluster.amqp(home), heartbeat=0))
        self.channel = self.connection.channel()
        self.channel.confirm_delivery()
        self.channel.queue_declare(self.dead, durable=True, arguments={"x-queue-type": kind})
        self.channel.queue_declare(
            self.work,
            durable=True,
            arguments={
                "x-queue-type": kind,
                "x-message-ttl": 1,
                "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": self.dead,
            },
        )
        for number in range(MESSAGES):
            self.channel.basic_publish("", self.work, b"%d" % number)
        until(lambda: self.ready(self.dead) == MESSAGES)
        self.channel.queue_delete(self.work)
        self.channel.queue_declare(self.work, durable=True, arguments={"x-queue-type": kind})

    def ready(self, queue: str) -> int:
        return self.channel.queue_declare(queue, passive=True).method.message_count  # type: ignore[no-any-return]

    @property
    def path(self) -> str:
        return f"leveret/queues/%2F/{self.dead}/redrive"


@pytest.fixture(params=KINDS, ids=[f"{kind}-at-n{home}" for kind, home in KINDS])
def case(cluster: RunningCluster, request: pytest.FixtureRequest) -> Iterator[RedriveCase]:
    made = RedriveCase(cluster, *request.param)
    yield made
    made.connection.close()


def ended(cluster: RunningCluster, id_: str) -> Any:
    until(lambda: get(cluster, SERVING, f"leveret/redrives/{id_}")["state"] != "running")
    return get(cluster, SERVING, f"leveret/redrives/{id_}")


def test_all_messages_go_back_in_order_after_a_dry_run(case: RedriveCase) -> None:
    status, forecast, _ = ask(case.cluster, SERVING, "POST", case.path, {"dry_run": True})
    assert (status, forecast["moves"], forecast["ready"]) == (200, MESSAGES, MESSAGES)
    (cause,) = forecast["causes"]
    assert (cause["reason"], cause["died_in"], cause["to_routing_key"]) == ("expired", case.work, case.work)
    assert (case.ready(case.dead), case.ready(case.work)) == (MESSAGES, 0)
    status, begun, _ = ask(case.cluster, SERVING, "POST", case.path, {"limit": 200})
    assert (status, begun["node"]) == (202, "n1")
    first = ended(case.cluster, begun["id"])
    assert (first["state"], first["moved"], first["error"]) == ("done", 200, "")
    until(lambda: case.ready(case.dead) == MESSAGES - 200)
    _, begun, _ = ask(case.cluster, SERVING, "POST", case.path, {})
    assert ended(case.cluster, begun["id"])["moved"] == MESSAGES - 200
    until(lambda: case.ready(case.work) == MESSAGES)
    bodies = [case.channel.basic_get(case.work, auto_ack=True)[2] for _ in range(MESSAGES)]
    assert bodies == [b"%d" % number for number in range(MESSAGES)]


def test_what_does_not_match_is_in_its_place(case: RedriveCase) -> None:
    _, begun, _ = ask(case.cluster, SERVING, "POST", case.path, {"reason": "rejected"})
    found = ended(case.cluster, begun["id"])
    assert (found["state"], found["moved"], found["filtered"]) == ("done", 0, MESSAGES)
    until(lambda: case.ready(case.dead) == MESSAGES)
    method, _, body = case.channel.basic_get(case.dead, auto_ack=True)
    assert (body, method.redelivered) == (b"0", False)


def test_a_target_that_refuses_stops_it_and_loses_nothing(case: RedriveCase) -> None:
    full = f"full-for-{case.dead}"
    case.channel.queue_declare(full, durable=True, arguments={"x-max-length": 50, "x-overflow": "reject-publish"})
    _, begun, _ = ask(case.cluster, SERVING, "POST", case.path, {"exchange": "amq.default", "routing_key": full})
    found = ended(case.cluster, begun["id"])
    assert (found["state"], found["moved"]) == ("failed", 50)
    assert found["error"] == f"a queue refused a message: exchange '', key '{full}'"
    until(lambda: case.ready(case.dead) == MESSAGES - 50)
    assert case.ready(full) == 50


def test_the_command_line_says_the_same(case: RedriveCase) -> None:
    ctl = ("leveret.ctl", "--node", case.cluster.grpc(SERVING), "redrive", case.dead)
    dry = run(*ctl, "--dry-run")
    assert (dry.returncode, f"{MESSAGES} messages would be moved" in dry.stdout) == (0, True), dry
    assert case.ready(case.dead) == MESSAGES
    done = run(*ctl, "--json")
    assert (done.returncode, '"state": "done"' in done.stdout, f'"moved": {MESSAGES}' in done.stdout) == (
        0,
        True,
        True,
    ), done
    until(lambda: case.ready(case.work) == MESSAGES)
    nowhere = run(*ctl, "--exchange", "there-is-none")
    assert nowhere.returncode == 0  # nothing is left to move
    wrong = run(*ctl, "--reason", "bored")
    assert (wrong.returncode, "reason is one of rejected" in wrong.stderr) == (65, True), wrong


def test_a_stream_is_refused_in_words(cluster: RunningCluster) -> None:
    assert (
        ask(cluster, SERVING, "PUT", "queues/%2F/a-stream", {"durable": True, "arguments": {"x-queue-type": "stream"}})[
            0
        ]
        == 201
    )
    for body in ({}, {"dry_run": True}):
        status, found, _ = ask(cluster, SERVING, "POST", "leveret/queues/%2F/a-stream/redrive", body)
        assert status == 400 and "is a stream: nothing can be taken out of it" in found["reason"]


def test_another_node_shows_a_redrive_and_what_it_does_not_know_is_404(cluster: RunningCluster) -> None:
    seen = {one["id"] for one in get(cluster, 3, "leveret/redrives")}
    assert seen == {one["id"] for one in get(cluster, SERVING, "leveret/redrives")}
    assert ask(cluster, 3, "DELETE", "leveret/redrives/unknown")[0] == 404
