"""Three nodes are restarted one after the other, while somebody publishes to one of the others with confirms."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pika
import pytest

from tests.e2e.test_cluster import on, status_when, up
from tests.ports import free_ports
from tests.running_node import RunningNode, start_node

QUEUE = "rolled"
PUBLISHED_WITHIN_S = 60.0
AT_LEAST = 100  # publishes before a node is stopped, while it is away, and after


class Publisher:
    """Publishes numbers, each when the one before is confirmed. `reached` waits for that many more."""

    def __init__(self, node: RunningNode, first: int) -> None:
        self.next = first
        self._stopping = False
        self._more = threading.Condition()
        self._error: Exception | None = None
        self._node = node
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def reached(self, count: int) -> None:
        with self._more:
            wanted = self.next + count
            done = self._more.wait_for(lambda: self.next >= wanted or self._error is not None, PUBLISHED_WITHIN_S)
        assert self._error is None, f"publish {self.next} failed: {self._error!r}"
        assert done, f"only {self.next} of {wanted} publishes were confirmed"

    def stop(self) -> None:
        self._stopping = True
        self._thread.join(PUBLISHED_WITHIN_S)
        assert self._error is None, f"publish {self.next} failed: {self._error!r}"

    def _run(self) -> None:
        try:
            connection = connect(self._node)
            channel = connection.channel()
            channel.confirm_delivery()
            while not self._stopping:
                body = str(self.next).encode()
                channel.basic_publish("", QUEUE, body, pika.BasicProperties(delivery_mode=2), mandatory=True)
                with self._more:
                    self.next += 1
                    self._more.notify_all()
            connection.close()
        except Exception as error:
            with self._more:
                self._error = error
                self._more.notify_all()


def connect(node: RunningNode) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.ConnectionParameters(*node.amqp))


def address_of(node: RunningNode) -> str:
    return f"{node.grpc[0]}:{node.grpc[1]}"


class ThreeNodes:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._peers = [f"127.0.0.1:{port}" for port in free_ports(3)]
        (directory / "secret").write_text("a secret that all three know")
        with ThreadPoolExecutor(3) as pool:  # none is ready before all are there
            self.nodes = list(pool.map(self._start, range(3)))

    def _start(self, number: int) -> RunningNode:
        options = ["--name", f"n{number + 1}", "--peer", self._peers[number]]
        options += ["--secret-file", str(self._directory / "secret")]
        return start_node(
            self._directory / f"n{number + 1}", *options, *(part for one in self._peers for part in ("--peers", one))
        )

    def restart(self, number: int) -> None:
        assert self.nodes[number].stop() == 0
        self.nodes[number] = self._start(number)

    def until_well(self, asked: int) -> None:
        status_when(
            address_of(self.nodes[asked]),
            lambda found: sorted(up(found).values()) == [True] * 3 and len(found.metadata_voters) == 3,
        )


@contextmanager
def three_nodes(directory: Path) -> Iterator[ThreeNodes]:
    cluster = ThreeNodes(directory)
    try:
        yield cluster
    finally:
        for node in cluster.nodes:
            node.stop()


@pytest.mark.parametrize("drained", [False, True])
def test_no_publish_fails_while_all_nodes_are_restarted_and_nothing_is_lost(tmp_path: Path, drained: bool) -> None:
    with three_nodes(tmp_path) as cluster:
        cluster.until_well(0)
        connection = connect(cluster.nodes[0])
        connection.channel().queue_declare(QUEUE, durable=True, arguments={"x-queue-type": "quorum"})
        connection.close()
        published = 0
        for number in range(3):
            publisher = Publisher(cluster.nodes[(number + 1) % 3], published)
            publisher.reached(AT_LEAST)
            if drained:
                on(address_of(cluster.nodes[number]), lambda node: node.admin.drain_node())
                publisher.reached(AT_LEAST)
            cluster.restart(number)
            publisher.reached(AT_LEAST)
            cluster.until_well(number)
            publisher.stop()
            published = publisher.next
        assert consumed(cluster.nodes[0]) == [str(one).encode() for one in range(published)]


def consumed(node: RunningNode) -> list[bytes]:
    connection = connect(node)
    channel = connection.channel()
    bodies = []
    while (body := channel.basic_get(QUEUE, auto_ack=True)[2]) is not None:
        bodies.append(body)
    connection.close()
    return bodies
