"""How late delayed messages come, and what those weigh that wait.

    python -m tests.bench.delayed [--nodes 1|3] [--pending 1000000] [--rate 10000] [--seconds 10]

An exchange has so many messages pending whose time is an hour away, each with a delay of its own. Then messages are published
that are due at a steady rate, in an order of chance, and go to one classic queue with a consumer on the node that leads. Prints
one JSON object: memory of the heaviest node for each pending message, and how long after its time a message is with the
consumer. Its time is when it was sent, and its delay later: so what the client takes to make a message is not in it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pamqp import body, commands, frame, header

from native.frame_split import FRAME
from tests.bench.client import Client
from tests.bench.quorum_scale import process_cluster
from tests.bench.weighing import settled_resident_bytes
from tests.running_node import RunningNode, start_node

EXCHANGE, QUEUE, KEY = "later", "due", "key"
HOUR_MS = 3_600_000
WINDOW = 1_000
DUE_WINDOW = 100  # sent at once of those that are measured: the last is received that much later than the first
LEAD_S = 2.0  # beside what publishing takes, until the first one is due
BODY_FRAME = 3


def unit(delay_ms: int, payload: bytes) -> bytes:
    """The frames of one message."""
    properties = commands.Basic.Properties(delivery_mode=2, headers={"x-delay": delay_ms})
    publish = commands.Basic.Publish(exchange=EXCHANGE, routing_key=KEY)
    parts = (publish, header.ContentHeader(0, len(payload), properties), body.ContentBody(payload))
    return b"".join(frame.marshal(part, 1) for part in parts)


def declare(client: Client, of_queue: dict[str, Any] | None = None) -> None:
    """The exchange and a queue with these arguments, bound."""
    arguments = {"x-delayed-type": "direct"}
    declaration = commands.Exchange.Declare(
        exchange=EXCHANGE, exchange_type="x-delayed-message", durable=True, arguments=arguments
    )
    client.call(1, declaration, "Exchange.DeclareOk")
    client.declare_queue(QUEUE, arguments=of_queue)
    client.call(1, commands.Queue.Bind(queue=QUEUE, exchange=EXCHANGE, routing_key=KEY), "Queue.BindOk")


class Lateness(threading.Thread):
    """A consumer that notes how late each message is."""

    def __init__(self, address: tuple[str, int], count: int) -> None:
        super().__init__(daemon=True)
        self.late_ms: list[float] = []
        self.due: list[float] = []  # by number of the message, which is its body
        self._count = count
        self._client = Client(*address)

    def run(self) -> None:
        self._client.send_method(1, commands.Basic.Consume(queue=QUEUE, no_ack=True, nowait=True))
        while len(self.late_ms) < self._count:
            items = self._client.receive_items()
            now = time.monotonic()
            self.late_ms += [
                1000 * (now - self.due[int(item[3])]) for item in items if item[0] == FRAME and item[1] == BODY_FRAME
            ]


def publish_due(client: Client, rate: int, seconds: int, due: list[float]) -> float:
    """Messages that are due at this rate from some time on, each of which is added to `due`; how long publishing took."""
    count, began = rate * seconds, time.monotonic()
    first = began + LEAD_S + count / 5_000  # published at 5,000 a second at least
    times = [first + number / rate for number in range(count)]
    random.shuffle(times)
    for at in range(0, count, DUE_WINDOW):
        now = time.monotonic()
        delays = [max(1, round(1000 * (when - now))) for when in times[at : at + DUE_WINDOW]]
        units = [unit(delay, b"%d" % (at + number)) for number, delay in enumerate(delays)]
        sent = time.monotonic()
        due += [sent + delay / 1000 for delay in delays]
        client.publish(units, len(units), DUE_WINDOW)
    took = time.monotonic() - began
    assert time.monotonic() < first, f"publishing took {took:.1f} s, and the first messages were due before"
    return took


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


@contextlib.contextmanager
def started(nodes: int) -> Iterator[list[RunningNode]]:
    with tempfile.TemporaryDirectory(prefix="leveret-delayed-") as scratch:
        if nodes > 1:
            with process_cluster(Path(scratch)) as cluster:
                yield cluster.nodes
            return
        node = start_node(Path(scratch) / "data")
        try:
            yield [node]
        finally:
            node.stop()


def measure(nodes: list[RunningNode], pending: int, rate: int, seconds: int) -> dict[str, Any]:
    client = Client(*nodes[0].amqp)
    declare(client)
    before = [settled_resident_bytes(node) for node in nodes]
    began = time.monotonic()
    for _ in range(pending // 50_000):
        client.publish([unit(HOUR_MS + random.randrange(HOUR_MS), b"x" * 100) for _ in range(50_000)], 50_000, WINDOW)
    filled_s = time.monotonic() - began
    weight = max(settled_resident_bytes(node) - was for node, was in zip(nodes, before, strict=True))
    consumer = Lateness(nodes[0].amqp, rate * seconds)
    consumer.start()
    busy = [node.cpu_seconds() for node in nodes]
    took = publish_due(client, rate, seconds, consumer.due)
    consumer.join()
    late = consumer.late_ms
    return {
        "nodes": len(nodes),
        "pending": pending,
        "pending published a second": round(pending / filled_s) if pending else None,
        "bytes of memory for each": round(weight / pending, 1) if pending else None,
        "rate": rate,
        "published a second": round(rate * seconds / took),
        "late ms": {
            name: round(percentile(late, share), 1) for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1))
        },
        "earliest ms": round(min(late), 1),
        "cpu s": [round(node.cpu_seconds() - was, 1) for node, was in zip(nodes, busy, strict=True)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, choices=(1, 3), default=1)
    parser.add_argument("--pending", type=int, default=1_000_000)
    parser.add_argument("--rate", type=int, default=10_000)
    parser.add_argument("--seconds", type=int, default=10)
    options = parser.parse_args()
    with started(options.nodes) as nodes:
        print(json.dumps(measure(nodes, options.pending, options.rate, options.seconds)), flush=True)


if __name__ == "__main__":
    main()
