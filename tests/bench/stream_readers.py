"""What a publisher to a stream has left of its rate beside many readers at the stream's end.

    python -m tests.bench.stream_readers [--protocol amqp|stream] [--threads] [--readers N] [--messages N] [--window N]

A node is started on a temporary directory. A client publishes to a stream alone, and again while N readers, each with a
connection of its own and a prefetch of 100, or credit for 10 chunks, are given what it publishes; they are one other process.
With `--threads` threads write all commits, as they do on a slow disk, and the event loop none.
"""

from __future__ import annotations

import argparse
import multiprocessing
import selectors
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from pamqp import commands

from native.frame_split import FRAME
from tests.bench.client import DELIVER, Client
from tests.bench.stream_load import LoadPublisher, LoadReader
from tests.bench.workloads import Address, declare, publisher, timed
from tests.running_node import RunningNode, running_node
from wire.stream.command_fields import OffsetSpec
from wire.stream.command_keys import OffsetKind

PREFETCH = 100


class Rate(NamedTuple):
    per_second: float
    node_us: float  # of the processor, for one message

    def __str__(self) -> str:
        return f"{self.per_second:,.0f} a second, {self.node_us:.1f} µs of the node's processor time each"


class Reader:
    """One consumer. It acknowledges what it was given when that is half of what it may have."""

    def __init__(self, address: Address, stream: str) -> None:
        self.client = Client(*address)
        self.client.call(1, commands.Basic.Qos(0, PREFETCH, False), "Basic.QosOk")
        consume = commands.Basic.Consume(queue=stream, consumer_tag="reader", arguments={"x-stream-offset": "next"})
        self.client.call(1, consume, "Basic.ConsumeOk")
        self.got = 0
        self._acknowledged = 0

    def fileno(self) -> int:
        """For a selector."""
        return self.client.fileno()

    def receive(self) -> None:
        items = self.client.receive_items()
        self.got += sum(item[0] == FRAME and item[3][:4] == DELIVER for item in items)
        if self.got - self._acknowledged >= PREFETCH // 2:
            self._acknowledged = self.got
            self.client.acknowledge(self.got)


def read(protocol: str, address: Address, stream: str, count: int, pipe: Connection) -> None:
    """Until something is said through `pipe`; answers how many messages they were given."""
    readers = [
        Reader(address, stream) if protocol == "amqp" else LoadReader(address, stream, OffsetSpec(OffsetKind.NEXT))
        for _ in range(count)
    ]
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        for reader in readers:
            selector.register(reader, selectors.EVENT_READ, reader)
        pipe.send("ready")
        while not pipe.poll():
            for key, _ in selector.select():
                if key.data is not None:
                    key.data.receive()
    pipe.send(sum(reader.got for reader in readers))


class Bench:
    """What is measured, of one node."""

    def __init__(self, node: RunningNode, protocol: str, messages: int, window: int) -> None:
        self._node = node
        self._protocol = protocol
        self._address = node.addresses[protocol]
        self._messages = messages
        self._window = window

    def published(self, stream: str) -> Rate:
        before = self._node.cpu_seconds()
        seconds = self._publish(stream)
        return Rate(self._messages / seconds, (self._node.cpu_seconds() - before) / self._messages * 1e6)

    def _publish(self, stream: str) -> float:
        if self._protocol == "amqp":
            return timed([(publisher, (self._address, "", [stream], self._messages, self._window, 100, True))])
        load = LoadPublisher(self._address, stream)
        seconds = load.publish(self._messages, self._window)
        load.close()
        return seconds

    def published_beside(self, stream: str, readers: int) -> tuple[Rate, int]:
        """And how many messages the readers were given meanwhile."""
        ours, theirs = multiprocessing.Pipe()
        what = self._protocol, self._address, stream, readers, theirs
        reading = multiprocessing.get_context("spawn").Process(target=read, args=what)
        reading.start()
        ours.recv()
        rate = self.published(stream)
        ours.send("end")
        given = ours.recv()
        reading.join()
        return rate, given


@contextmanager
def bench_node(threads: bool) -> Iterator[RunningNode]:
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory) / "leveret.toml"
        config.write_text("[log]\ncommit_inline_bytes_max = 0\n" if threads else "")
        with running_node("--config", str(config)) as node:
            yield node


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--protocol", choices=["amqp", "stream"], default="amqp")
    parser.add_argument("--threads", action="store_true", help="threads write all commits")
    parser.add_argument("--readers", type=int, default=500)
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--window", type=int, default=100, help="unconfirmed messages")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    ratios = []
    with bench_node(options.threads) as node:
        bench = Bench(node, options.protocol, options.messages, options.window)
        for number in range(options.rounds):
            stream = f"read.{number}"
            declare(node.amqp, [stream], kind="stream")
            alone = bench.published(stream)
            beside, given = bench.published_beside(stream, options.readers)
            ratios.append(beside.per_second / alone.per_second)
            print(f"alone {alone}\nbeside {options.readers} readers {beside}; they were given {given:,}", flush=True)
    print(f"ratio {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
