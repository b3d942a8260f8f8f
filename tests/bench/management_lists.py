"""How quick the lists of the management API are with very many queues, and what they do to the node's other clients.

    python -m tests.bench.management_lists [--queues 10000] [--only TEXT]

Each page is asked for several times, one after the other, while a publisher with confirms runs beside it. Given are the median
of its time, the mean of the node's processor time, and the longest turn of the event loop with the processor time that it took.
Ends with 1 when a page takes longer than its bar or a turn more than TURN_MS_MAX of processor time.
"""

from __future__ import annotations

import argparse
import base64
import posixpath
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pamqp import commands

from tests.bench.client import Client
from tests.bench.stall import turns_between
from tests.bench.steady_publisher import SteadyPublisher
from tests.bench.weighing import idle_cpu_share, settled_resident_bytes
from tests.running_node import RunningNode, start_node

PAGE_MS_MAX = {10_000: 50.0, 100_000: 300.0}
TURN_MS_MAX = 20.0
TIMES = 9
DECLARED_AT_ONCE = 1_000
BUSY_QUEUES = 500  # that hold messages, so that there is something to sort by
PAGE = "queues?page=1&page_size=100"
PATHS = {
    "first page": PAGE,
    "last page": "queues?page={last}&page_size=100",
    "by messages": f"{PAGE}&sort=messages&sort_reverse=true",
    "by publish rate": f"{PAGE}&sort=message_stats.publish_details.rate&sort_reverse=true",
    "by name": f"{PAGE}&sort=name&sort_reverse=true",
    "part of a name": f"{PAGE}&name=lists.99",
    "regular expression": f"{PAGE}&name=9$&use_regex=true&sort=messages",
    "all, three columns": "queues?columns=vhost,name,messages",
    "overview": "overview",
    "vhosts": "vhosts",
    "metrics": "../metrics",
    "metrics of objects": "../metrics/per-object",
}
ONE_PAGE = (
    "first page",
    "last page",
    "by messages",
    "by publish rate",
    "by name",
    "part of a name",
    "regular expression",
)


@dataclass(slots=True)
class Listed:
    what: str
    ms: float
    processor_ms: float
    turn_ms: float
    turn_processor_ms: float
    culprit: str


def declare(node: RunningNode, count: int) -> None:
    client = Client(*node.amqp)
    for number in range(count):
        client.send_method(1, commands.Queue.Declare(queue=f"lists.{number:06}", durable=True, nowait=True))
        if number % DECLARED_AT_ONCE == 0:
            client.declare_queue("lists.end")
    client.declare_queue("lists.end")
    units = [
        client.publish_unit("", f"lists.{number:06}", 10) for number in range(0, count, max(1, count // BUSY_QUEUES))
    ]
    client.publish(units, 5 * len(units), 1_000)
    client.abort()


def asker(node: RunningNode) -> Callable[[str], None]:
    """Reads the answer, whatever it is."""
    login = "Basic " + base64.b64encode(b"guest:guest").decode()

    def ask(path: str) -> None:
        url = f"http://{node.http[0]}:{node.http[1]}" + posixpath.normpath(f"/api/{path}")
        with urllib.request.urlopen(urllib.request.Request(url, headers={"Authorization": login})) as response:
            response.read()

    return ask


def measured(what: str, node: RunningNode, path: str, turns: Path) -> Listed:
    ask = asker(node)
    begin, times, processor = time.time(), [], []
    for _ in range(TIMES):
        at, used = time.perf_counter(), node.cpu_seconds()
        ask(path)
        times.append((time.perf_counter() - at) * 1_000)
        processor.append((node.cpu_seconds() - used) * 1_000)
    slow = turns_between(turns, begin, time.time())
    longest = max(slow, key=lambda one: one["processor_seconds"], default={})
    return Listed(
        what,
        statistics.median(times),
        statistics.mean(processor),
        max((one["seconds"] * 1_000 for one in slow), default=0.0),
        longest.get("processor_seconds", 0.0) * 1_000,
        longest.get("callers", ""),
    )


def measured_all(node: RunningNode, queues: int, only: str, turns: Path) -> bool:
    """Whether all bars are met."""
    is_met = True
    print(f"{'list':20} {'ms':>7} {'cpu ms':>7} {'turn ms':>8} {'cpu ms':>7}  culprit", flush=True)
    for what, path in PATHS.items():
        if only not in what:
            continue
        one = measured(what, node, path.format(last=queues // 100), turns)
        figures = f"{one.ms:7.1f} {one.processor_ms:7.1f} {one.turn_ms:8.1f} {one.turn_processor_ms:7.1f}"
        print(f"{what:20} {figures}  {one.culprit}", flush=True)
        is_quick = what not in ONE_PAGE or one.ms <= PAGE_MS_MAX.get(queues, float("inf"))
        is_met &= is_quick and one.turn_processor_ms <= TURN_MS_MAX
    return is_met


def show_idle(node: RunningNode, queues: int, turns: Path) -> None:
    """It samples meanwhile."""
    memory, begin = settled_resident_bytes(node), time.time()
    share = idle_cpu_share(node)
    slow = max((one["processor_seconds"] for one in turns_between(turns, begin, time.time())), default=0.0)
    print(f"{queues} queues: {memory / 1e6:.0f} MB; idle {share:.1%} of a core, turns of {slow * 1_000:.1f} ms at most")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queues", type=int, default=10_000)
    parser.add_argument("--only", default="", help="lists whose names contain this text")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="leveret-lists-") as scratch:
        turns = Path(scratch) / "turns"
        environment = {"STALL_TURNS": str(turns)}
        node = start_node(Path(scratch) / "data", environment=environment, module="tests.bench.watched_node")
        try:
            declare(node, options.queues)
            show_idle(node, options.queues, turns)
            beside = SteadyPublisher((*node.amqp, "/"))
            beside.start()
            try:
                return int(not measured_all(node, options.queues, options.only, turns))
            finally:
                beside.stop()
        finally:
            node.stop()


if __name__ == "__main__":
    sys.exit(main())
