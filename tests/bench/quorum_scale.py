"""How a cluster of three nodes carries much: a long backlog in one quorum queue, and many quorum queues or streams with many
bindings.

Measurements of `python -m tests.bench.scale`; see there. Nodes are processes on this machine, killed with SIGKILL.
"""

from __future__ import annotations

import base64
import contextlib
import json
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pamqp import commands

from node.commands.planned_nodes import address
from tests.bench.client import Client
from tests.bench.weighing import idle_cpu_share, settled_resident_bytes
from tests.bench.workloads import Address
from tests.ports import free_base_port
from tests.running_node import RunningNode, start_node

NODES = 3
WARM_MESSAGES = 20_000
WINDOW = 1_000
CONSUMED_MAX = 200_000  # of the backlog
BACKLOG_BYTES_MAX = 64.0  # of memory, for a message on a node
RETURN_SECONDS_MAX = 10.0
STALL_SECONDS_MAX = 1.0
DECLARES_PER_SECOND_MIN = 100
IDLE_CPU_SHARE_MAX = 0.05
BINDINGS = 10_000
QUORUM = {"x-queue-type": "quorum"}

Figures = dict[str, Any]
Environment = dict[str, str]


class ProcessCluster:
    """Nodes that were started together and may be killed and started again one by one."""

    def __init__(self, scratch: Path, module: str = "node.main", environments: Sequence[Environment] = ({},)) -> None:
        self._module = module
        self._environments = environments
        secret = scratch / "secret"
        secret.write_text("0123456789abcdef" * 4 + "\n")
        secret.chmod(0o600)
        base = free_base_port(NODES)
        self._peers = [address(base, number, 3) for number in range(NODES)]
        self._common = ["--secret-file", str(secret)]
        self._common += [part for peer in self._peers for part in ("--peers", peer)]
        self._scratch = scratch
        with ThreadPoolExecutor(NODES) as pool:  # none of them is ready before most are there
            self.nodes = list(pool.map(self._start, range(NODES)))

    def __getitem__(self, number: int) -> RunningNode:
        return self.nodes[number]

    def restart(self, number: int) -> None:
        """After it was killed. Returns when it says that it is ready."""
        self.nodes[number] = self._start(number)

    def restart_all(self) -> None:
        with ThreadPoolExecutor(NODES) as pool:
            self.nodes = list(pool.map(self._start, range(NODES)))

    def kill_all(self) -> None:
        for node in self.nodes:
            node.process.kill()
        for node in self.nodes:
            node.kill()

    def _start(self, number: int) -> RunningNode:
        name = f"n{number + 1}"
        options = ["--name", name, "--zone", name, "--peer", self._peers[number], *self._common]
        environment = self._environments[number % len(self._environments)]
        return start_node(self._scratch / name, *options, environment=environment, module=self._module)


@contextlib.contextmanager
def process_cluster(
    scratch: Path, module: str = "node.main", environments: Sequence[Environment] = ({},)
) -> Iterator[ProcessCluster]:
    """`environments`: of each node, or one for all."""
    cluster = ProcessCluster(scratch, module, environments)
    try:
        yield cluster
    finally:
        cluster.kill_all()


class WatchingClient(Client):
    """Knows how long it had to wait for confirms."""

    longest_wait = 0.0

    def _receive_confirms(self) -> None:
        begin = time.perf_counter()
        super()._receive_confirms()
        self.longest_wait = max(self.longest_wait, time.perf_counter() - begin)


def quorum_backlog(scratch: Path, count: int) -> Figures:
    """Published with a window of 1000: runs of many messages."""
    return fill_and_kill(scratch, count, ["left"])


def quorum_scattered(scratch: Path, count: int) -> Figures:
    """By two routing keys in turn, so that every run holds one message: the worst case for what a queue knows of each."""
    return fill_and_kill(scratch, count, ["left", "right"])


def fill_and_kill(scratch: Path, count: int, keys: list[str]) -> Figures:
    """Fill one queue, weigh the nodes, then kill and start each of them, and time its return."""
    with process_cluster(scratch) as cluster:
        client = WatchingClient(*cluster[0].amqp)
        client.call(1, commands.Exchange.Declare(exchange="ways", durable=True), "Exchange.DeclareOk")
        for queue in ("warm", "backlog"):
            client.declare_queue(queue, arguments=QUORUM)
            for key in keys:
                way = commands.Queue.Bind(queue=queue, exchange="ways", routing_key=f"{queue}.{key}")
                client.call(1, way, "Queue.BindOk")
        client.publish(units(client, "warm", keys), WARM_MESSAGES, WINDOW)
        client.call(1, commands.Queue.Purge(queue="warm"), "Queue.PurgeOk")
        empty = [settled_resident_bytes(node) for node in cluster.nodes]
        client.longest_wait = 0.0
        begin = time.perf_counter()
        client.publish(units(client, "backlog", keys), count, WINDOW)
        publish_seconds = time.perf_counter() - begin
        client.close()
        full = [settled_resident_bytes(node) for node in cluster.nodes]
        grown = [(after - before) / count for before, after in zip(empty, full, strict=True)]
        returned = [return_of(cluster, number, count) for number in range(NODES)]
        consumed = min(count // 2, CONSUMED_MAX)
        begin = time.perf_counter()
        Client(*cluster[0].amqp).consume(["backlog"], consumed, WINDOW)
        consume_seconds = time.perf_counter() - begin
    return {
        "published_per_second": round(count / publish_seconds),
        "longest_wait_for_a_confirm": round(client.longest_wait, 3),
        "bytes_per_message": [round(one, 1) for one in grown],
        "serves_again_after_seconds": [round(one, 2) for one in returned],
        "consumed_per_second": round(consumed / consume_seconds),
        "met": max(grown) <= BACKLOG_BYTES_MAX
        and max(returned) <= RETURN_SECONDS_MAX
        and client.longest_wait <= STALL_SECONDS_MAX,
    }


def units(client: Client, queue: str, keys: list[str]) -> list[bytes]:
    return [client.publish_unit("ways", f"{queue}.{key}", 100) for key in keys]


def return_of(cluster: ProcessCluster, number: int, count: int) -> float:
    """Seconds from the start of a killed node until a client of it has a message of the queue in its hands."""
    cluster[number].kill()
    begin = time.perf_counter()
    cluster.restart(number)
    client = Client(*cluster[number].amqp)
    client.call(1, commands.Basic.Get(queue="backlog"), "Basic.GetOk")
    seconds = time.perf_counter() - begin
    declared = client.call(1, commands.Queue.Declare(queue="backlog", passive=True), "Queue.DeclareOk")
    assert declared.message_count == count - 1, f"{declared.message_count} of {count - 1} messages are ready"
    client.abort()
    return seconds


def quorum_queues(scratch: Path, count: int) -> Figures:
    return _many_queues(scratch, count, QUORUM)


def streams(scratch: Path, count: int) -> Figures:
    return _many_queues(scratch, count, {"x-queue-type": "stream"})


def _many_queues(scratch: Path, count: int, arguments: dict[str, str]) -> Figures:
    """Declare queues one after another, import bindings for them, let all idle, kill all nodes, and wait until all queues
    have leaders again."""
    with process_cluster(scratch) as cluster:
        client = Client(*cluster[0].amqp)
        begin = time.perf_counter()
        for number in range(count):
            client.declare_queue(f"many.{number}", arguments=arguments)
        declare_seconds = time.perf_counter() - begin
        lead_again(cluster, count)
        client.declare_queue("probe")
        with longest_answer(cluster) as slowest:
            begin = time.perf_counter()
            import_bindings(cluster[0], count)
            import_seconds = time.perf_counter() - begin
        await_bindings(cluster)
        cpu = idle_cpu_share(*cluster.nodes)
        client.close()
        weights = [node.resident_bytes() for node in cluster.nodes]
        cluster.kill_all()
        begin = time.perf_counter()
        cluster.restart_all()
        ready_seconds = time.perf_counter() - begin
        lead_again(cluster, count)
        restart_seconds = time.perf_counter() - begin
    rate = count / declare_seconds
    return {
        "declared_per_second": round(rate),
        "bindings_imported": BINDINGS,
        "import_seconds": round(import_seconds, 2),
        "longest_answer_meanwhile": [round(one, 3) for one in slowest],
        "idle_cpu_share": round(cpu, 4),
        "resident_bytes": weights,
        "all_nodes_ready_after_seconds": round(ready_seconds, 2),
        "all_queues_serve_after_seconds": round(restart_seconds, 2),
        "met": rate >= DECLARES_PER_SECOND_MIN and cpu <= IDLE_CPU_SHARE_MAX,
    }


def lead_again(cluster: ProcessCluster, count: int) -> None:
    """Returns when each queue has confirmed a message: it has a leader, and a majority."""
    client = Client(*cluster[0].amqp)
    client.publish([client.publish_unit("", f"many.{number}", 1) for number in range(count)], count, count)
    client.close()


def import_bindings(node: RunningNode, queues: int) -> None:
    """As one document, over HTTP."""
    exchange = {"name": "hub", "vhost": "/", "type": "topic", "durable": True, "auto_delete": False, "internal": False}
    bindings = [
        {
            "source": "hub",
            "vhost": "/",
            "destination": f"many.{number % queues}",
            "destination_type": "queue",
            "routing_key": f"key.{number}",
            "arguments": {},
        }
        for number in range(BINDINGS)
    ]
    ask(node.http, "/api/definitions", {"exchanges": [{**exchange, "arguments": {}}], "bindings": bindings})


def await_bindings(cluster: ProcessCluster) -> None:
    """Until every node has what was imported: the last binding routes."""
    for node in cluster.nodes:
        client = Client(*node.amqp)
        client.call(1, commands.Queue.Declare(queue="many.0", passive=True), "Queue.DeclareOk")
        client.close()


def ask(http: Address, path: str, document: Any = None) -> Any:
    host, port = http
    request = urllib.request.Request(f"http://{host}:{port}{path}")
    request.add_header("Authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
    if document is not None:
        request.data = json.dumps(document).encode()
        request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=120) as answer:
        body = answer.read()
    return json.loads(body) if body else None


@contextlib.contextmanager
def longest_answer(cluster: ProcessCluster) -> Iterator[list[float]]:
    """For each node, in seconds: what its event loop was busy with, and the machine, somebody had to wait for."""
    slowest = [0.0] * NODES
    done = threading.Event()

    def watch(number: int) -> None:
        client = Client(*cluster[number].amqp)
        while not done.is_set():
            begin = time.perf_counter()
            client.call(1, commands.Basic.Qos(0, 1, False), "Basic.QosOk")
            slowest[number] = max(slowest[number], time.perf_counter() - begin)
            done.wait(0.005)
        client.close()

    watchers = [threading.Thread(target=watch, args=(number,)) for number in range(NODES)]
    for watcher in watchers:
        watcher.start()
    try:
        yield slowest
    finally:
        done.set()
        for watcher in watchers:
            watcher.join()
