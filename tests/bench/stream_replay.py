"""What a publisher feels of a reader that reads a long stream from its begin.

    python -m tests.bench.stream_replay [--mib N] [--bytes N] [--rate N] [--cold]

A node is started on a temporary directory. A stream is filled; a client publishes messages of 100 bytes to it at a fixed rate
over the stream protocol, alone, then while another one reads all that the stream was filled with. `--cold` drops what the
system has of the files in memory before.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from tests.bench.stream_load import LoadPublisher, LoadReader
from tests.bench.stream_scale import drop_pages
from tests.bench.workloads import Address, declare
from tests.running_node import RunningNode, running_node
from wire.stream.command_fields import OffsetSpec
from wire.stream.command_keys import OffsetKind

STREAM = "replayed"
MIB = 1 << 20
QUIET_S = 10.0
FILL_BATCH = 10_000
FILL_WINDOW = 1_000
FILL_FRAME = 50


class Waits(NamedTuple):
    """For confirms, in ms."""

    p50: float
    p99: float
    longest: float

    def __str__(self) -> str:
        return f"p50 {self.p50:.1f} ms, p99 {self.p99:.1f}, longest {self.longest:.0f}"


class Steady:
    """A publisher with a rate, in a process of its own."""

    def __init__(self, address: Address, rate: int) -> None:
        self._ours, theirs = multiprocessing.Pipe()
        context = multiprocessing.get_context("spawn")
        self._process = context.Process(target=_publish, args=(address, rate, theirs), daemon=True)
        self._process.start()

    def begin(self) -> None:
        self._ours.send("begin")

    def end(self) -> Waits:
        self._ours.send("end")
        waits: list[float] = self._ours.recv()
        assert waits, "nothing was published"
        return Waits(*[waits[min(len(waits) - 1, int(len(waits) * part))] * 1000 for part in (0.5, 0.99, 1.0)])

    def stop(self) -> None:
        self._ours.send("")
        self._process.join()


def _publish(address: Address, rate: int, pipe: Connection) -> None:
    while pipe.recv():
        load, ends = LoadPublisher(address, STREAM), threading.Event()
        waiting = threading.Thread(target=lambda ends=ends: (pipe.recv(), ends.set()))
        waiting.start()
        pipe.send(load.publish_at(rate, ends.is_set))
        waiting.join()
        load.close()


def fill(address: Address, mib: int, size: int) -> int:
    """How many messages it has then."""
    load, count = LoadPublisher(address, STREAM, size), mib * MIB // size // FILL_BATCH * FILL_BATCH
    for _ in range(0, count, FILL_BATCH):
        load.publish(FILL_BATCH, FILL_WINDOW, FILL_FRAME)
    load.close()
    return count


def replay(address: Address, count: int) -> None:
    reader = LoadReader(address, STREAM, OffsetSpec(OffsetKind.FIRST))
    while reader.next_offset < count:
        reader.receive()
    reader.close()


def measure(node: RunningNode, mib: int, size: int, rate: int, cold: bool) -> None:
    address = node.addresses["stream"]
    declare(node.amqp, [STREAM], kind="stream")
    count = fill(address, mib, size)
    steady = Steady(address, rate)
    steady.begin()
    time.sleep(QUIET_S)  # the measurement itself
    quiet = steady.end()
    if cold:
        drop_pages(node.data_dir)
    steady.begin()
    began = time.perf_counter()
    replay(address, count)
    seconds = time.perf_counter() - began
    beside = steady.end()
    steady.stop()
    print(f"alone: {quiet}")
    print(
        f"beside {mib:,} MiB at {count * size / seconds / 1e6:,.0f} MB/s: {beside}; p99 {beside.p99 / quiet.p99:.1f} times"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--bytes", type=int, default=4096, help="of a message that is read")
    parser.add_argument("--rate", type=int, default=50_000, help="messages published a second meanwhile")
    parser.add_argument("--cold", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, running_node(data_dir=Path(directory) / "data") as node:
        measure(node, options.mib, options.bytes, options.rate, options.cold)


if __name__ == "__main__":
    main()
