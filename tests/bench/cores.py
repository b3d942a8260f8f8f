"""Many cores, as several nodes on a machine: what a message costs at its queue's node and through another, and what that gives.

    python -m tests.bench.cores [--rounds N] [--cores 4,16,64]

Two nodes are started, and the processor time of both is measured while clients publish and consume at the queue's own node,
and through the other one. From that it computes how many messages a second so many cores take if all they do is run nodes: with
clients at their queue's node, and with clients and queues spread by chance, where of N nodes N - 1 are another. Disks and
networks are left out. The measurement is of processor time, so other work on the machine matters little.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.bench.far import heard_of
from tests.bench.process_tree import processor_seconds
from tests.bench.workloads import Address, consumer, declare, publisher, timed
from tests.running_cluster import RunningCluster, running_cluster

HOME, ELSEWHERE = 1, 2


@dataclass(frozen=True, slots=True)
class Shape:
    size: int
    window: int
    count: int

    @property
    def name(self) -> str:
        return f"{self.size:,} bytes, {self.window:,} at a time"


SHAPES = [Shape(100, 1_000, 300_000), Shape(100, 100, 100_000), Shape(1_000, 1_000, 100_000), Shape(4_096, 500, 40_000)]


@dataclass(frozen=True, slots=True)
class Cost:
    """Processor time of all nodes for a message that is published and consumed, in µs."""

    home: float
    elsewhere: float

    def per_second_at_home(self, cores: int) -> float:
        return cores * 1e6 / self.home

    def per_second_by_chance(self, cores: int) -> float:
        """One node a core; each client's node is its queue's with a chance of one in so many."""
        return cores * 1e6 / (self.home / cores + self.elsewhere * (cores - 1) / cores)


def cost_of(cluster: RunningCluster, shape: Shape, rounds: int) -> Cost:
    found: dict[int, list[float]] = {HOME: [], ELSEWHERE: []}
    for turn in range(rounds):
        for number, times in found.items():
            queue = f"cores.{shape.size}.{shape.window}.{turn}.{number}"
            declare(cluster.amqp(HOME), [queue])
            heard_of(cluster.amqp(ELSEWHERE), [queue])
            times.append(microseconds(cluster, cluster.amqp(number), queue, shape))
    return Cost(statistics.median(found[HOME]), statistics.median(found[ELSEWHERE]))


def microseconds(cluster: RunningCluster, address: Address, queue: str, shape: Shape) -> float:
    begin = processor_seconds(cluster.process.pid)
    size, window, count = shape.size, shape.window, shape.count
    timed(
        [(publisher, (address, "", [queue], count, window, size, True)), (consumer, (address, [queue], count, window))]
    )
    return (processor_seconds(cluster.process.pid) - begin) / count * 1e6


def row(shape: Shape, cost: Cost, cores: list[int]) -> str:
    given = [f"{cost.per_second_at_home(one):,.0f}, {cost.per_second_by_chance(one):,.0f}" for one in cores]
    return " | ".join([f"| {shape.name}", f"{cost.home:.2f}", f"{cost.elsewhere:.2f}", *given]) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", default="4,16,64", help="numbers with commas between them; default 4,16,64")
    options = parser.parse_args()
    cores = [int(number) for number in options.cores.split(",")]
    heads = [f"{number} cores: a second at home, by chance" for number in cores]
    print("| " + " | ".join(["", "at home, µs", "elsewhere, µs", *heads]) + " |")
    print("|---" * (len(heads) + 3) + "|")
    with tempfile.TemporaryDirectory() as directory, running_cluster(Path(directory), nodes=2) as cluster:
        for shape in SHAPES:
            print(row(shape, cost_of(cluster, shape, options.rounds), cores), flush=True)


if __name__ == "__main__":
    main()
