"""The shapes of work that brokers are compared on. Each returns one figure; for rates more is better, for times less."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pamqp import commands

from tests.bench.client import Client

Address = tuple[str, int]
JOB_TIMEOUT_S = 300


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    run: Callable[[Address, str], float]
    unit: str = "per second"
    more_is_better: bool = True


def publisher(
    address: Address, exchange: str, keys: list[str], count: int, window: int, size: int, persistent: bool
) -> None:
    client = Client(*address)
    units = [client.publish_unit(exchange, key, size, persistent=persistent) for key in keys]
    client.publish(units, count, window)
    client.close()


def consumer(
    address: Address, queues: list[str], count: int, prefetch: int, arguments: dict[str, Any] | None = None
) -> None:
    client = Client(*address)
    client.consume(queues, count, prefetch, arguments)
    client.close()


class LoadFailed(Exception):
    """A broker did not do what a row asks of it; the load processes have said more."""


def timed(jobs: list[tuple[Callable[..., None], tuple[object, ...]]]) -> float:
    """Seconds until all of these, each in a process of its own, are done."""
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=job, args=arguments) for job, arguments in jobs]
    begin = time.perf_counter()
    for process in processes:
        process.start()
    for process in processes:
        process.join(JOB_TIMEOUT_S)
    seconds = time.perf_counter() - begin
    failed = [process for process in processes if process.exitcode != 0]
    for process in failed:
        if process.is_alive():
            process.kill()
    if failed:
        raise LoadFailed(f"{len(failed)} of {len(processes)} load processes failed")
    return seconds


def declare(address: Address, queues: list[str], *, durable: bool = True, kind: str = "") -> None:
    client = Client(*address)
    for queue in queues:
        client.declare_queue(queue, durable=durable, arguments={"x-queue-type": kind} if kind else None)
    client.close()


def bind(address: Address, exchange: str, kind: str, bindings: list[tuple[str, str]]) -> None:
    client = Client(*address)
    client.call(1, commands.Exchange.Declare(exchange=exchange, exchange_type=kind, durable=True), "Exchange.DeclareOk")
    for queue, key in bindings:
        client.call(1, commands.Queue.Bind(queue=queue, exchange=exchange, routing_key=key), "Queue.BindOk")
    client.close()


def publish(
    count: int, window: int, size: int = 100, *, persistent: bool = True, kind: str = ""
) -> Callable[[Address, str], float]:
    def run(address: Address, name: str) -> float:
        declare(address, [name], kind=kind)
        return count / timed([(publisher, (address, "", [name], count, window, size, persistent))])

    return run


def consume(count: int, prefetch: int, *, kind: str = "") -> Callable[[Address, str], float]:
    def run(address: Address, name: str) -> float:
        declare(address, [name], kind=kind)
        publisher(address, "", [name], count, 1000, 100, True)
        return count / timed([(consumer, (address, [name], count, prefetch))])

    return run


def read_stream(count: int, prefetch: int) -> Callable[[Address, str], float]:
    """From the first offset on, what was published before."""

    def run(address: Address, name: str) -> float:
        declare(address, [name], kind="stream")
        publisher(address, "", [name], count, 1000, 100, True)
        return count / timed([(consumer, (address, [name], count, prefetch, {"x-stream-offset": "first"}))])

    return run


def both(
    count: int,
    window: int,
    prefetch: int,
    size: int = 100,
    pairs: int = 1,
    *,
    persistent: bool = True,
    kind: str = "",
) -> Callable[[Address, str], float]:
    def run(address: Address, name: str) -> float:
        queues = [f"{name}.{number}" for number in range(pairs)]
        declare(address, queues, durable=persistent, kind=kind)
        each = count // pairs
        jobs: list[tuple[Callable[..., None], tuple[object, ...]]] = []
        for queue in queues:
            jobs.append((consumer, (address, [queue], each, prefetch)))
            jobs.append((publisher, (address, "", [queue], each, window, size, persistent)))
        return count / timed(jobs)

    return run


def fan_out(count: int, queues_count: int) -> Callable[[Address, str], float]:
    def run(address: Address, name: str) -> float:
        queues = [f"{name}.{number}" for number in range(queues_count)]
        declare(address, queues)
        bind(address, name, "fanout", [(queue, "") for queue in queues])
        jobs: list[tuple[Callable[..., None], tuple[object, ...]]] = [
            (publisher, (address, name, [""], count, 500, 100, True)),
            (consumer, (address, queues, count * queues_count, 500)),
        ]
        return count * queues_count / timed(jobs)

    return run


def many_queues(queues_count: int, rounds: int) -> Callable[[Address, str], float]:
    """One message in flight in each of many queues."""

    def run(address: Address, name: str) -> float:
        queues = [f"{name}.{number}" for number in range(queues_count)]
        declare(address, queues)
        count = queues_count * rounds
        jobs: list[tuple[Callable[..., None], tuple[object, ...]]] = [
            (publisher, (address, "", queues, count, queues_count, 100, True)),
            (consumer, (address, queues, count, 1000)),
        ]
        return count / timed(jobs)

    return run


def topic(count: int, bindings_count: int) -> Callable[[Address, str], float]:
    def run(address: Address, name: str) -> float:
        queues = [f"{name}.{number}" for number in range(10)]
        declare(address, queues)
        patterns = [(queues[n % 10], f"stock.{n}.*.price" if n % 3 else f"stock.{n}.#") for n in range(bindings_count)]
        bind(address, name, "topic", patterns)
        keys = [f"stock.{n}.eu.price" for n in range(0, bindings_count, 7)]
        jobs: list[tuple[Callable[..., None], tuple[object, ...]]] = [
            (publisher, (address, name, keys, count, 500, 100, True)),
            (consumer, (address, queues, count, 500)),
        ]
        return count / timed(jobs)

    return run


def asker(address: Address, queue: str, count: int) -> None:
    client = Client(*address)
    client.ask(queue, count)
    client.close()


def answerer(address: Address, queue: str, count: int) -> None:
    client = Client(*address)
    client.answer(queue, count)
    client.close()


def requests(count: int) -> Callable[[Address, str], float]:
    """One after the other, answered by way of the direct reply-to."""

    def run(address: Address, name: str) -> float:
        declare(address, [name])
        return count / timed([(answerer, (address, name, count)), (asker, (address, name, count))])

    return run


def latency(count: int, per_second: int, share: float, *, kind: str = "") -> Callable[[Address, str], float]:
    def run(address: Address, name: str) -> float:
        declare(address, [name], kind=kind)
        client = Client(*address)
        times = client.measure_latency(name, count, per_second)
        client.close()
        return times[int(len(times) * share)] * 1000

    return run


CLASSIC = [
    Workload("publish, 1 unconfirmed", publish(3_000, 1)),
    Workload("publish, 100 unconfirmed", publish(100_000, 100)),
    Workload("publish, 1000 unconfirmed", publish(100_000, 1000)),
    Workload("consume, prefetch 100", consume(100_000, 100)),
    Workload("consume, automatic acknowledgement", consume(100_000, 0)),
    Workload("publish and consume", both(100_000, 1000, 1000)),
    Workload("publish and consume, 8 queues", both(80_000, 200, 200, pairs=8)),
    Workload("publish and consume, 50 connections", both(50_000, 100, 100, pairs=25)),
    Workload("publish and consume, prefetch 1", both(10_000, 1000, 1)),
    Workload("publish and consume, 4 KiB", both(40_000, 500, 500, size=4096)),
    Workload("publish and consume, 16 KiB", both(15_000, 200, 200, size=16_384)),
    Workload("publish and consume, 64 KiB", both(5_000, 100, 100, size=65_536)),
    Workload("publish and consume, transient", both(100_000, 1000, 1000, persistent=False)),
    Workload("fan-out to 10 queues, deliveries", fan_out(10_000, 10)),
    Workload("1000 queues, one in flight each", many_queues(1_000, 20)),
    Workload("topic exchange, 1000 bindings", topic(30_000, 1_000)),
    Workload("requests, direct reply-to", requests(5_000)),
    Workload("latency p50 at 1000/s", latency(3_000, 1000, 0.50), "ms", more_is_better=False),
    Workload("latency p99 at 1000/s", latency(3_000, 1000, 0.99), "ms", more_is_better=False),
]

STREAMS = [
    Workload("stream: publish, 1 unconfirmed", publish(3_000, 1, kind="stream")),
    Workload("stream: publish, 100 unconfirmed", publish(100_000, 100, kind="stream")),
    Workload("stream: publish, 1000 unconfirmed", publish(200_000, 1000, kind="stream")),
    Workload("stream: read, prefetch 100", read_stream(200_000, 100)),
    Workload("stream: read, prefetch 1000", read_stream(200_000, 1000)),
]

QUORUM = [
    Workload("quorum: publish, 1 unconfirmed", publish(3_000, 1, kind="quorum")),
    Workload("quorum: publish, 100 unconfirmed", publish(100_000, 100, kind="quorum")),
    Workload("quorum: publish, 1000 unconfirmed", publish(100_000, 1000, kind="quorum")),
    Workload("quorum: consume, prefetch 100", consume(100_000, 100, kind="quorum")),
    Workload("quorum: publish and consume", both(100_000, 1000, 1000, kind="quorum")),
    Workload("quorum: publish and consume, 8 queues", both(80_000, 200, 200, pairs=8, kind="quorum")),
    Workload("quorum: publish and consume, 50 connections", both(50_000, 100, 100, pairs=25, kind="quorum")),
    Workload("quorum: publish and consume, prefetch 1", both(3_000, 1000, 1, kind="quorum")),
    Workload("quorum: publish and consume, 4 KiB", both(40_000, 500, 500, size=4096, kind="quorum")),
    Workload("quorum: publish and consume, 16 KiB", both(10_000, 200, 200, size=16_384, kind="quorum")),
    Workload("quorum: publish and consume, 64 KiB", both(3_000, 100, 100, size=65_536, kind="quorum")),
    Workload("quorum: latency p50 at 1000/s", latency(3_000, 1000, 0.50, kind="quorum"), "ms", more_is_better=False),
    Workload("quorum: latency p99 at 1000/s", latency(3_000, 1000, 0.99, kind="quorum"), "ms", more_is_better=False),
]

# By name. Quorum queues are measured on three nodes, the others on one.
ONE_NODE_SET, QUORUM_SET = "one-node", "quorum"
SETS = {ONE_NODE_SET: [*CLASSIC, *STREAMS], "classic": CLASSIC, "streams": STREAMS, QUORUM_SET: QUORUM}
