r"""A genuine RabbitMQ is left for a node, step by step as docs/migrating.md says, while publishers and consumers work.

    make migration PEER_URL=amqp://guest:guest@127.0.0.1:5672 PEER_MANAGEMENT=127.0.0.1:15672 \
        PEER_STOP='systemctl stop rabbitmq-server'

The RabbitMQ gets 50 queues and is stopped for good at the end: give one that has nothing else.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pika
import pytest

from tests.e2e.test_http import ask_at
from tests.migration.clients import ConsumerClient, Journal, PublisherClient
from tests.running_node import RunningNode, running_node

NEEDED = ("PEER_URL", "PEER_MANAGEMENT", "PEER_STOP")
WORK = [f"work.{number}" for number in range(40)]
TIMED = [f"timed.{number}" for number in range(8)]  # nobody consumes them: their messages expire
ENDS = ["dead", "expired"]
CLIENTS = 5  # publishers, and as many consumers
AT_WORK_S = 2.0  # between two moves, for clients to do something
WITHIN_S = 60.0
STATISTICS_S = 6.0  # RabbitMQ's figures of queues are up to 5 s old
TTL_MS = 300

pytestmark = pytest.mark.skipif(
    not all(os.environ.get(name) for name in NEEDED),
    reason=f"needs a genuine RabbitMQ to leave: set {', '.join(NEEDED)} (make migration)",
)


class Side:
    """One broker."""

    def __init__(self, url: str, management: tuple[str, int]) -> None:
        self.url, self._management = url, management

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        status, raw = ask_at(self._management, method, path, body)
        assert status < 300, f"{method} {path}: {status} {raw.decode()}"
        return json.loads(raw) if raw else None

    def wait_until_empty(self, *queues: str) -> None:
        """Of messages that are ready and of those that are out, by figures that are newer than this call."""
        time.sleep(STATISTICS_S)
        until(f"{queues} are empty", lambda: self._left(*queues) == 0)

    def _left(self, *queues: str) -> int:
        found = self.ask("GET", "/api/queues/%2F")
        return sum(one.get("messages", 0) for one in found if one["name"] in queues)


def until(what: str, is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not is_so():
        assert time.monotonic() < deadline, f"not so within {WITHIN_S} s: {what}"
        time.sleep(0.1)  # between two questions: what is waited for happens in another process


def declare_all(old: Side) -> None:
    """What an application has had for years."""
    connection = pika.BlockingConnection(pika.URLParameters(old.url))
    channel = connection.channel()
    channel.exchange_declare("work", "direct", durable=True)
    for exchange, queue in (("rejected", "dead"), ("late", "expired")):
        channel.exchange_declare(exchange, "fanout", durable=True)
        channel.queue_declare(queue, durable=True)
        channel.queue_bind(queue, exchange)
    for queue in (*WORK, *TIMED):
        late = {"x-message-ttl": TTL_MS, "x-dead-letter-exchange": "late"}
        channel.queue_declare(queue, durable=True, arguments=late if queue in TIMED else {})
        channel.queue_bind(queue, "work", queue)
    connection.close()
    put_policy(old, "work", "^work\\.", {"dead-letter-exchange": "rejected"})


def put_policy(side: Side, name: str, pattern: str, definition: dict[str, Any]) -> None:
    body = {"pattern": pattern, "apply-to": "queues", "definition": definition}
    side.ask("PUT", f"/api/policies/%2F/{quote(name)}", body)


def carry_definitions(old: Side, new: Side) -> None:
    """RabbitMQ has refused ha-mode since 4.0; the definitions of an older one have it."""
    definitions = old.ask("GET", "/api/definitions")
    for policy in definitions["policies"]:
        policy["definition"]["ha-mode"] = "all"
    new.ask("POST", "/api/definitions", definitions)


def federate(old: Side, new: Side) -> None:
    """A queue has one policy: what federates is added to what it says already."""
    new.ask("PUT", "/api/parameters/federation-upstream/%2F/old", {"value": {"uri": old.url, "reconnect-delay": 1}})
    federated = {"federation-upstream": "old"}
    put_policy(new, "work", "^work\\.", {"dead-letter-exchange": "rejected", "ha-mode": "all", **federated})
    put_policy(new, "ends", "^(dead|expired)$", federated)


class Rehearsal:
    """All clients, each at the old broker or at the new one."""

    def __init__(self, old: Side, new: Side) -> None:
        self.old, self.new, self.journal = old, new, Journal()
        self.shares = [([*WORK[at::CLIENTS]], [*TIMED[at::CLIENTS]]) for at in range(CLIENTS)]
        self.consumers = [self.consumer(at, old) for at in range(CLIENTS)]
        self.ends = self.ends_consumer(old)
        self.publishers = [self.publisher(at, old) for at in range(CLIENTS)]

    def consumer(self, at: int, side: Side) -> ConsumerClient:
        return started(ConsumerClient(side.url, self.shares[at][0], self.journal, rejects=True))

    def ends_consumer(self, side: Side) -> ConsumerClient:
        return started(ConsumerClient(side.url, ENDS, self.journal, rejects=False))

    def publisher(self, at: int, side: Side) -> PublisherClient:
        work, timed = self.shares[at]
        return started(PublisherClient(side.url, f"p{at}", [*work, *timed], self.journal))

    def move_ends(self) -> None:
        self.ends.stop()
        self.ends = self.ends_consumer(self.new)

    def move_consumer(self, at: int) -> None:
        """What it has rejected has to be where dead letters are read before it rejects more there."""
        self.consumers[at].stop()
        self.old.wait_until_empty("dead")
        self.consumers[at] = self.consumer(at, self.new)

    def move_publisher(self, at: int) -> None:
        """What it has published has left the old broker before it publishes more at the new one."""
        self.publishers[at].stop()
        queues = [*self.shares[at][0], *self.shares[at][1]]
        self.old.wait_until_empty(*queues)
        self.old.wait_until_empty(*ENDS)
        self.publishers[at] = self.publisher(at, self.new)

    def stop(self) -> None:
        for publisher in self.publishers:
            publisher.stop()
        until("all that was confirmed has come", lambda: not self.journal.missing())
        for consumer in (*self.consumers, self.ends):
            consumer.stop()


def started(client: Any) -> Any:
    client.start()
    return client


@pytest.fixture
def node() -> Iterator[RunningNode]:
    with running_node("--name", "new") as running:
        yield running


def test_everything_moves_while_clients_work_and_nothing_is_lost_or_out_of_order(node: RunningNode) -> None:
    host, _, port = os.environ["PEER_MANAGEMENT"].rpartition(":")
    old, new = Side(os.environ["PEER_URL"], (host, int(port))), Side(node.amqp_url, node.http)
    old.ask("PUT", "/api/cluster-name", {"name": "old"})
    declare_all(old)
    rehearsal = Rehearsal(old, new)
    time.sleep(AT_WORK_S)  # clients work at the old broker: there is no state to wait for
    carry_definitions(old, new)
    assert len(new.ask("GET", "/api/queues/%2F")) == len(WORK) + len(TIMED) + len(ENDS) == 50
    federate(old, new)
    until("all links run", lambda: len(links(new)) == 42 and all(one["status"] == "running" for one in links(new)))
    rehearsal.move_ends()
    for at in range(CLIENTS):
        rehearsal.move_consumer(at)
    time.sleep(AT_WORK_S)  # publishers there, consumers here
    for at in range(CLIENTS):
        rehearsal.move_publisher(at)
    old.wait_until_empty(*WORK, *TIMED, *ENDS)
    new.ask("DELETE", "/api/policies/%2F/ends")
    # In the place of the one before: without any, dead letters would be dropped meanwhile.
    put_policy(new, "work", "^work\\.", {"dead-letter-exchange": "rejected", "ha-mode": "all"})
    new.ask("DELETE", "/api/parameters/federation-upstream/%2F/old")
    subprocess.run(os.environ["PEER_STOP"], shell=True, check=True)
    time.sleep(AT_WORK_S)  # all are here, and the old broker is gone
    rehearsal.stop()
    journal = rehearsal.journal
    assert (journal.missing(), journal.out_of_order()) == ({}, {})
    assert {where for where, _ in journal.came} == {*WORK, *ENDS}
    assert min(journal.confirmed.values()) > 100
    assert links(new) == []


def links(side: Side) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = side.ask("GET", "/api/federation-links")
    return found
