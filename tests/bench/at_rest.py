"""What a large cluster costs while nobody asks for anything, from what small ones cost.

    python -m tests.bench.at_rest [--nodes 100] [--queues 1000000] [--quorum-share 0.5]

Measured on clusters of this machine, which are started one after the other and let rest:

    a neighbour        processor time of a node for each other node: two nodes, and eight
    a queue            memory on each node, for all know what is declared: 20,000 classic ones on three nodes
    a queue at home    processor time of the node where a classic queue lives: the same
    a member           memory and processor time of one copy of a quorum queue, beyond that: 2,000 queues on three nodes

and from these, for the cluster that is asked about: memory and share of a core of each node, with members spread evenly, and
messages between nodes a second. All of it grows in a line with neighbours, queues and members (docs/raft.md says why a group at
rest sends nothing), so it is summed.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raft.failure_detector import DetectorSettings
from tests.bench.process_tree import private_bytes, processor_seconds
from tests.bench.quorum_scale import QUORUM, ask
from tests.running_cluster import RunningCluster, running_cluster

MEMBERS = 3
FEW, MANY = 2, 8
CLASSIC_QUEUES = 20_000
QUORUM_QUEUES = 2_000
SETTLE_S = 15.0
REST_S = 20.0


@dataclass(frozen=True, slots=True)
class Load:
    """Of all nodes of a cluster that rests."""

    memory: int
    cores: float


@dataclass(frozen=True, slots=True)
class Unit:
    """What one more of something costs one node."""

    memory: float
    cores: float


@dataclass(frozen=True, slots=True)
class Units:
    node: Unit  # by itself
    neighbour: Unit
    queue: Unit  # that is declared, wherever it is
    home: Unit  # a classic queue that lives there
    member: Unit


@dataclass(frozen=True, slots=True)
class Asked:
    """A cluster that is to be computed."""

    nodes: int
    queues: int
    quorum_share: float

    @property
    def members(self) -> float:
        """On each node."""
        return self.queues * self.quorum_share * MEMBERS / self.nodes

    @property
    def at_home(self) -> float:
        """Classic queues that live on each node."""
        return self.queues * (1 - self.quorum_share) / self.nodes


def measured() -> Units:
    few, many = (load(nodes, {}) for nodes in (FEW, MANY))
    neighbour = difference(many, MANY, few, FEW, MANY - FEW)
    empty = load(MEMBERS, {})
    classic = load(MEMBERS, definitions(CLASSIC_QUEUES, {}))
    queue = Unit(difference(classic, MEMBERS, empty, MEMBERS, CLASSIC_QUEUES).memory, 0.0)
    home = Unit(0.0, max(0.0, classic.cores - empty.cores) / CLASSIC_QUEUES)
    quorum = difference(load(MEMBERS, definitions(QUORUM_QUEUES, QUORUM)), MEMBERS, empty, MEMBERS, QUORUM_QUEUES)
    node = Unit(few.memory / FEW - neighbour.memory * (FEW - 1), few.cores / FEW - neighbour.cores * (FEW - 1))
    # Each of three nodes has a member of each quorum queue, and knows of the queue as of any other.
    member = Unit(max(0.0, quorum.memory - queue.memory), quorum.cores)
    return Units(node, neighbour, queue, home, member)


def load(nodes: int, declared: dict[str, Any]) -> Load:
    with tempfile.TemporaryDirectory() as directory, running_cluster(Path(directory) / "data", nodes) as cluster:
        if declared:
            ask(cluster.http(1), "/api/definitions", declared)
        return rest(cluster)


def rest(cluster: RunningCluster) -> Load:
    time.sleep(SETTLE_S)  # these two are the measurement: what does a cluster do while nobody asks for anything
    begin = processor_seconds(cluster.process.pid)
    time.sleep(REST_S)
    spent = processor_seconds(cluster.process.pid) - begin
    return Load(private_bytes(cluster.process.pid), spent / REST_S)


def definitions(count: int, arguments: dict[str, str]) -> dict[str, Any]:
    common = {"vhost": "/", "durable": True, "auto_delete": False, "arguments": arguments}
    return {"queues": [{"name": f"resting.{number}", **common} for number in range(count)]}


def difference(more: Load, more_nodes: int, less: Load, less_nodes: int, count: int) -> Unit:
    """For one of so many, on one node."""
    memory = more.memory / more_nodes - less.memory / less_nodes
    cores = more.cores / more_nodes - less.cores / less_nodes
    return Unit(
        max(0.0, memory / count), max(0.0, cores / count)
    )  # below nothing: it is less than what is measured wrong


def of_a_node(units: Units, asked: Asked) -> Unit:
    parts = [(units.node, 1.0), (units.neighbour, asked.nodes - 1.0), (units.queue, float(asked.queues))]
    parts += [(units.home, asked.at_home), (units.member, asked.members)]
    return Unit(sum(unit.memory * count for unit, count in parts), sum(unit.cores * count for unit, count in parts))


def pings_per_second(nodes: int) -> float:
    """Of the whole cluster; each is answered."""
    return nodes * (nodes - 1) / DetectorSettings().ping_interval_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--queues", type=int, default=1_000_000)
    parser.add_argument("--quorum-share", type=float, default=0.5, help="of the queues; the others are classic ones")
    options = parser.parse_args()
    asked = Asked(options.nodes, options.queues, options.quorum_share)
    units = measured()
    print("| of one node | memory | share of a core |")
    print("|---|---|---|")
    for name, unit in (
        ("by itself", units.node),
        ("a neighbour", units.neighbour),
        ("a queue that is declared", units.queue),
        ("a classic queue that lives there", units.home),
        ("a member of a quorum queue", units.member),
        (f"{asked.nodes} nodes, {asked.queues:,} queues, {asked.members:,.0f} members each", of_a_node(units, asked)),
    ):
        print(f"| {name} | {unit.memory / 1024:,.2f} KiB | {unit.cores:.7f} |")
    print(f"pings between nodes: {pings_per_second(asked.nodes):,.0f} a second in the whole cluster")


if __name__ == "__main__":
    main()
