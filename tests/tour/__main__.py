"""`make analytics`: what the logs of a small cluster tell, after a night in which one of its nodes was killed.

Three nodes, a quorum queue `orders` and one for what is rejected. 2,000 orders are published, and the node where they come in
is killed in the middle; then they are taken, and one is rejected. All nodes are stopped, and `leveret-analytics` is asked for
the life of that one, for the queue at a second before anybody took from it, and for a proof that none is missing.

    python -m tests.tour [DIRECTORY]

The logs stay in the directory, for more questions.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pika
from pika.exceptions import AMQPError

from tests.chaos.backend import Shape
from tests.ledger.three_nodes import LedgerNodes

ORDERS, REJECTED = "orders", "orders.rejected"
COUNT = 2_000
UNLUCKY = 1_017
AGAIN_WITHIN_S = 60.0
LOOK_S = 0.05
QUORUM = {"x-queue-type": "quorum"}


def say(text: str) -> None:
    print(f"-- {text}", flush=True)


@contextmanager
def channel_of(nodes: LedgerNodes, node: str) -> Iterator[pika.adapters.blocking_connection.BlockingChannel]:
    host, port = nodes.amqp(node)
    user, password = nodes.credentials
    parameters = pika.ConnectionParameters(host, port, credentials=pika.PlainCredentials(user, password))
    connection = pika.BlockingConnection(parameters)
    try:
        yield connection.channel()
    finally:
        if connection.is_open:
            connection.close()


def declare(nodes: LedgerNodes) -> None:
    with channel_of(nodes, "n1") as channel:
        channel.queue_declare(REJECTED, durable=True, arguments=QUORUM)
        dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": REJECTED}
        channel.queue_declare(ORDERS, durable=True, arguments=QUORUM | dead)


def publish(nodes: LedgerNodes, node: str, numbers: range) -> None:
    """With a confirm for each. Tried anew where the cluster is busy electing; an order may then be there twice, and the
    numbers say so."""
    until = time.monotonic() + AGAIN_WITHIN_S
    todo = iter(numbers)
    number = next(todo, None)
    while number is not None:
        try:
            with channel_of(nodes, node) as channel:
                channel.confirm_delivery()
                while number is not None:
                    properties = pika.BasicProperties(delivery_mode=2, message_id=f"order-{number}")
                    channel.basic_publish("", ORDERS, f"books: {number}".encode(), properties)
                    number = next(todo, None)
        except (AMQPError, OSError):
            if time.monotonic() > until:
                raise
            time.sleep(LOOK_S)


def take_all(nodes: LedgerNodes, node: str) -> None:
    """Acknowledge each but the unlucky one."""
    with channel_of(nodes, node) as channel:
        taken: set[str] = set()
        for method, properties, _ in channel.consume(ORDERS, inactivity_timeout=AGAIN_WITHIN_S):
            assert method is not None, f"{COUNT - len(taken)} orders did not come"
            if properties.message_id == f"order-{UNLUCKY}":
                channel.basic_reject(method.delivery_tag, requeue=False)
            else:
                channel.basic_ack(method.delivery_tag)
            taken.add(properties.message_id)
            if len(taken) == COUNT:
                break
        channel.cancel()
        # A get is answered behind all acknowledgements before it, which nobody answers. An order that was tried anew is taken.
        while (again := channel.basic_get(ORDERS, auto_ack=True)[0]) is not None:
            say(f"one more of {again.message_count + 1} that were tried anew")


def until_rejected(nodes: LedgerNodes, node: str) -> None:
    """The dead letter has come to its queue."""
    until = time.monotonic() + AGAIN_WITHIN_S
    with channel_of(nodes, node) as channel:
        while channel.queue_declare(REJECTED, passive=True).method.message_count == 0:
            assert time.monotonic() < until, f"order-{UNLUCKY} did not come to {REJECTED}"
            time.sleep(LOOK_S)


def night(nodes: LedgerNodes) -> datetime:
    """What happens. A second at which all orders were there."""
    declare(nodes)
    say(f"{COUNT // 2} orders are published, each with a confirm")
    publish(nodes, "n1", range(COUNT // 2))
    say("kill -9 of n1, where the publisher was; it goes on at n2")
    nodes.kill("n1")
    publish(nodes, "n2", range(COUNT // 2, COUNT))
    nodes.start("n1")
    full = datetime.now(UTC) + timedelta(seconds=1)
    time.sleep(2)  # so that they are there for a whole second, which is what can be asked for
    say(f"n1 is back; all are taken there, and order-{UNLUCKY} is rejected")
    take_all(nodes, "n1")
    until_rejected(nodes, "n1")
    return full


def ask(data: Path, *question: str) -> int:
    command = ["leveret-analytics", "--data", str(data), *question]
    print(f"\n$ {' '.join(command)}", flush=True)
    return subprocess.run([sys.executable, "-m", "analytics", "--data", str(data), *question], check=False).returncode


def main() -> int:
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else "var/analytics")
    if directory.exists():
        sys.exit(f"{directory} is there already: take it away, or name another directory")
    data = directory / "data"
    data.mkdir(parents=True)
    nodes = LedgerNodes(Shape(disk_nodes=3), directory)
    try:
        say(f"three nodes start; their logs are in {data}")
        nodes.begin()
        full = night(nodes)
        for name in nodes.shape.names:
            nodes.stop(name)
        say("all nodes are stopped; the logs are asked")
        questions = (
            ("life", "--message-id", f"order-{UNLUCKY}"), ("queue", "--at", full.strftime("%Y-%m-%dT%H:%M:%SZ"), ORDERS),
            ("proof",),
        )  # fmt: skip
        return max(ask(data, *question) for question in questions)
    finally:
        nodes.end()


if __name__ == "__main__":
    sys.exit(main())
