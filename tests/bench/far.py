"""A queue used through its home node, and through another one, in turn: what it costs that a client may connect anywhere.

    python -m tests.bench.far [--rounds N] [--record FILE]

A cluster of two nodes is started on a temporary directory. The ratio is taken pair by pair, as in tests/bench.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

from tests.bench.workloads import Address, consumer, declare, publisher, timed
from tests.running_cluster import RunningCluster, running_cluster

# Message bytes, unconfirmed publishes and prefetch, messages.
SHAPES = [(100, 1_000, 200_000), (100, 100, 100_000), (1_000, 1_000, 100_000), (100, 1, 1_000)]


def rates(cluster: RunningCluster, number: int, queue: str, size: int, window: int, count: int) -> tuple[float, float]:
    """Published and consumed per second through this node; the queue is new, and lives on the first one."""
    home, address = cluster.amqp(1), cluster.amqp(number)
    declare(home, [queue])
    published = timed([(publisher, (address, "", [queue], count, window, size, True))])
    consumed = timed([(consumer, (address, [queue], count, window))])
    return count / published, count / consumed


def heard_of(address: Address, queues: list[str]) -> None:
    """Declared again through this node: it knows them when that is answered."""
    declare(address, queues)


def rows(cluster: RunningCluster, rounds: int) -> list[str]:
    lines = ["| bytes, window | | home | another node | ratio |", "|---|---|---|---|---|"]
    for size, window, count in SHAPES:
        queues = [f"far.{size}.{window}.{turn}" for turn in range(2 * rounds)]
        declare(cluster.amqp(1), queues)
        heard_of(cluster.amqp(2), queues)
        pairs = []
        for turn in range(rounds):
            at_home = rates(cluster, 1, queues[2 * turn], size, window, count)
            elsewhere = rates(cluster, 2, queues[2 * turn + 1], size, window, count)
            pairs.append((at_home, elsewhere))
        for index, what in enumerate(("publish", "consume")):
            one, other = ([pair[side][index] for pair in pairs] for side in (0, 1))
            ratio = statistics.median([far / near for near, far in zip(one, other, strict=True)])
            lines.append(
                f"| {size}, {window} | {what} | {statistics.median(one):,.0f} | {statistics.median(other):,.0f} "
                f"| {ratio:.2f} |"
            )
            print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--record", type=Path, help="add the table to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, running_cluster(Path(directory), nodes=2) as cluster:
        lines = rows(cluster, options.rounds)
    if options.record is not None:
        with options.record.open("a") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
