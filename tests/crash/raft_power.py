"""Cuts the power of one of three nodes, or of all at once, again and again while clients work, and judges what they saw.

    python -m tests.crash.raft_power --minority 50 --all 20 [--seed N] [--json]       (as root; see tests/crash/power.py)

Three real processes of the register machine, each with its directory on a file system of its own whose power can be cut.
Before the cut a process is stopped (SIGSTOP) until none of its threads can run any more, and afterwards it is killed: a machine
without power says nothing, so nothing may be heard, by a client or by another node, that was said after the cut. An fsync that
is under way then may or may not have been enough, but nobody is told about it.

Every node must start again, as the member that it was: a power cut takes away only what nobody was promised, so a member that
found something missing, and took a new number, has lost something that it had called durable. The history of all clients must
be linearizable, and in the end all members must agree. In half of their lives nodes run with tiny log files and snapshots after
a few entries, so that the cut hits log files that roll, segments and snapshots that are being written. In half of them an fsync
takes 15 ms, as on a disk that turns: whoever is told before it ends is told long before the cut can still undo it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.crash import power
from tests.crash.history import judge
from tests.crash.register_clients import GROUP, Worker, agreed, all_well, next_commit
from tests.raft_node.cluster import Cluster, Process, eventually, places_here, running_cluster

CLIENTS = 4
VALUE_BYTES_MAX = 3_000
LOAD_S = (0.05, 0.5)  # between two cuts, at least and at most
AWAY_S = (0.0, 0.5)  # how long a node has no power
WELL_WITHIN_S = 60.0
TINY = ("--log-file-bytes", "131072", "--snapshot-entries", "100")
SLOW = ("--fsync-ms", "15")
UNAVAILABLE = 69


@dataclass
class Verdict:
    """The counts that are published, and every failure in words."""

    seed: int
    minority_cuts: int = 0
    all_cuts: int = 0
    leaders_cut: int = 0
    starts: int = 0
    start_seconds_max: float = 0.0
    commit_seconds_max: float = 0.0  # from the last start of a cycle to the next commit
    operations: int = 0
    puts_done: int = 0
    puts_unknown: int = 0
    digest: str = ""
    failures: list[str] = field(default_factory=list)


class PowerCuts:
    """The nodes' lives, under one history."""

    def __init__(self, cluster: Cluster, disks: dict[int, power.PowerDisk], seed: int) -> None:
        self.verdict = Verdict(seed)
        self._cluster = cluster
        self._disks = disks
        self._random = random.Random(seed)
        self._members = {number: self._member(node) for number, node in cluster.nodes.items()}
        self._workers = [Worker(cluster, seed + number, VALUE_BYTES_MAX) for number in range(CLIENTS)]

    def run(self, minority: int, everybody: int) -> None:
        plan = [1] * minority + [len(self._cluster.nodes)] * everybody
        self._random.shuffle(plan)
        for worker in self._workers:
            worker.start()
        for number, count in enumerate(plan, 1):
            self._wait_until_well()
            time.sleep(self._random.uniform(*LOAD_S))
            self._cut_and_restore(self._random.sample(sorted(self._cluster.nodes), count))
            print(f"cut {number} of {len(plan)}: {len(self.verdict.failures)} failures", file=sys.stderr)
            if self.verdict.failures:
                break
        self._end()

    def _wait_until_well(self) -> None:
        eventually(lambda: all_well(self._cluster), "a cluster in which all is well", WELL_WITHIN_S)

    def _cut_and_restore(self, numbers: Sequence[int]) -> None:
        victims = [self._cluster.nodes[number] for number in numbers]
        is_minority = len(victims) * 2 < len(self._cluster.nodes)
        self.verdict.leaders_cut += is_minority and victims[0] is self._cluster.leader(GROUP)
        power.stop_running([node.process.pid for node in victims])
        for node in victims:
            self._disks[node.number].cut_power()
        for node in victims:
            node.kill()
        self.verdict.minority_cuts += is_minority
        self.verdict.all_cuts += not is_minority
        time.sleep(self._random.uniform(*AWAY_S))
        for node in victims:
            self._disks[node.number].restore_power()
        self._start(victims)

    def _start(self, victims: Sequence[Process]) -> None:
        began = time.monotonic()
        for node in victims:
            node.begin(*self._draw(TINY), *self._draw(SLOW))
        for node in victims:
            try:
                node.wait_until_ready()
            except RuntimeError as error:
                self._fail(str(error))
                return
            self.verdict.starts += 1
        ready = time.monotonic()
        self.verdict.start_seconds_max = max(self.verdict.start_seconds_max, ready - began)
        for node in victims:
            if (member := self._member(node)) != self._members[node.number]:
                self._fail(
                    f"node {node.number} came back as member {member}, and was {self._members[node.number]}: "
                    f"it misses something that was durable; its log is\n{node.log.read_text()[-2000:]}"
                )
        try:
            committed = next_commit(self._workers, ready)
        except TimeoutError as error:
            self._fail(str(error))
        else:
            self.verdict.commit_seconds_max = max(self.verdict.commit_seconds_max, committed - ready)

    def _draw(self, options: tuple[str, ...]) -> tuple[str, ...]:
        return options if self._random.random() < 0.5 else ()

    def _member(self, node: Process) -> int:
        return int(node.call("status", group=GROUP)["member"])

    def _fail(self, what: str) -> None:
        self.verdict.failures.append(f"cut {self.verdict.minority_cuts + self.verdict.all_cuts}: {what}")

    def _end(self) -> None:
        for worker in self._workers:
            worker.stop()
        verdict = self.verdict
        operations = [one for worker in self._workers for one in worker.operations]
        verdict.operations = len(operations)
        verdict.puts_done = sum(one.is_put and one.version > 0 for one in operations)
        verdict.puts_unknown = sum(one.is_put and not one.version and not one.refused for one in operations)
        verdict.failures += judge(operations)
        if not verdict.failures:
            verdict.digest = eventually(lambda: agreed(self._cluster), "agreement of all members", WELL_WITHIN_S)


def run(minority: int, everybody: int, seed: int) -> Verdict:
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="leveret-raft-power-")))
        disks: dict[int, power.PowerDisk] = {}
        places = places_here(scratch)
        for number, place in places.items():
            place.data_dir.mkdir()
            disks[number] = stack.enter_context(power.power_disk(place.data_dir))
            places[number] = place.moved(disks[number].path / "data")
        cluster = stack.enter_context(running_cluster(scratch, places=places))
        cuts = PowerCuts(cluster, disks, seed)
        cuts.run(minority, everybody)
        return cuts.verdict


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minority", type=int, default=50, help="how often one of three nodes loses its power")
    parser.add_argument("--all", type=int, default=20, help="how often all of them do at once")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--json", action="store_true", help="the verdict for programs")
    given = parser.parse_args()
    if why_not := power.available():
        print(f"no power cuts: {why_not}", file=sys.stderr)
        return UNAVAILABLE
    power.end_by_exception()
    power.keep_mounts_apart()
    verdict = asdict(run(given.minority, given.all, given.seed))
    print(json.dumps(verdict) if given.json else "\n".join(f"{name}: {value}" for name, value in verdict.items()))
    return 1 if verdict["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
