"""How fast a node that has nothing of a stream gets all of it, and what a publisher to the stream feels of that.

    python -m tests.bench.stream_refill [--mib N] [--bytes N] [--cold] [--record FILE]

A cluster of three nodes is started on a temporary directory. A stream on two of them is filled, and the third is given a
member, as a node is whose disk was lost. A publisher publishes one message after another before and meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import leveret
from tests.bench.steady_publisher import SteadyPublisher
from tests.bench.stream_scale import drop_pages
from tests.bench.workloads import publisher, timed
from tests.running_cluster import RunningCluster, running_cluster

STREAM = "refilled"
MIB = 1 << 20
QUIET_S = 5.0
POLL_S = 0.5  # asking twenty times a second takes the node a twentieth of a core, and nobody asks while it is quiet
WINDOW = 500
WITHIN_S = 600.0


@dataclass(frozen=True, slots=True)
class Refill:
    mib: float
    seconds: float
    quiet_p99_ms: float
    p99_ms: float
    longest_ms: float

    def __str__(self) -> str:
        speed = self.mib * MIB / 1e6 / self.seconds
        times = self.p99_ms / self.quiet_p99_ms
        return (
            f"{self.mib:,.0f} MiB in {self.seconds:.1f} s: {speed:,.0f} MB/s. The publisher's p99 was {self.p99_ms:.1f} ms, "
            f"quiet {self.quiet_p99_ms:.1f} ({times:.1f} times), the longest {self.longest_ms:.0f} ms"
        )


async def with_members(cluster: RunningCluster, count: int) -> None:
    """Returns when so many members vote and have all that was there when they were looked at first."""
    until = time.monotonic() + WITHIN_S
    async with leveret.connect(cluster.grpc(1)) as node:
        while True:
            group = (await node.admin.queue_status(STREAM)).group
            members = group.members if group is not None else ()
            if len(members) == count and all(one.membership == "voter" and one.state != "starting" for one in members):
                return
            if time.monotonic() > until:
                raise RuntimeError(f"stream '{STREAM}' has not {count} members after {WITHIN_S:.0f} s: {members}")
            await asyncio.sleep(POLL_S)


async def declare(cluster: RunningCluster) -> None:
    async with leveret.connect(cluster.grpc(1)) as node:
        arguments = {"x-queue-type": "stream", "x-initial-cluster-size": 2}
        await node.topology.declare_queue(STREAM, durable=True, arguments=arguments)
    await with_members(cluster, 2)


async def new_member(cluster: RunningCluster) -> str:
    """A node that has no member yet gets one."""
    async with leveret.connect(cluster.grpc(1)) as node:
        group = (await node.admin.queue_status(STREAM)).group
        assert group is not None, "a stream is a group"
        (free,) = {"n1", "n2", "n3"} - {one.node for one in group.members}
        await node.admin.add_queue_member(STREAM, free)
        return free


def p99_ms(samples: list[float]) -> float:
    return samples[len(samples) * 99 // 100] * 1000


def refill(cluster: RunningCluster, mib: int, size: int, *, cold: bool = False) -> Refill:
    asyncio.run(declare(cluster))
    timed([(publisher, (cluster.amqp(1), "", [STREAM], mib * MIB // size, WINDOW, size, True))])
    steady = SteadyPublisher((*cluster.amqp(1), "/"), STREAM)
    steady.start()
    began = time.time()
    time.sleep(QUIET_S)
    quiet = steady.between(began, time.time())
    if cold:
        drop_pages(cluster.data_dir)
    asyncio.run(new_member(cluster))
    began = time.time()
    asyncio.run(with_members(cluster, 3))
    ended = time.time()
    beside = steady.between(began, ended)
    steady.stop()
    return Refill(mib, ended - began, p99_ms(quiet), p99_ms(beside), beside[-1] * 1000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--bytes", type=int, default=4096, help="of a message")
    parser.add_argument("--cold", action="store_true", help="the page cache has nothing of what is sent")
    parser.add_argument("--record", type=Path, help="add the figures to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, running_cluster(Path(directory), nodes=3) as cluster:
        line = str(refill(cluster, options.mib, options.bytes, cold=options.cold))
    print(line)
    if options.record is not None:
        with options.record.open("a") as file:
            file.write(f"{line}\n")


if __name__ == "__main__":
    main()
