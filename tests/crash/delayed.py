"""A million delayed messages wait on three nodes; while they are released their leader is killed, moved and killed again.

    python -m tests.crash.delayed --count 1000000 --rate 5000
    python -m tests.crash.delayed --count 200000 --rate 10000 --calm   # nothing is killed or moved

They are published in an order of chance and all wait before the first one is due; then so many are due each second, and go to
a quorum queue with a consumer on the third node, or on the next one where that is killed. The leader's node is killed -9 when
a quarter has come, and comes back; the leader is moved there when half has come, and killed again at three quarters. Told is
how late messages came, by the clock of this process, which publishes and consumes. The command fails where one was lost or
early, where more came twice than may be on their way when a leader goes, or where something still waits in the end.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import signal
import struct
import sys
import tempfile
import time
from array import array
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import cycle, pairwise
from pathlib import Path

from leveret.errors import LeveretError
from quorum.dead_letters import RELEASED_MAX
from tests.bench.client import Client
from tests.bench.delayed import EXCHANGE, QUEUE, declare, percentile, unit
from tests.crash.conversion import url
from tests.crash.numbered import DIGITS, Collector
from tests.e2e.test_cluster import on, process_of
from tests.e2e.test_quorum_queues import QUORUM, all_are_voters
from tests.running_cluster import RunningCluster, running_cluster

HOLDING = f"amq.delayed.{EXCHANGE}"
STEP_S_MAX = 120.0  # beside the times at which messages are due
LOOK_S = 0.05
PAUSE_S = 0.2
LATE_MS = 1_000.0  # a message that comes so late was held up
IN_TIME_MS = 50.0
PREFETCH = (
    10_000  # with 1,000 a consumer of 10,000 a second waits for its acknowledgements, 0.1 s each on a busy machine
)
MARK = 0x7EADBEEF  # a delay that stands nowhere else among the bytes of a message
HOUR_S = 3_600.0
MARGIN_S = 10.0  # beside what publishing takes
SHARES = (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
AT_ONCE = 100  # sent together, and sent for 5 ms: with 1,000 the last of them were noted as 40 ms late
PROBED = 20_000  # messages that tell how long publishing takes here
SLOWER = 1.4  # than they were, at most, with a million behind them


class Schedule:
    """When numbers are to be due, and when they are, by the clock of this process: a delay begins when it is sent."""

    def __init__(self, count: int, rate: float, lead_s: float) -> None:
        self.count = count
        self.due = array("d", bytes(8 * count))
        self.first = time.monotonic() + lead_s
        self._rate = rate

    def delays_ms(self, numbers: Sequence[int]) -> list[int]:
        """Of messages that are sent now."""
        now = time.monotonic()
        delays = [max(1, round(1000 * (self.first + number / self._rate - now))) for number in numbers]
        for number, delay in zip(numbers, delays, strict=True):
            self.due[number] = now + delay / 1000
        return delays


class LateCollector(Collector):
    """How late each number came when it came first, and when nothing came."""

    def __init__(self, url: Callable[[], str], queue: str, schedule: Schedule) -> None:
        super().__init__(url, queue, schedule.count, QUORUM, PREFETCH)
        self.late_ms = array("d", bytes(8 * schedule.count))
        self.pauses: list[tuple[float, float]] = []  # when one ended, and how long it was
        self._schedule = schedule
        self._came_at = schedule.first

    def note(self, numbers: Sequence[int]) -> None:
        now, due = time.monotonic(), self._schedule.due
        if now - self._came_at > PAUSE_S:
            self.pauses.append((now, now - self._came_at))
        self._came_at = max(now, self._came_at)
        for number in numbers:
            if not self.seen[number]:
                self.late_ms[number] = 1000 * (now - due[number])
        super().note(numbers)


class Changes:
    """What was done to the leader, and when."""

    def __init__(self, cluster: RunningCluster) -> None:
        self.done: list[tuple[str, float]] = []
        self._cluster = cluster

    def kill_leader(self) -> None:
        """Its node comes back by itself."""
        number = self._leader()
        os.kill(process_of(self._cluster, number), signal.SIGKILL)
        self._note(f"n{number}, which led, was killed")

    def move_leader(self) -> None:
        """To a node where at first nobody consumes, once it has come back."""
        target = 2 if self._leader() == 1 else 1
        until(f"n{target} is led to", lambda: self._moved(target))
        self._note(f"the leader was moved to n{target}")

    def _moved(self, target: int) -> bool:
        """Refused while that one does not have all yet."""
        on(self._cluster.grpc(3), lambda node: node.admin.transfer_queue_leader(HOLDING, f"n{target}"))
        return True

    def _leader(self) -> int:
        found: list[int] = []

        def is_known() -> bool:
            group = on(self._cluster.grpc(3), lambda node: node.admin.queue_status(HOLDING)).group
            found[:] = [int(group.leader[1:])] if group is not None and group.leader else []
            return bool(found)

        until("somebody leads", is_known)
        return found[0]

    def _note(self, what: str) -> None:
        self.done.append((what, time.monotonic()))
        print(what, flush=True)


def until(what: str, holds: Callable[[], object], within_s: float = STEP_S_MAX) -> None:
    """A node that is asked may be the one that was killed."""
    deadline = time.monotonic() + within_s
    while True:
        with suppress(LeveretError):
            if holds():
                return
        assert time.monotonic() < deadline, f"not so within {within_s:g} s: {what}"
        time.sleep(LOOK_S)


def publish(client: Client, schedule: Schedule) -> None:
    """All are confirmed when it returns."""
    head, rest = unit(MARK, b"0" * DIGITS).split(struct.pack(">i", MARK))
    middle = rest[: -DIGITS - 1]
    numbers = list(range(schedule.count))
    random.shuffle(numbers)
    for at in range(0, schedule.count, AT_ONCE):
        some = numbers[at : at + AT_ONCE]
        units = [
            b"%s%s%s%0*d\xce" % (head, struct.pack(">i", delay), middle, DIGITS, number)
            for number, delay in zip(some, schedule.delays_ms(some), strict=True)
        ]
        client.publish(units, len(units), AT_ONCE)


def lead_for(cluster: RunningCluster, client: Client, count: int) -> float:
    """Seconds that publishing so many may take on this machine, with what else it does."""
    began = time.monotonic()
    publish(client, Schedule(PROBED, PROBED, HOUR_S))
    took = time.monotonic() - began
    on(cluster.grpc(3), lambda node: node.topology.purge_queue(HOLDING))
    return MARGIN_S + SLOWER * took * count / PROBED


def waiting(cluster: RunningCluster) -> int:
    return on(cluster.grpc(3), lambda node: node.admin.queue_status(HOLDING)).queue.ready


def run(cluster: RunningCluster, count: int, rate: float, *, calm: bool) -> None:
    publisher = Client(*cluster.amqp(1))  # so its node leads both queues
    declare(publisher, QUORUM)
    lead_s = lead_for(cluster, publisher, count)
    schedule = Schedule(count, rate, lead_s)
    began = time.monotonic()
    publish(publisher, schedule)
    took = time.monotonic() - began
    assert time.monotonic() < schedule.first, f"publishing took {took:.0f} s, and the first were due after {lead_s:.0f}"
    assert (pending := waiting(cluster)) == count, f"{pending} wait, and not {count}"
    print(f"{count} wait, published at {count / took:.0f} a second", flush=True)
    nodes = cycle((3, 2, 1))  # as a client that is told of all: how long a node takes to start again is not measured
    consumer = LateCollector(lambda: url(cluster, next(nodes)), QUEUE, schedule)
    consumer.start()
    changes = Changes(cluster)
    within_s = lead_s + count / rate + STEP_S_MAX
    steps = () if calm else (changes.kill_leader, changes.move_leader, changes.kill_leader)
    for quarter, change in enumerate(steps, 1):
        until(f"{quarter} quarters came", partial(has_come, consumer, count * quarter // 4), within_s)
        change()
    until("all came", partial(has_come, consumer, count), within_s)
    until("nothing waits", lambda: not waiting(cluster))
    until("the node that was killed last is back", partial(is_whole, cluster))
    tell(consumer, schedule, changes.done)


def is_whole(cluster: RunningCluster) -> bool:
    all_are_voters(cluster)
    return True


def has_come(consumer: LateCollector, count: int) -> bool:
    return consumer.distinct >= count


def shares_of(late_ms: Sequence[float]) -> str:
    return ", ".join(f"{name} {percentile(late_ms, share):.0f}" for name, share in SHARES)


def tell(consumer: LateCollector, schedule: Schedule, changes: list[tuple[str, float]]) -> None:
    """What came between one change and the next, and how it was late."""
    late = consumer.late_ms
    borders = [("at first", schedule.first), *changes, ("", math.inf)]
    for (what, begin), (_, end) in pairwise(borders):
        of_part = [late[number] for number, due in enumerate(schedule.due) if begin <= due < end]
        if not of_part:
            continue  # all had fallen due before
        held_up = [due for number, due in enumerate(schedule.due) if begin <= due < end and late[number] > LATE_MS]
        pause = max((length for ended, length in consumer.pauses if begin <= ended < end), default=0.0)
        caught_up = f", more than {LATE_MS:g} until {max(held_up) - begin:.1f} s behind that" if held_up else ""
        print(
            f"{what}: {len(of_part)} messages, nothing came for {pause:.1f} s at the longest, late by ms: "
            f"{shares_of(of_part)}{caught_up}",
            flush=True,
        )
    in_time = sum(one <= IN_TIME_MS for one in late) / schedule.count
    print(f"of all, late by ms: {shares_of(late)}; {in_time:.1%} within {IN_TIME_MS:g}", flush=True)
    again = consumer.delivered - consumer.distinct
    print(f"all {schedule.count} came, {again} more often than once; the earliest by {min(late):.1f} ms", flush=True)
    assert min(late) >= 0, "one came early"
    assert again <= len(changes) * (RELEASED_MAX + PREFETCH), "more came twice than were on their way"


def main(given_arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--rate", type=float, default=5_000, help="so many are due each second")
    parser.add_argument("--calm", action="store_true", help="nothing is killed or moved")
    given = parser.parse_args(given_arguments)
    with tempfile.TemporaryDirectory(prefix="leveret-delayed-") as folder, running_cluster(Path(folder)) as cluster:
        all_are_voters(cluster)
        run(cluster, given.count, given.rate, calm=given.calm)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
