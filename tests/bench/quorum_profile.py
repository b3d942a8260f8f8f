"""Where the time of a quorum queue's nodes goes: the one that clients are on, which usually leads, and a follower.

    python -m tests.bench.quorum_profile [--only TEXT] [--lines N] [--record FILE]

As tests/bench/profile.py, on a cluster of three nodes. Each sample stops its node for a moment, so nothing is said of speed.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench.client import Client
from tests.bench.profile import SECONDS_MIN, Sampling, table
from tests.bench.quorum_scale import QUORUM, ProcessCluster, process_cluster
from tests.bench.workloads import Address, consumer, publisher, timed

SAMPLED = {0: "the node that leads", 1: "a follower"}
Job = tuple[Callable[..., None], tuple[object, ...]]


def publish(address: Address, queue: str, count: int, window: int) -> Job:
    return publisher, (address, "", [queue], count, window, 100, True)


def publish_and_consume(address: Address, queue: str, count: int) -> list[Job]:
    return [publish(address, queue, count, 1_000), (consumer, (address, [queue], count, 1_000))]


WORKLOADS: dict[str, Callable[[Address, str], list[Job]]] = {
    "publish, 1 unconfirmed": lambda address, queue: [publish(address, queue, 1_000, 1)],
    "publish, 100 unconfirmed": lambda address, queue: [publish(address, queue, 50_000, 100)],
    "publish, 1000 unconfirmed": lambda address, queue: [publish(address, queue, 200_000, 1_000)],
    "publish and consume": lambda address, queue: publish_and_consume(address, queue, 100_000),
}


def tables_of(cluster: ProcessCluster, scratch: Path, name: str, lines: int) -> list[str]:
    home = cluster[0].amqp
    client = Client(*home)
    client.declare_queue(name, arguments=QUORUM)
    client.publish([client.publish_unit("", name, 100)], 1_000, 1_000)  # it has a leader
    client.close()
    sampled = {number: Sampling(cluster[number], scratch / f"stacks.{number}") for number in SAMPLED}
    begin = time.perf_counter()
    while time.perf_counter() - begin < SECONDS_MIN:
        timed(WORKLOADS[name](home, name))
    page = []
    for number, sampling in sampled.items():
        page += table(f"quorum queue, {name}: {SAMPLED[number]}", sampling.stop(), lines)
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="workloads whose name holds this text")
    parser.add_argument("--lines", type=int, default=8)
    parser.add_argument("--record", type=Path, help="add the tables to this file")
    options = parser.parse_args()
    page: list[str] = []
    with tempfile.TemporaryDirectory(prefix="leveret-profile-") as directory:
        scratch = Path(directory)
        with process_cluster(scratch) as cluster:
            for name in WORKLOADS:
                if options.only in name:
                    page += tables_of(cluster, scratch, name, options.lines)
    print("\n".join(page))
    if options.record is not None:
        with options.record.open("a") as file:
            file.write("\n".join(page).rstrip("\n") + "\n")


if __name__ == "__main__":
    main()
