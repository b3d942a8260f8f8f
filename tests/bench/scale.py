"""How a node carries much: a long backlog, a long stream, a low memory watermark, many idle connections, many queues.

    python -m tests.bench.scale backlog|scattered|stream-backlog|watermark|connections|queues [--count N]
    python -m tests.bench.scale quorum-backlog|quorum-scattered|quorum-queues|streams [--count N]    of a cluster of three nodes

Each starts what it measures itself, prints one JSON object with its figures, and ends with 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from pamqp import commands

from tests.bench.client import Client
from tests.bench.quorum_scale import Figures, quorum_backlog, quorum_queues, quorum_scattered, streams
from tests.bench.stream_scale import stream_backlog
from tests.bench.weighing import idle_cpu_share, settled_resident_bytes
from tests.running_node import RunningNode, start_node

MESSAGE_BYTES_MAX = 8.0
CONNECTION_BYTES_MAX = 60_000
DECLARES_PER_SECOND_MIN = 300
RESTART_SECONDS_MAX = 20
IDLE_CPU_SHARE_MAX = 0.05
WATERMARK_BYTES = 512 << 20


def see_first_message(node: RunningNode, queue: str) -> int:
    """How many messages are ready; returns when a client has one of them in its hands, and gives it back."""
    client = Client(*node.amqp)
    declared = client.call(1, commands.Queue.Declare(queue=queue, passive=True), "Queue.DeclareOk")
    client.call(1, commands.Basic.Get(queue=queue), "Basic.GetOk")
    client.abort()
    return int(declared.message_count)


def backlog(scratch: Path, count: int) -> Figures:
    """One queue, published with a window of 1000: runs of many messages."""
    return fill_and_return(scratch, count, ["backlog"])


def scattered(scratch: Path, count: int) -> Figures:
    """Two queues in turn, so that every run holds one message: the worst case for positions in memory."""
    return fill_and_return(scratch, count, ["backlog.left", "backlog.right"])


def fill_and_return(scratch: Path, count: int, queues: list[str]) -> Figures:
    """Fill queues, weigh the node, kill it, and time its return."""
    node = start_node(scratch / "data")
    client = Client(*node.amqp)
    client.declare_queue("warm")
    client.publish([client.publish_unit("", "warm", 100)], 20_000, 1000)
    client.call(1, commands.Queue.Purge(queue="warm"), "Queue.PurgeOk")
    for queue in queues:
        client.declare_queue(queue)
    empty = settled_resident_bytes(node)
    begin = time.perf_counter()
    client.publish([client.publish_unit("", queue, 100) for queue in queues], count, 1000)
    publish_seconds = time.perf_counter() - begin
    full = settled_resident_bytes(node)
    node.kill()
    begin = time.perf_counter()
    node = start_node(scratch / "data")
    ready = sum(see_first_message(node, queue) for queue in queues)
    restart_seconds = time.perf_counter() - begin
    begin = time.perf_counter()
    client = Client(*node.amqp)
    client.consume(queues, count, 1000)
    consume_seconds = time.perf_counter() - begin
    node.stop()
    per_message = (full - empty) / count
    return {
        "published_per_second": round(count / publish_seconds),
        "bytes_per_message": round(per_message, 2),
        "recovered": ready,
        "restart_seconds": round(restart_seconds, 2),
        "consumed_per_second": round(count / consume_seconds),
        "met": per_message <= MESSAGE_BYTES_MAX and ready == count,
    }


def watermark(scratch: Path, count: int) -> Figures:
    """Publish far more than fits below the watermark; the publisher is held, nothing is lost, memory stays below."""
    options = scratch / "leveret.toml"
    options.write_text(f"[memory]\nhigh_watermark_bytes = {WATERMARK_BYTES}\n")
    node = start_node(scratch / "data", "--config", str(options))
    client = Client(*node.amqp)
    client.declare_queue("flood")
    failures: list[BaseException] = []

    def flood() -> None:
        try:
            client.publish([client.publish_unit("", "flood", 100)], count, 10_000)
        except BaseException as error:
            failures.append(error)
            raise

    thread = threading.Thread(target=flood)
    thread.start()
    highest = 0
    while thread.is_alive():
        highest = max(highest, node.resident_bytes())
        thread.join(0.05)
    reader = Client(*node.amqp)
    reader.consume(["flood"], count, 1000)
    highest = max(highest, node.resident_bytes())
    node.stop()
    return {
        "published_and_consumed": count,
        "resident_bytes_max": highest,
        "watermark_bytes": WATERMARK_BYTES,
        "met": highest <= WATERMARK_BYTES and not failures,
    }


def connections(scratch: Path, count: int) -> Figures:
    node = start_node(scratch / "data")
    first = [Client(*node.amqp) for _ in range(20)]
    before = settled_resident_bytes(node)
    begin = time.perf_counter()
    more = [Client(*node.amqp) for _ in range(count)]
    seconds = time.perf_counter() - begin
    after = settled_resident_bytes(node)
    cpu = idle_cpu_share(node)
    each = (after - before) / count
    for client in (*first, *more):
        client.close()
    node.stop()
    return {
        "connected_per_second": round(count / seconds),
        "bytes_per_connection": round(each),
        "idle_cpu_share": round(cpu, 4),
        "met": each <= CONNECTION_BYTES_MAX and cpu <= IDLE_CPU_SHARE_MAX,
    }


def queues(scratch: Path, count: int) -> Figures:
    node = start_node(scratch / "data")
    client = Client(*node.amqp)
    begin = time.perf_counter()
    for number in range(count):
        client.declare_queue(f"many.{number}")
    declare_seconds = time.perf_counter() - begin
    cpu = idle_cpu_share(node)
    node.stop()
    begin = time.perf_counter()
    node = start_node(scratch / "data")
    again = Client(*node.amqp)
    again.call(1, commands.Queue.Declare(queue=f"many.{count - 1}", passive=True), "Queue.DeclareOk")
    restart_seconds = time.perf_counter() - begin
    again.close()
    node.stop()
    rate = count / declare_seconds
    return {
        "declared_per_second": round(rate),
        "restart_seconds": round(restart_seconds, 2),
        "idle_cpu_share": round(cpu, 4),
        "met": rate >= DECLARES_PER_SECOND_MIN and restart_seconds <= RESTART_SECONDS_MAX and cpu <= IDLE_CPU_SHARE_MAX,
    }


MEASUREMENTS: dict[str, tuple[Callable[[Path, int], Figures], int]] = {
    "backlog": (backlog, 1_000_000),
    "scattered": (scattered, 1_000_000),
    "stream-backlog": (stream_backlog, 10_000_000),
    "watermark": (watermark, 5_000_000),
    "connections": (connections, 2_000),
    "queues": (queues, 10_000),
    "quorum-backlog": (quorum_backlog, 1_000_000),
    "quorum-scattered": (quorum_scattered, 1_000_000),
    "quorum-queues": (quorum_queues, 1_000),
    "streams": (streams, 1_000),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=list(MEASUREMENTS))
    parser.add_argument("--count", type=int)
    options = parser.parse_args()
    measure, usual = MEASUREMENTS[options.what]
    with tempfile.TemporaryDirectory(prefix="leveret-scale-") as scratch:
        figures = measure(Path(scratch), options.count or usual)
    print(json.dumps({"measurement": options.what, "count": options.count or usual, **figures}))
    return 0 if figures["met"] else 1


if __name__ == "__main__":
    sys.exit(main())
