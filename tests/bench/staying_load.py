"""Load in short portions on connections that stay: what is measured a second time meets the same sockets and channels.

Connections that are new for each portion find a node in another state each time, which is worth a tenth of a rate by chance.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection

from pamqp import commands, frame

from tests.bench.brokers import Broker
from tests.bench.client import DELIVER, Client
from tests.bench.process_tree import members, seconds_of
from tests.bench.workloads import Address, LoadFailed, declare

TAG = "bench"
DELIVERED = DELIVER + bytes([len(TAG)]) + TAG.encode()
CANCELLED = frame.marshal(commands.Basic.CancelOk(TAG), 1)
PER_SECOND, LATENCY_PREFETCH = 1_000, 1_000
ANSWER_WITHIN_S = 60
P99 = 0.99
TICK_S = 0.12  # a node tells its log within a tenth of a second what was done


@dataclass(frozen=True, slots=True)
class StayingRow:
    """What is measured, by `pairs` of a publisher and a consumer with a queue of their own."""

    name: str
    part: str  # of PARTS
    window: int = 1_000
    prefetch: int = 0
    size: int = 100
    pairs: int = 1
    first_count: int = 2_000  # of a publisher's messages, until the rate is known


ROWS = [
    StayingRow("publish, 1 unconfirmed", "publish", 1, first_count=100),
    StayingRow("publish, 100 unconfirmed", "publish", 100),
    StayingRow("publish, 1000 unconfirmed", "publish", 1_000),
    StayingRow("consume, prefetch 100", "consume", 1_000, 100),
    StayingRow("publish and consume", "both", 1_000, 1_000),
    StayingRow("publish and consume, 8 queues", "both", 200, 200, pairs=8, first_count=500),
    StayingRow("publish and consume, 4 KiB", "both", 500, 500, size=4_096),
    StayingRow("latency at 1000/s", "latency", first_count=200),
    StayingRow("in step, 1 message", "step", 1, first_count=50),
    StayingRow("in step, 100 messages", "step", 100),
    StayingRow("in step, 1000 messages", "step", 1_000),
    StayingRow("in step, 100 messages of 4 KiB", "step", 100, size=4_096, first_count=500),
]


class StayingConsumer(Client):
    """Takes messages, all of one size, by counting how often a delivery begins in what comes in."""

    def __init__(self, address: Address, queue: str, prefetch: int) -> None:
        super().__init__(*address)
        self._queue, self._half = queue, max(1, prefetch // 2)
        self._got = self._acknowledged = 0
        self._end = b""  # of what came in last, in which a delivery may have begun
        self.call(1, commands.Basic.Qos(0, prefetch, False), "Basic.QosOk")

    def begin(self) -> None:
        self.send_method(1, commands.Basic.Consume(queue=self._queue, consumer_tag=TAG, nowait=True))

    def take(self, count: int) -> None:
        until = self._got + count
        while self._got < until:
            self._receive()
            while self._got - self._acknowledged >= self._half:
                self._acknowledged += self._half
                self.acknowledge(self._acknowledged)
        if self._acknowledged < self._got:
            self._acknowledged = self._got
            self.acknowledge(self._got)

    def end(self) -> None:
        """Stop consuming an empty queue."""
        self.send_method(1, commands.Basic.Cancel(TAG))
        while not self._end.endswith(CANCELLED):
            self._receive()
        self._end = b""

    def _receive(self) -> None:
        data = self._end + self._receive_bytes()
        found = data.count(DELIVERED)
        self._got += found
        after = data.rfind(DELIVERED) + len(DELIVERED) if found else 0
        self._end = data[max(after, len(data) - len(CANCELLED)) :]


Work = Callable[[int], list[float]]  # so many messages; figures, of latency only


def publishing(address: Address, queue: str, row: StayingRow) -> Work:
    client = Client(*address)
    unit = client.publish_unit("", queue, row.size)

    def work(count: int) -> list[float]:
        client.publish([unit], count, row.window)
        return []

    return work


def purging(address: Address, queue: str, _: StayingRow) -> Work:
    client = Client(*address)

    def work(_: int) -> list[float]:
        client.call(1, commands.Queue.Purge(queue=queue), "Queue.PurgeOk")
        return []

    return work


def consuming(address: Address, queue: str, row: StayingRow) -> Work:
    """By a consumer that stays."""
    client = StayingConsumer(address, queue, row.prefetch)
    client.begin()

    def work(count: int) -> list[float]:
        client.take(count)
        return []

    return work


def consuming_a_backlog(address: Address, queue: str, row: StayingRow) -> Work:
    """By a consumer for each portion, on a channel that stays."""
    client = StayingConsumer(address, queue, row.prefetch)

    def work(count: int) -> list[float]:
        client.begin()
        client.take(count)
        client.end()
        return []

    return work


def stepping(address: Address, queue: str, row: StayingRow) -> Work:
    """A window is published, confirmed, taken and acknowledged at once before the next. So a node has the same to do for each,
    where elsewhere it depends on how much has come in by the time it looks, and a message costs half as much or twice."""
    client, taker = Client(*address), StayingConsumer(address, queue, 2 * row.window)
    unit = client.publish_unit("", queue, row.size)
    taker.begin()

    def work(count: int) -> list[float]:
        for _ in range(count // row.window):
            client.publish([unit], row.window, row.window)
            taker.take(row.window)
        return []

    return work


def timing(address: Address, queue: str, _: StayingRow) -> Work:
    client = Client(*address)
    client.call(1, commands.Basic.Qos(0, LATENCY_PREFETCH, False), "Basic.QosOk")
    client.send_method(1, commands.Basic.Consume(queue=queue, consumer_tag="c", nowait=True))

    def work(count: int) -> list[float]:
        times = client.latencies(queue, count, PER_SECOND)
        return [times[len(times) // 2], times[int(len(times) * P99)]]

    return work


Opened = Callable[[Address, str, StayingRow], Work]
# By part of a row: who does what first, and what the clock sees.
PARTS: dict[str, tuple[list[Opened], list[Opened]]] = {
    "publish": ([purging], [publishing]),
    "consume": ([publishing], [consuming_a_backlog]),
    "both": ([], [consuming, publishing]),
    "latency": ([], [timing]),
    "step": ([], [stepping]),
}


def _serve(told: Connection, opened: Opened, address: Address, queue: str, row: StayingRow) -> None:
    work = opened(address, queue, row)
    while (count := told.recv()) is not None:
        told.send(work(count))


class _Worker:
    """A process that opens its connection and waits."""

    def __init__(self, opened: Opened, address: Address, queue: str, row: StayingRow) -> None:
        context = multiprocessing.get_context("fork")
        self._told, other = context.Pipe()
        arguments = (other, opened, address, queue, row)
        self._process = context.Process(target=_serve, args=arguments, daemon=True)
        self._process.start()
        other.close()

    def begin(self, count: int) -> None:
        self._told.send(count)

    def ended(self) -> list[float]:
        if not self._told.poll(ANSWER_WITHIN_S):
            raise LoadFailed("a load process has not answered")
        return self._told.recv()  # type: ignore[no-any-return]

    def close(self) -> None:
        self._told.send(None)
        self._process.join(ANSWER_WITHIN_S)


class StayingLoad:
    """One row on one broker."""

    def __init__(self, row: StayingRow, broker: Broker, name: str, kind: str, open_until: ExitStack) -> None:
        self.row = row
        self._processes = [process for root in broker.processes for process in members(root)]
        self._measured_s = 0.0  # processor time at the begin of the portion
        self._ended_at = 0.0
        self._count = 0
        queues = [f"{name}.{number}" for number in range(row.pairs)]
        declare(broker.address, queues, kind=kind)
        first, timed = PARTS[row.part]
        self._first = [_Worker(one, broker.address, queue, row) for one in first for queue in queues]
        self._timed = [_Worker(one, broker.address, queue, row) for one in timed for queue in queues]
        for worker in (*self._first, *self._timed):
            open_until.callback(worker.close)

    def portion(self, count: int) -> dict[str, float]:
        """The `rate` at which `count` messages of each queue went, or their p50 and p99."""
        _work(self._first, count)
        self._count = count * self.row.pairs
        self._measured_s = seconds_of(self._processes)
        begin = time.perf_counter()
        times = _work(self._timed, count)
        self._ended_at = time.perf_counter()
        return {"p50": times[0], "p99": times[1]} if times else {"rate": self._count / (self._ended_at - begin)}

    def processor_seconds(self) -> float:
        """Of all nodes by message of the last portion, with the tick behind it."""
        time.sleep(max(0.0, self._ended_at + TICK_S - time.perf_counter()))  # the measurement itself
        return (seconds_of(self._processes) - self._measured_s) / self._count


def _work(workers: list[_Worker], count: int) -> list[float]:
    for worker in workers:
        worker.begin(count)
    return [figure for worker in workers for figure in worker.ended()]


@contextmanager
def staying_loads(
    row: StayingRow, brokers: dict[str, Broker], name: str, kind: str
) -> Iterator[dict[str, StayingLoad]]:
    """The row on each of these brokers, by the same keys. The connections are open during the block."""
    with ExitStack() as open_until:
        yield {one: StayingLoad(row, broker, name, kind, open_until) for one, broker in brokers.items()}


def count_of(load: StayingLoad, seconds: float) -> int:
    """How many messages of a queue take so long."""
    row = load.row
    if row.part == "latency":
        return int(seconds * PER_SECOND)
    count = row.first_count
    for _ in range(3):  # from portions that get longer, for a short one has a rate of its own
        count = max(row.first_count, int(load.portion(count)["rate"] / row.pairs * seconds))
    return count - count % row.window if row.part == "step" else count
