"""What a publisher to a stream has left of its rate beside many readers at the stream's end.

    python -m tests.bench.stream_readers [--readers N] [--messages N] [--window N] [--rounds N]

A node is started on a temporary directory. A client of AMQP publishes to a stream alone, and again while N consumers, each with
a connection of its own and a prefetch of 100, are given what it publishes; they are one other process.
"""

from __future__ import annotations

import argparse
import multiprocessing
import selectors
import statistics
from multiprocessing.connection import Connection
from typing import NamedTuple

from pamqp import commands

from native.frame_split import FRAME
from tests.bench.client import DELIVER, Client
from tests.bench.workloads import Address, declare, publisher, timed
from tests.running_node import RunningNode, running_node

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

    def receive(self) -> None:
        items = self.client.receive_items()
        self.got += sum(item[0] == FRAME and item[3][:4] == DELIVER for item in items)
        if self.got - self._acknowledged >= PREFETCH // 2:
            self._acknowledged = self.got
            self.client.acknowledge(self.got)


def read(address: Address, stream: str, count: int, pipe: Connection) -> None:
    """Until something is said through `pipe`; answers how many messages they were given."""
    readers = [Reader(address, stream) for _ in range(count)]
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        for reader in readers:
            selector.register(reader.client, selectors.EVENT_READ, reader)
        pipe.send("ready")
        while not pipe.poll():
            for key, _ in selector.select():
                if key.data is not None:
                    key.data.receive()
    pipe.send(sum(reader.got for reader in readers))


def published(node: RunningNode, stream: str, messages: int, window: int) -> Rate:
    before = node.cpu_seconds()
    seconds = timed([(publisher, (node.amqp, "", [stream], messages, window, 100, True))])
    return Rate(messages / seconds, (node.cpu_seconds() - before) / messages * 1e6)


def published_beside(node: RunningNode, stream: str, messages: int, window: int, readers: int) -> tuple[Rate, int]:
    """And how many messages the readers were given meanwhile."""
    ours, theirs = multiprocessing.Pipe()
    reading = multiprocessing.get_context("spawn").Process(target=read, args=(node.amqp, stream, readers, theirs))
    reading.start()
    ours.recv()
    rate = published(node, stream, messages, window)
    ours.send("end")
    given = ours.recv()
    reading.join()
    return rate, given


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--readers", type=int, default=500)
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--window", type=int, default=100, help="unconfirmed messages")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    ratios = []
    with running_node() as node:
        for number in range(options.rounds):
            stream = f"read.{number}"
            declare(node.amqp, [stream], kind="stream")
            alone = published(node, stream, options.messages, options.window)
            beside, given = published_beside(node, stream, options.messages, options.window, options.readers)
            ratios.append(beside.per_second / alone.per_second)
            print(f"alone {alone}\nbeside {options.readers} readers {beside}; they were given {given:,}", flush=True)
    print(f"ratio {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
