"""Three real processes of the register machine, whose leader is killed or paused again and again while clients work.

python -m tests.crash.raft_failover --fault kill --times 100
python -m tests.crash.raft_failover --fault pause --times 20

Prints the time from the fault to the next commit (p50, p99, max; of an operation that began after the fault), and what is wrong
with the history that all clients have seen, which must be nothing.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

from raft import register
from tests.crash.history import Operation, judge
from tests.raft_node import wire
from tests.raft_node.client import Client
from tests.raft_node.cluster import Cluster, Process, eventually, running_cluster
from tests.raft_node.wire import Said

CLIENTS = 4
KEYS = [b"key %d" % number for number in range(3)]
GROUP = 1
TRY_S = 0.5
COMMIT_WITHIN_S = 20.0
QUIET_S = 0.2  # between two faults, so that each hits a working group
PAUSE_S = 3.0  # how long a paused leader stands still after the next commit
RETRY_S = 0.005
LAG_ENTRIES = 1_000  # members that lack no more than this have caught up: the others go on meanwhile


class Worker(threading.Thread):
    """One client: puts and reads, one at a time, all of them remembered."""

    values = itertools.count(1)

    def __init__(self, cluster: Cluster, seed: int) -> None:
        super().__init__(daemon=True)
        self.operations: list[Operation] = []
        self.last_commit_began = 0.0  # when the newest put that was done had begun
        self.avoid: Process | None = None
        self._random = random.Random(seed)
        self._client = Client(cluster)
        self._told_to_stop = threading.Event()

    def stop(self) -> None:
        self._told_to_stop.set()
        self.join(COMMIT_WITHIN_S)
        self._client.close()

    def run(self) -> None:
        while not self._told_to_stop.is_set():
            key = self._random.choice(KEYS)
            said = self._put(key) if self._random.random() < 0.6 else self._read(key)
            if said is not Said.OK:
                time.sleep(RETRY_S)

    def _put(self, key: bytes) -> Said:
        one = Operation(key, time.monotonic(), written=b"%d" % next(self.values))
        self.operations.append(one)
        assert one.written is not None
        said, detail = self._client.once(GROUP, wire.COMMAND, register.put(key, one.written), TRY_S, self.avoid)
        if said is Said.OK:
            one.version, one.ended = detail[1], time.monotonic()
            self.last_commit_began = one.began
        one.refused = said not in (Said.OK, Said.UNKNOWN)
        return said

    def _read(self, key: bytes) -> Said:
        one = Operation(key, time.monotonic())
        said, detail = self._client.once(GROUP, wire.READ, key, TRY_S, self.avoid)
        if said is Said.OK:
            one.ended = time.monotonic()
            one.version, one.found = detail or (0, None)
            self.operations.append(one)
        return said


def next_commit(workers: list[Worker], since: float) -> float:
    """Seconds from the fault until a put is done that began after it."""

    def committed() -> bool:
        return any(worker.last_commit_began > since for worker in workers)

    eventually(committed, "the next commit", COMMIT_WITHIN_S)
    ends = [
        one.ended
        for worker in workers
        for one in worker.operations[-200:]
        if one.version and one.is_put and one.began > since
    ]
    return min(ends) - since


def kill(cluster: Cluster, workers: list[Worker]) -> float:
    leader = cluster.leader(GROUP)
    began = time.monotonic()
    leader.kill()
    took = next_commit(workers, began)
    leader.start()
    return took


def pause(cluster: Cluster, workers: list[Worker]) -> float:
    leader = cluster.leader(GROUP)
    began = time.monotonic()
    leader.signal(signal.SIGSTOP)
    took = next_commit(workers, began)
    time.sleep(
        PAUSE_S
    )  # its clients' requests wait in its sockets until it goes on, and must not be answered wrongly then
    leader.signal(signal.SIGCONT)
    return took


def all_well(cluster: Cluster) -> bool:
    """All nodes reach each other, and all members stand at about the same entry."""
    if any(len(node.call("node")["trusted"]) < len(cluster.nodes) - 1 for node in cluster.nodes.values()):
        return False
    applied = [node.call("status", group=GROUP)["applied"] for node in cluster.nodes.values()]
    return bool(max(applied) - min(applied) < LAG_ENTRIES)


def run(fault: str, times: int, seed: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory(prefix="leveret-failover-") as scratch, running_cluster(Path(scratch)) as cluster:
        workers = [Worker(cluster, seed + number) for number in range(CLIENTS)]
        for worker in workers:
            worker.start()
        took = []
        for number in range(times):
            eventually(lambda: all_well(cluster), "a cluster in which all is well")
            time.sleep(QUIET_S)
            took.append((kill if fault == "kill" else pause)(cluster, workers))
            print(f"{number + 1} of {times}: {took[-1] * 1000:.0f} ms", file=sys.stderr)
        for worker in workers:
            worker.stop()
        operations = [one for worker in workers for one in worker.operations]
        digests = eventually(lambda: agreed(cluster), "agreement of all members")
        took.sort()
        return {
            "fault": fault,
            "times": times,
            "p50_ms": round(took[len(took) // 2] * 1000),
            "p99_ms": round(took[len(took) * 99 // 100] * 1000),
            "max_ms": round(took[-1] * 1000),
            "operations": len(operations),
            "unknown": sum(one.is_put and not one.version and not one.refused for one in operations),
            "digest": digests,
            "wrong": judge(operations),
        }


def agreed(cluster: Cluster) -> str | None:
    said = {
        (status["applied"], status["digest"])
        for status in (node.call("status", group=GROUP) for node in cluster.alive())
    }
    return str(next(iter(said))[1]) if len(said) == 1 else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fault", choices=["kill", "pause"], default="kill")
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    given = parser.parse_args()
    verdict = run(given.fault, given.times, given.seed)
    print(json.dumps(verdict))
    return 1 if verdict["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
