"""Messages from another broker to a node and back, by two shovels, while each end is killed again and again.

    python -m tests.crash.shovels_between --url amqp://guest:guest@127.0.0.1:5672 --count 1000000 \
        --pid 'cat /var/lib/rabbitmq/mnesia/rabbit.pid' --start 'systemctl start rabbitmq-server'

`--pid` is a command that prints the process of the other broker, a genuine RabbitMQ, and `--start` one that starts it again
where it was. All messages have to arrive, once or more often; the command fails otherwise, and says how fast they went.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pika
from pika.exceptions import AMQPError

from tests.e2e.test_http import ask
from tests.ports import free_ports
from tests.running_node import RunningNode, start_node

BATCH = 5_000
KILLS = 4  # in each direction, of one end and the other
STEP_S_MAX = 900.0
EVERY_S = 0.5
PERSISTENT = pika.BasicProperties(delivery_mode=2)


@dataclass
class Broker:
    """The other one."""

    url: str
    pid_command: str
    start_command: str

    def connect(self) -> pika.BlockingConnection:
        return connected(lambda: pika.URLParameters(self.url))

    def kill_and_start(self) -> None:
        found = subprocess.run(self.pid_command, shell=True, capture_output=True, text=True, check=True)
        os.kill(int(found.stdout), signal.SIGKILL)
        subprocess.run(self.start_command, shell=True, check=True, stdout=subprocess.DEVNULL)


@dataclass
class OwnNode:
    """A node that is started again where it was; it runs the shovels."""

    data_dir: Path
    ports: list[int] = field(default_factory=lambda: free_ports(3))

    def start(self) -> None:
        where = [part for to, port in zip(("amqp", "grpc", "http"), self.ports, strict=True)
                 for part in (f"--{to}", f"127.0.0.1:{port}")]  # fmt: skip
        self.running: RunningNode = start_node(self.data_dir, *where)

    def kill_and_start(self) -> None:
        self.running.kill()
        self.start()

    def connect(self) -> pika.BlockingConnection:
        return connected(lambda: pika.URLParameters(self.running.amqp_url))

    def declare(self, name: str, **definition: Any) -> None:
        value = {key.replace("_", "-"): one for key, one in definition.items()}
        status, raw = ask(self.running, "PUT", f"/api/parameters/shovel/%2F/{name}", {"value": value})
        assert status in (201, 204), raw

    def delete(self, name: str) -> None:
        assert ask(self.running, "DELETE", f"/api/shovels/vhost/%2F/{name}")[0] == 204

    def unconfirmed(self, name: str) -> int | None:
        """None: the shovel does not run now."""
        status, raw = ask(self.running, "GET", f"/api/shovels/vhost/%2F/{quote(name)}")
        found = json.loads(raw) if status == 200 else {}
        return found["unconfirmed"] if found.get("state") == "running" else None


def connected(parameters: Callable[[], pika.URLParameters]) -> pika.BlockingConnection:
    """As soon as the broker is there again."""
    deadline = time.monotonic() + STEP_S_MAX
    while True:
        try:
            return pika.BlockingConnection(parameters())
        except (AMQPError, OSError):
            if time.monotonic() > deadline:
                raise
            time.sleep(EVERY_S)


def fill(broker: Broker, queue: str, count: int) -> None:
    """In transactions: what a commit has answered for is durable."""
    connection = broker.connect()
    channel = connection.channel()
    channel.queue_declare(queue, durable=True)
    channel.tx_select()
    for first in range(0, count, BATCH):
        for number in range(first, min(count, first + BATCH)):
            channel.basic_publish("", queue, b"%d" % number, PERSISTENT)
        channel.tx_commit()
    connection.close()


def waiting(end: Broker | OwnNode, queue: str) -> int:
    connection = end.connect()
    try:
        return int(connection.channel().queue_declare(queue, durable=True).method.message_count)
    finally:
        connection.close()


def bodies(end: Broker | OwnNode, queue: str) -> Iterator[int]:
    """All that are there."""
    count = waiting(end, queue)
    connection = end.connect()
    for _, _, body in connection.channel().consume(queue, auto_ack=True):
        yield int(body)
        count -= 1
        if not count:
            break
    connection.close()


def moved(node: OwnNode, ends: tuple[Broker | OwnNode, Broker | OwnNode], shovel: str, queues: tuple[str, str]) -> int:
    """Waits until nothing is left at the source, and kills both ends meanwhile, in turn. Answers how often."""
    source, destination = ends
    total = waiting(source, queues[0])
    victims = [ends[number % 2] for number in range(KILLS)]
    kills, deadline = 0, time.monotonic() + STEP_S_MAX
    while waiting(source, queues[0]) or node.unconfirmed(shovel) != 0:
        assert time.monotonic() < deadline, f"{waiting(source, queues[0])} messages did not move"
        if kills < KILLS and waiting(destination, queues[1]) >= total * (kills + 1) // (KILLS + 1):
            victims[kills].kill_and_start()
            kills += 1
        time.sleep(EVERY_S)
    return kills


def report(what: str, count: int, seconds: float, kills: int) -> None:
    print(f"{what}: {count} messages in {seconds:.0f} s, {count / seconds:.0f}/s, with {kills} kills", flush=True)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True)
    parser.add_argument("--pid", required=True)
    parser.add_argument("--start", required=True)
    parser.add_argument("--count", type=int, default=1_000_000)
    given = parser.parse_args(arguments)
    broker = Broker(given.url, given.pid, given.start)
    with tempfile.TemporaryDirectory(prefix="leveret-shovels-") as folder:
        node = OwnNode(Path(folder) / "node")
        node.start()
        try:
            return there_and_back(broker, node, given.count)
        finally:
            node.running.kill()


def there_and_back(broker: Broker, node: OwnNode, count: int) -> int:
    began = time.monotonic()
    fill(broker, "shovels.from", count)
    report("published", count, time.monotonic() - began, 0)
    own = "amqp://guest:guest@/%2F"
    terms = {"reconnect_delay": 1, "dest_predeclared": True}
    ways: list[tuple[str, tuple[Broker | OwnNode, Broker | OwnNode], tuple[str, str], tuple[str, str]]] = [
        ("there", (broker, node), (broker.url, own), ("shovels.from", "shovels.here")),
        ("back", (node, broker), (own, broker.url), ("shovels.here", "shovels.back")),
    ]
    for name, ends, uris, queues in ways:
        waiting(ends[1], queues[1])
        began = time.monotonic()
        node.declare(name, src_uri=uris[0], src_queue=queues[0], dest_uri=uris[1], dest_queue=queues[1], **terms)
        kills = moved(node, ends, name, queues)
        report(f"moved {name}", count, time.monotonic() - began, kills)
        node.delete(name)
    seen = Counter(bodies(broker, "shovels.back"))
    lost = count - len(seen)
    print(
        f"{len(seen)} of {count} arrived, {lost} are lost, {sum(seen.values()) - len(seen)} came more often than once"
    )
    return 0 if lost == 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
