"""A classic queue with a million messages becomes a quorum queue while a publisher works, and its node is killed as it copies.

    python -m tests.crash.conversion --count 1000000 --rate 500

Three nodes. The home of the queue is killed when half has a copy; the conversion is asked for again and has to end. Told are
how long the fence stood, and how long the publisher waited for a confirm at the longest since that. All messages that were
confirmed have to come to a consumer, once or more often; the command fails otherwise, or where the fence stood longer than a
second.

Copying is fast: where it was a quorum queue before its home was killed, as beside other work, all has to come as well, and
the command begins again with another cluster.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pamqp import commands

from tests.bench.client import Client
from tests.crash.numbered import AGAIN_S, DIGITS, GONE, Collector, client_of, publish_numbers
from tests.e2e.test_cluster import process_of
from tests.e2e.test_management_cluster import ask
from tests.running_cluster import RunningCluster, running_cluster

QUEUE = "converted"
PATH = f"leveret/queues/%2F/{QUEUE}/conversion"
STEP_S_MAX = 600.0
LOOK_S = 0.05
TRIES = 5  # to kill a node while it copies
PAUSE_MS_MAX = 1_000
FENCED = re.compile(r"is a quorum queue now; it was fenced for (\d+) ms")


class SteadyPublisher(threading.Thread):
    """Numbers from `first` on, each confirmed before the next, at a steady rate; one that is not known to be confirmed is
    published again."""

    def __init__(self, cluster: RunningCluster, first: int, rate: float) -> None:
        super().__init__(daemon=True)
        self.next = first  # all before are confirmed
        self.longest_s = 0.0  # that a confirm took, since somebody set it back
        self._cluster, self._rate, self._over = cluster, rate, threading.Event()

    def end(self) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        while not self._over.is_set():
            try:
                client = client_of(url(self._cluster, 2))
                client.call(1, commands.Confirm.Select(), "Confirm.SelectOk")
                head = client.publish_unit("", QUEUE, DIGITS)[: -DIGITS - 1]
                while not self._over.wait(1 / self._rate):
                    self._publish(client, head)
                client.close()
            except GONE:
                self._over.wait(AGAIN_S)

    def _publish(self, client: Client, head: bytes) -> None:
        began = time.monotonic()
        client.send(b"%s%0*d\xce" % (head, DIGITS, self.next))
        client.receive_method(1, "Basic.Ack")
        self.longest_s = max(self.longest_s, time.monotonic() - began)
        self.next += 1


def url(cluster: RunningCluster, number: int) -> str:
    host, port = cluster.amqp(number)
    return f"amqp://guest:guest@{host}:{port}/%2F"


def conversion(cluster: RunningCluster, method: str) -> dict[str, Any]:
    """As node 1 knows it; nothing while that is away."""
    try:
        status, told, _ = ask(cluster, 1, method, PATH, {"dry_run": False} if method == "POST" else None)
    except OSError:
        return {}
    return told if status < 300 else {}


def wait(what: str, cluster: RunningCluster, method: str, holds: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """What was told in the end."""
    deadline = time.monotonic() + STEP_S_MAX
    while not holds(told := conversion(cluster, method)):
        assert time.monotonic() < deadline, f"not so within {STEP_S_MAX:g} s, but {told}: {what}"
        time.sleep(LOOK_S)
    return told


def is_over(told: dict[str, Any]) -> bool:
    return bool(told.get("state") == "quorum")


def run(cluster: RunningCluster, count: int, rate: float) -> int | None:
    """The exit status; None where it was a quorum queue before its home was killed."""
    client = client_of(url(cluster, 1))
    client.declare_queue(QUEUE)
    publish_numbers(client, "", QUEUE, count)
    publisher = SteadyPublisher(cluster, count, rate)
    publisher.start()
    wait("it is being converted", cluster, "POST", lambda told: told)
    wait("half is copied", cluster, "GET", lambda told: told.get("copied", 0) >= count // 2 or is_over(told))
    before = len(cluster.lines)
    os.kill(process_of(cluster, 1), signal.SIGKILL)
    cluster.said(r"^n1 +\| ready: ", before)
    if is_over(wait("it is one or the other", cluster, "GET", lambda told: told.get("state") in ("classic", "quorum"))):
        publisher.end()
        all_came(cluster, publisher.next)
        return None
    began, publisher.longest_s = time.monotonic(), 0.0
    wait("it is being converted again", cluster, "POST", lambda told: told)
    wait("it is a quorum queue", cluster, "GET", is_over)
    took, longest_ms = time.monotonic() - began, publisher.longest_s * 1_000
    publisher.end()
    fenced_ms = next(int(found[1]) for line in cluster.lines if (found := FENCED.search(line)))
    print(f"{count} messages converted in {took:.1f} s, beside {rate:g} a second, {publisher.next - count} in all")
    print(f"the fence stood for {fenced_ms} ms; a confirm took {longest_ms:.0f} ms at most", flush=True)
    all_came(cluster, publisher.next)
    return 0 if fenced_ms <= PAUSE_MS_MAX else 1


def all_came(cluster: RunningCluster, count: int) -> None:
    collector = Collector(lambda: url(cluster, 3), QUEUE, count + 1)  # one more may be there, unconfirmed
    collector.start()
    deadline = time.monotonic() + STEP_S_MAX
    while collector.distinct < count:
        assert time.monotonic() < deadline, f"{count - collector.distinct} of {count} did not come"
        time.sleep(LOOK_S)
    print(f"all {count} came, {collector.delivered - collector.distinct} more often than once", flush=True)


def main(given_arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--rate", type=float, default=500, help="that the publisher tries to keep, a second")
    given = parser.parse_args(given_arguments)
    for _ in range(TRIES):
        with (
            tempfile.TemporaryDirectory(prefix="leveret-conversion-") as folder,
            running_cluster(Path(folder)) as cluster,
        ):
            cluster.ready(3)
            status = run(cluster, given.count, given.rate)
        if status is not None:
            return status
        print("it was a quorum queue before its home was killed: all over again", flush=True)
    print(f"so {TRIES} times: give it more messages")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
