"""Three real processes of the register machine, whose leader is killed, paused or cut off again and again while clients work.

python -m tests.crash.raft_failover --fault kill --times 100
python -m tests.crash.raft_failover --fault pause --times 50
python -m tests.crash.raft_failover --fault partition --times 50       (as root; see tests/crash/silence.py)

Prints the time from the fault to the next commit (p50, p99, max; of an operation that began when the fault was complete), and
what is wrong with the history that all clients have seen, which must be nothing. Ends with 1 when something is, or when p99 is
above its bar. Some clients stay with the leader that was cut off or paused, and go on asking it: what it says then is part of
the history, so a stale read would be found. The leader is cut off in one of four ways, in turn: it is not heard and hears
nobody; it is not heard; it hears nobody; it is paused as well until the others have gone on, and still cut off when it wakes,
believing that it leads.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

from tests.crash.history import Operation, judge
from tests.crash.power import end_by_exception
from tests.crash.register_clients import GROUP, Loyal, Worker, agreed, all_well, next_commit
from tests.crash.silence import SilentNetwork, available, silent_network
from tests.raft_node.cluster import Cluster, eventually, running_cluster

CLIENTS = 4
LOYAL_PUT_SHARES = (0.0, 0.0, 0.0, 0.6)  # of the clients that stay with the old leader
QUIET_S = 0.2  # between two faults, so that each hits a working group
WAKE_S = 0.3  # how long those who stay with the old leader go on asking when a fault has ended
HOLD_S = 3.0  # how long a fault lasts after the next commit, for those who still ask the old leader
WELL_WITHIN_S = 60.0
BARS_MS = {"kill": 1_000, "pause": 3_000, "partition": 3_000}  # for p99
UNAVAILABLE = 69


class Way(Enum):
    """How a leader is cut off."""

    BOTH = 0
    NOT_HEARD = 1
    HEARS_NOBODY = 2
    PAUSED_TOO = 3


@dataclass
class Rig:
    """What a fault needs. Each returns the seconds until the next commit."""

    cluster: Cluster
    workers: list[Worker]
    loyal: list[Loyal]
    network: SilentNetwork | None
    told_by_old_leaders: int = 0  # answers that count, of questions that began while the leader was cut off or paused
    faults: int = 0
    took: list[float] = field(default_factory=list)

    def hold(self, began: float, end: Callable[[], None], resume: Callable[[], None] | None = None) -> float:
        """A fault is complete now: wait for the next commit, `resume`, hold it a while, `end` it. The time until that
        commit."""
        since = time.monotonic()
        took = next_commit(self.workers, since) - began
        if resume is not None:
            resume()
        time.sleep(HOLD_S)
        until = time.monotonic()
        end()
        time.sleep(WAKE_S)
        for one in self.loyal:
            one.to = None
        operations = [operation for one in self.loyal for operation in one.operations]
        self.told_by_old_leaders += sum(since <= one.began < until and bool(one.version) for one in operations)
        return took


def kill(rig: Rig) -> float:
    leader = rig.cluster.leader(GROUP)
    began = time.monotonic()
    leader.kill()
    committed = next_commit(rig.workers, began)
    leader.start()
    return committed - began


def pause(rig: Rig) -> float:
    leader = rig.cluster.leader(GROUP)
    for one in rig.loyal:
        one.to = leader
    began = time.monotonic()
    leader.signal(signal.SIGSTOP)
    return rig.hold(began, lambda: leader.signal(signal.SIGCONT))


def partition(rig: Rig) -> float:
    leader, network = rig.cluster.leader(GROUP), rig.network
    assert network is not None, "made for this fault"
    others = [node.number for node in rig.cluster.others(leader)]
    for one in rig.loyal:
        one.to = leader
    way = Way(rig.faults % len(Way))
    began = time.monotonic()
    if way is Way.PAUSED_TOO:
        leader.signal(signal.SIGSTOP)
    if way is not Way.NOT_HEARD:
        network.silence(leader.number, others)
    if way is not Way.HEARS_NOBODY:
        for other in others:
            network.silence(other, [leader.number])
    resume = partial(leader.signal, signal.SIGCONT) if way is Way.PAUSED_TOO else None
    return rig.hold(began, network.heal, resume)


FAULTS: dict[str, Callable[[Rig], float]] = {"kill": kill, "pause": pause, "partition": partition}


def run(fault: str, times: int, seed: int) -> dict[str, Any]:
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="leveret-failover-")))
        network = stack.enter_context(silent_network()) if fault == "partition" else None
        places = network.places(scratch) if network is not None else None
        # Kept, or a leadership might be handed back in the moment before its leader is hit.
        cluster = stack.enter_context(running_cluster(scratch, "--keep-leaders", places=places))
        workers = [Worker(cluster, seed + number) for number in range(CLIENTS)]
        loyal = [Loyal(cluster, seed - number, share) for number, share in enumerate(LOYAL_PUT_SHARES, 1)]
        for worker in [*workers, *loyal]:
            worker.start()
        rig = Rig(cluster, workers, loyal, network)
        for number in range(times):
            eventually(lambda: all_well(cluster), "a cluster in which all is well", WELL_WITHIN_S)
            time.sleep(QUIET_S)
            rig.took.append(FAULTS[fault](rig))
            rig.faults += 1
            print(f"{number + 1} of {times}: {rig.took[-1] * 1000:.0f} ms", file=sys.stderr)
        for worker in [*workers, *loyal]:
            worker.stop()
        digest = eventually(lambda: agreed(cluster), "agreement of all members", WELL_WITHIN_S)
        return verdict(fault, seed, rig) | {"digest": digest}


def verdict(fault: str, seed: int, rig: Rig) -> dict[str, Any]:
    operations: list[Operation] = [one for worker in [*rig.workers, *rig.loyal] for one in worker.operations]
    took = sorted(rig.took)
    return {
        "fault": fault,
        "seed": seed,
        "times": len(took),
        "p50_ms": round(took[len(took) // 2] * 1000),
        "p99_ms": round(took[len(took) * 99 // 100] * 1000),
        "p99_bar_ms": BARS_MS[fault],
        "max_ms": round(took[-1] * 1000),
        "operations": len(operations),
        "unknown": sum(one.is_put and not one.version and not one.refused for one in operations),
        "old_leaders_asked": sum(one.asked for one in rig.loyal),
        "old_leaders_told": rig.told_by_old_leaders,
        "wrong": judge(operations),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fault", choices=FAULTS, default="kill")
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    given = parser.parse_args()
    if given.fault == "partition" and (why_not := available()):
        print(f"nobody can be cut off: {why_not}", file=sys.stderr)
        return UNAVAILABLE
    end_by_exception()
    found = run(given.fault, given.times, given.seed)
    print(json.dumps(found))
    return 1 if found["wrong"] or found["p99_ms"] > found["p99_bar_ms"] else 0


if __name__ == "__main__":
    sys.exit(main())
