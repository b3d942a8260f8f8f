"""Whether every panel of RabbitMQ's dashboards shows something of a node, and of a cluster of three.

    python -m tests.compat.dashboards

Clients publish, consume and get meanwhile. A panel shows something when one of its queries finds each of its metrics, of each
node, joined with the node's identity as the dashboards do it. Ends with 1, and the panels that show nothing.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pika

from tests.compat.dashboards.panels import IDENTITY, Need, needs
from tests.compat.dashboards.prometheus import AGAIN_S, Prometheus, running_prometheus
from tests.running_cluster import running_cluster
from tests.running_node import running_node

JOBS = {"aggregated": "/metrics", "per-object": "/metrics/per-object"}
SHOWN_WITHIN_S = 30.0
COUNTERS = ("_total", "_bucket", "_sum", "_count")


@dataclass(frozen=True, slots=True)
class Place:
    """What is scraped."""

    what: str
    amqp: Sequence[tuple[str, int]]
    http: Sequence[tuple[str, int]]


@contextlib.contextmanager
def one_node() -> Iterator[Place]:
    with running_node() as node:
        yield Place("a node", [node.amqp], [node.http])


@contextlib.contextmanager
def three_nodes() -> Iterator[Place]:
    with tempfile.TemporaryDirectory(prefix="leveret-") as scratch, running_cluster(Path(scratch)) as cluster:
        numbers = (1, 2, 3)
        yield Place("three nodes", [cluster.amqp(one) for one in numbers], [cluster.http(one) for one in numbers])


@contextlib.contextmanager
def busy_clients(addresses: Sequence[tuple[str, int]]) -> Iterator[None]:
    """On each node: what the panels are about happens all the time."""
    ended = threading.Event()
    clients = [threading.Thread(target=_work, args=(address, ended)) for address in addresses]
    for client in clients:
        client.start()
    try:
        yield
    finally:
        ended.set()
        for client in clients:
            client.join()


def _work(address: tuple[str, int], ended: threading.Event) -> None:
    connection = pika.BlockingConnection(pika.ConnectionParameters(*address, heartbeat=0))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("dashboards", durable=True, arguments={"x-queue-type": "quorum"})
    channel.basic_consume("dashboards", lambda *_: None, auto_ack=True)
    while not ended.is_set():
        for size in (10, 5_000, 50_000):
            channel.basic_publish("", "dashboards", b"x" * size, pika.BasicProperties(delivery_mode=2))
        other = connection.channel()
        other.queue_declare("", exclusive=True)
        other.basic_publish("", "nowhere", b"dropped")
        other.close()
        connection.process_data_events(0.05)
    connection.close()


def query_of(need: Need, job: str) -> str:
    identity = f'{IDENTITY}{{rabbitmq_endpoint="{job}"}}'
    if need.metric == IDENTITY:
        return identity
    series = f"{need.metric}{{{need.labels}}}"
    series = f"rate({series}[10s])" if need.metric.endswith(COUNTERS) else series
    return f"{series} * on(instance, job) group_left(rabbitmq_cluster, rabbitmq_node) {identity}"


def empty_panels(prometheus: Prometheus, job: str, nodes: int) -> list[str]:
    """Those of which no query finds all that it needs."""
    queries: dict[tuple[str, str], dict[int, list[Need]]] = {}
    for need in needs():
        queries.setdefault((need.dashboard, need.panel), {}).setdefault(need.query, []).append(need)
    return [
        f"{dashboard}: {panel}"
        for (dashboard, panel), of_panel in queries.items()
        if not any(all(_is_shown(prometheus, need, job, nodes) for need in some) for some in of_panel.values())
    ]


def _is_shown(prometheus: Prometheus, need: Need, job: str, nodes: int) -> bool:
    found = prometheus.ask(query_of(need, job))
    return len({one["metric"]["instance"] for one in found}) == nodes


def judge(place: Place) -> list[str]:
    targets = [f"{host}:{port}" for host, port in place.http]
    with (
        tempfile.TemporaryDirectory(prefix="prometheus-") as scratch,
        busy_clients(place.amqp),
        running_prometheus(Path(scratch), JOBS, targets) as prometheus,
    ):
        deadline = time.monotonic() + SHOWN_WITHIN_S
        while True:
            empty = [
                f"{place.what}, {job}: {panel}" for job in JOBS for panel in empty_panels(prometheus, job, len(targets))
            ]
            if not empty or time.monotonic() > deadline:
                return empty
            time.sleep(AGAIN_S)


def main() -> int:
    panels = {(need.dashboard, need.panel) for need in needs()}
    empty: list[str] = []
    for begun in (one_node, three_nodes):
        with begun() as place:
            found = judge(place)
        print(f"{place.what}: {len(panels)} panels over {' and '.join(JOBS)}, {len(found)} show nothing", flush=True)
        empty += found
    print(*empty, sep="\n")
    return int(bool(empty))


if __name__ == "__main__":
    sys.exit(main())
