"""The life of a message over HTTP: asked of any node of a cluster, told from the logs of all that can be read."""

from __future__ import annotations

import base64
import http.client
import json
import os
import signal
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pika
import pytest

from tests.e2e.test_cli import run
from tests.e2e.test_cluster import process_of
from tests.e2e.test_management_cluster import ask, until
from tests.running_cluster import RunningCluster, running_cluster

SERVING = 1  # the node that is asked
DEAD, WORK = "dead", "work"
KINDS = ("classic", "quorum")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """A message of each kind of queue was published through node 3 and rejected on node 2, into a queue at home on node 3."""
    with running_cluster(Path(tmp_path_factory.mktemp("lives"))) as running:
        running.ready(3)
        publisher, consumer = (pika.BlockingConnection(pika.ConnectionParameters(*running.amqp(at))) for at in (3, 2))
        sending, taking = publisher.channel(), consumer.channel()
        sending.confirm_delivery()
        sending.queue_declare(DEAD, durable=True)
        for kind in KINDS:
            to_dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": DEAD}
            taking.queue_declare(name_of(kind), durable=True, arguments={"x-queue-type": kind, **to_dead})
            properties = pika.BasicProperties(delivery_mode=2, message_id=f"of {kind}", correlation_id="request 7")
            sending.basic_publish("", name_of(kind), f"body of {kind}".encode(), properties)
            method = next(taking.consume(name_of(kind)))[0]
            taking.basic_reject(method.delivery_tag, requeue=False)
            taking.cancel()
        until(lambda: sending.queue_declare(DEAD, passive=True).method.message_count == len(KINDS))
        publisher.close()
        consumer.close()
        yield running


def name_of(kind: str) -> str:
    return f"{WORK}/{kind}"


def told(cluster: RunningCluster, queue: str, **sought: str) -> Any:
    status, found, _ = ask(cluster, SERVING, "POST", path_of(queue), sought)
    assert status == 200, found
    return found


def path_of(queue: str) -> str:
    return f"leveret/queues/%2F/{queue.replace('/', '%2F')}/life"


@pytest.mark.parametrize("kind", KINDS)
def test_who_published_it_where_who_rejected_it_and_what_it_became(cluster: RunningCluster, kind: str) -> None:
    found = told(cluster, name_of(kind), message_id=f"of {kind}")
    assert [(one["node"], one["error"]) for one in found["nodes"]] == [("n1", ""), ("n2", ""), ("n3", "")]
    life, letter = found["lives"]
    assert (life["queue"], life["routing_key"], life["exchange"]) == (name_of(kind), name_of(kind), "")
    assert life["steps"][-1]["event"] == "rejected" and life["steps"][-1]["who"]["user"] == "guest"
    assert (letter["queue"], letter["death_reason"], letter["steps"]) == (DEAD, "rejected", [])
    assert letter["was"] == {"queue": name_of(kind), "place": life["place"]}
    assert life["became"] == [{"queue": DEAD, "place": letter["place"]}]
    assert life["published_at"] <= life["steps"][-1]["at"]
    assert "body of" not in json.dumps(found)
    if kind == "quorum":  # its log names the publisher wherever that was connected
        assert life["publisher"]["user"] == "guest"


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_found_by_its_request_its_body_and_its_place(cluster: RunningCluster, kind: str) -> None:
    by_request = told(cluster, name_of(kind), correlation_id="request 7")
    digest = sha256(f"body of {kind}".encode()).hexdigest()
    by_body = told(cluster, name_of(kind), body_sha256=digest)
    by_place = told(cluster, name_of(kind), place=by_body["lives"][0]["place"])
    assert by_request["lives"] == by_body["lives"] == by_place["lives"] != []
    assert told(cluster, name_of(kind), message_id="none")["lives"] == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_dead_letter_leads_back_to_what_it_was(cluster: RunningCluster, kind: str) -> None:
    found = told(cluster, DEAD, message_id=f"of {kind}")
    assert [one["queue"] for one in found["lives"]] == [name_of(kind), DEAD]


def test_a_browsed_message_without_an_id_has_the_digest_that_it_is_found_by(cluster: RunningCluster) -> None:
    path = f"leveret/queues/%2F/{DEAD}/browse?digest=true"
    _, browsed, _ = ask(cluster, SERVING, "GET", path)
    for one in browsed:
        assert one["payload_sha256"] == sha256(one["payload"].encode()).hexdigest()


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({}, "give one of"),
        ({"message_id": "m", "place": "1"}, "give one of"),
        ({"message_id": 7}, "a text is needed"),
        ({"message_id": "m" * 256}, "1 to 255 bytes"),
        ({"place": "-1"}, "write 17"),
        ({"place": "1/2"}, "write 17"),
        ({"place": "9" * 40}, "write 17"),
        ({"body_sha256": "abc"}, "64 hexadecimal digits"),
    ],
)
def test_what_is_no_question_is_refused_with_what_was_wrong(cluster: RunningCluster, body: Any, why: str) -> None:
    status, refusal, _ = ask(cluster, SERVING, "POST", path_of(DEAD), body)
    assert status == 400 and why in refusal["reason"]


def test_a_stream_is_refused_and_a_queue_that_is_not_there_is_not_found(cluster: RunningCluster) -> None:
    arguments = {"durable": True, "arguments": {"x-queue-type": "stream"}}
    assert ask(cluster, SERVING, "PUT", "queues/%2F/kept", arguments)[0] == 201
    status, refusal, _ = ask(cluster, SERVING, "POST", path_of("kept"), {"message_id": "m"})
    assert status == 400 and "Browse it" in refusal["reason"]
    assert ask(cluster, SERVING, "POST", path_of("none"), {"message_id": "m"})[0] == 404


@pytest.mark.parametrize(
    ("tags", "read", "status"),
    [("monitoring", "^dead$", 200), ("monitoring", "^other$", 401), ("policymaker", ".*", 401)],
)
def test_only_who_sees_clients_of_others_and_may_read_the_queue_is_told(
    cluster: RunningCluster, tags: str, read: str, status: int
) -> None:
    assert ask(cluster, SERVING, "PUT", "users/asker", {"password": "p", "tags": tags})[0] in (201, 204)
    rights = {"configure": "", "write": "", "read": read}
    assert ask(cluster, SERVING, "PUT", "permissions/%2F/asker", rights)[0] in (201, 204)
    connection = http.client.HTTPConnection(*cluster.http(SERVING), timeout=60)
    login = {"Authorization": "Basic " + base64.b64encode(b"asker:p").decode()}
    connection.request("POST", f"/api/{path_of(DEAD)}", json.dumps({"message_id": "of quorum"}), login)
    assert connection.getresponse().status == status
    connection.close()


def test_the_command_line_tells_it_too(cluster: RunningCluster) -> None:
    done = run("leveret.ctl", "--node", cluster.grpc(SERVING), "life", name_of("quorum"), "--message-id", "of quorum")
    assert done.returncode == 0, done.stderr
    assert "rejected" in done.stdout and f"became {DEAD}, " in done.stdout


def test_a_node_that_hangs_is_named_and_the_others_tell(cluster: RunningCluster) -> None:
    hanging = process_of(cluster, 3)
    os.kill(hanging, signal.SIGSTOP)
    try:
        status, found, headers = ask(cluster, SERVING, "POST", path_of(name_of("quorum")), {"message_id": "of quorum"})
    finally:
        os.kill(hanging, signal.SIGCONT)
    assert (status, headers["X-Leveret-Missing-Nodes"]) == (200, "n3")
    assert {one["node"]: bool(one["error"]) for one in found["nodes"]} == {"n1": False, "n2": False, "n3": True}
    assert found["lives"][0]["steps"][-1]["event"] == "rejected"
