"""How fast a shovel moves a full queue to another one of the same broker.

    python -m tests.bench.shovel [--count 200000] [--bytes 1024] [--rounds 2] [--keys 1] [--b HOST:AMQP:HTTP]

Persistent messages, durable classic queues, on-confirm, prefetch 1000. A is a node that is started for it; B the yardstick, a
genuine RabbitMQ, with its management API on the port HTTP. Three ways, A and B in turn:

    this cluster   URIs without a host
    listener       URIs with the broker's own address: both ends speak AMQP
    local          the protocol `local`, where RabbitMQ reads its queues in the process; here the same as the first

With --keys the messages have so many routing keys in turn, and each of them is a run of its own in its queue. A rate is what
came to the destination, from when the first messages are there.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from pamqp import commands

from tests.bench.client import Client
from tests.running_node import running_node

SOURCE, DESTINATION, NAME = "bench.from", "bench.to", "bench"
EXCHANGE = "amq.fanout"
WINDOW = 2_000
EVERY_S = 0.01
STUCK_S = 120.0
LOGIN = "Basic " + base64.b64encode(b"guest:guest").decode()


@dataclass(frozen=True)
class Side:
    """One broker. `here`: a URI that means itself."""

    name: str
    host: str
    amqp: int
    http: int
    here: str
    cpu_seconds: Callable[[], float] = field(default=lambda: 0.0)

    def ends(self, way: str) -> dict[str, Any]:
        uri = f"amqp://guest:guest@{self.host}:{self.amqp}/%2F" if way == "listener" else self.here
        protocols = {"src-protocol": "local", "dest-protocol": "local"} if way == "local" else {}
        return {"src-uri": uri, "dest-uri": uri, **protocols}

    def ask(self, method: str, body: Any = None) -> None:
        connection = http.client.HTTPConnection(self.host, self.http, timeout=STUCK_S)
        headers = {"Content-Type": "application/json", "Authorization": LOGIN}
        connection.request(
            method, f"/api/parameters/shovel/%2F/{NAME}", None if body is None else json.dumps(body), headers
        )
        response = connection.getresponse()
        said = response.read()
        assert response.status in (201, 204), f"{self.name} answers {response.status}: {said.decode()}"
        connection.close()


def fill(client: Client, messages: int, body_bytes: int, keys: int) -> None:
    for queue in (SOURCE, DESTINATION):
        client.declare_queue(queue)
    client.call(1, commands.Queue.Bind(queue=SOURCE, exchange=EXCHANGE), "Queue.BindOk")
    units = [client.publish_unit(EXCHANGE, f"key.{number}", body_bytes) for number in range(keys)]
    client.publish(units, messages, WINDOW)


def moved(side: Side, way: str, messages: int, body_bytes: int, keys: int) -> tuple[float, float]:
    """Messages a second, and processor time of the broker for each, in microseconds."""
    client = Client(side.host, side.amqp)
    fill(client, messages, body_bytes, keys)
    value = {**side.ends(way), "src-queue": SOURCE, "dest-queue": DESTINATION, "ack-mode": "on-confirm"}
    before_s = side.cpu_seconds()
    side.ask("PUT", {"value": {**value, "src-prefetch-count": 1000}})
    first, began = arrived(client, 1)
    _, ended = arrived(client, messages)
    used_s = side.cpu_seconds() - before_s
    side.ask("DELETE")
    for queue in (SOURCE, DESTINATION):
        client.call(1, commands.Queue.Delete(queue=queue), "Queue.DeleteOk")
    client.close()
    return (messages - first) / (ended - began), used_s / messages * 1e6


def arrived(client: Client, messages: int) -> tuple[int, float]:
    """Waits until so many are there: how many are, and when."""
    deadline = time.monotonic() + STUCK_S
    for _ in count():
        there = client.call(1, commands.Queue.Declare(queue=DESTINATION, passive=True), "Queue.DeclareOk").message_count
        if there >= messages:
            return there, time.monotonic()
        assert time.monotonic() < deadline, f"{there} of {messages} messages came within {STUCK_S} s"
        time.sleep(EVERY_S)
    raise AssertionError("count() ended")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--bytes", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--keys", type=int, default=1)
    parser.add_argument("--ways", nargs="+", default=["this cluster", "listener", "local"])
    parser.add_argument("--b", help="HOST:AMQP:HTTP of a RabbitMQ")
    given = parser.parse_args()
    with running_node() as node:
        sides = [Side("Leveret", node.amqp[0], node.amqp[1], node.http[1], "amqp://guest:guest@/%2F", node.cpu_seconds)]
        if given.b:
            host, amqp, management = given.b.split(":")
            sides.append(Side("RabbitMQ", host, int(amqp), int(management), "amqp:///%2F"))
        for way in given.ways:
            for _ in range(given.rounds):
                rates = [moved(side, way, given.count, given.bytes, given.keys) for side in sides]
                shown = ", ".join(f"{side.name} {rate:,.0f}/s" for side, (rate, _) in zip(sides, rates, strict=True))
                ratio = f", {rates[0][0] / rates[1][0]:.2f} times" if given.b else ""
                print(f"{way}: {shown}{ratio}; {rates[0][1]:.1f} us of processor time each", flush=True)


if __name__ == "__main__":
    main()
