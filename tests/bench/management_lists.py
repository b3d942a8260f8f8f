"""How quick the lists of the management API are with very many queues, and what they do to the node's other clients.

    python -m tests.bench.management_lists [--queues 10000] [--only REGEX] [--away classic|quorum]

Each page is asked for several times, one after the other, while a publisher with confirms runs beside it. Given are the median
of its time, the mean of the node's processor time, and the longest turn of the event loop with the processor time that it took.
Pages are sorted by each column by which the management page offers to sort. With `--away` there are three nodes: classic queues
live on the first of them, quorum queues are spread, and the second one is asked; turns are the longest of any node. Ends with 1
when a page takes longer than its bar or a turn more than TURN_MS_MAX of processor time.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import posixpath
import re
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pamqp import commands

from tests.bench.client import Client
from tests.bench.quorum_scale import NODES, process_cluster
from tests.bench.stall import turns_between
from tests.bench.steady_publisher import SteadyPublisher
from tests.bench.weighing import idle_cpu_share, settled_resident_bytes
from tests.running_node import ROOT, RunningNode, start_node

PAGE_MS_MAX = {10_000: 50.0, 100_000: 300.0}
TURN_MS_MAX = 20.0
TIMES = 9
DECLARED_AT_ONCE = 1_000
BUSY_QUEUES = 500  # that hold messages, so that there is something to sort by
PAGE = "queues?page=1&page_size=100"
QUEUES_VIEW = ROOT / "front/web/page/views/queues.js"
WATCHED = "tests.bench.watched_node"
BEGUN_AT = time.perf_counter()


def sorted_pages() -> dict[str, str]:
    """By each column by which the management page offers to sort queues."""
    columns = re.findall(r'\bsort: "([^"]+)"', QUEUES_VIEW.read_text())
    return {f"by {column}": f"{PAGE}&sort={column}&sort_reverse=true" for column in columns}


PAGES = {
    "first page": PAGE,
    "last page": "queues?page={last}&page_size=100",
    **sorted_pages(),
    "part of a name": f"{PAGE}&name=lists.99",
    "regular expression": f"{PAGE}&name=9$&use_regex=true&sort=messages",
}
PATHS = {
    **PAGES,
    "all, three columns": "queues?columns=vhost,name,messages",
    "overview": "overview",
    "vhosts": "vhosts",
    "metrics": "../metrics",
    "metrics of objects": "../metrics/per-object",
}


@dataclass(slots=True)
class Listed:
    what: str
    ms: float
    processor_ms: float
    turn_ms: float
    turn_processor_ms: float
    culprit: str


@dataclass(slots=True)
class Place:
    """Where queues are, and who is asked."""

    nodes: list[RunningNode]
    turns: list[Path]  # of each node
    asked: RunningNode

    def cpu_seconds(self) -> float:
        return sum(node.cpu_seconds() for node in self.nodes)

    def turns_between(self, begin: float, end: float) -> list[dict[str, Any]]:
        return [turn for turns in self.turns for turn in turns_between(turns, begin, end)]


def declare(node: RunningNode, count: int, kind: str) -> None:
    client = Client(*node.amqp)
    arguments = {"x-queue-type": kind}
    for number in range(count):
        client.send_method(
            1, commands.Queue.Declare(queue=f"lists.{number:06}", durable=True, nowait=True, arguments=arguments)
        )
        if number % DECLARED_AT_ONCE == 0:
            client.declare_queue("lists.end")
    client.declare_queue("lists.end")
    units = [
        client.publish_unit("", f"lists.{number:06}", 10) for number in range(0, count, max(1, count // BUSY_QUEUES))
    ]
    client.publish(units, 5 * len(units), 1_000)
    client.abort()


def say(what: str) -> None:
    """Beside the figures: what takes a while before the first of them."""
    print(f"{time.perf_counter() - BEGUN_AT:6.1f} s  {what}", file=sys.stderr, flush=True)


def asker(node: RunningNode) -> Callable[[str], None]:
    """Reads the answer, whatever it is."""
    login = "Basic " + base64.b64encode(b"guest:guest").decode()

    def ask(path: str) -> None:
        url = f"http://{node.http[0]}:{node.http[1]}" + posixpath.normpath(f"/api/{path}")
        with urllib.request.urlopen(urllib.request.Request(url, headers={"Authorization": login})) as response:
            response.read()

    return ask


def measured(what: str, place: Place, path: str) -> Listed:
    ask = asker(place.asked)
    begin, times, processor = time.time(), [], []
    for _ in range(TIMES):
        at, used = time.perf_counter(), place.cpu_seconds()
        ask(path)
        times.append((time.perf_counter() - at) * 1_000)
        processor.append((place.cpu_seconds() - used) * 1_000)
    slow = place.turns_between(begin, time.time())
    longest = max(slow, key=lambda one: one["processor_seconds"], default={})
    return Listed(
        what,
        statistics.median(times),
        statistics.mean(processor),
        max((one["seconds"] * 1_000 for one in slow), default=0.0),
        longest.get("processor_seconds", 0.0) * 1_000,
        longest.get("callers", ""),
    )


def measured_all(place: Place, queues: int, only: str) -> bool:
    """Whether all bars are met."""
    is_met = True
    print(f"{'list':44} {'ms':>7} {'cpu ms':>7} {'turn ms':>8} {'cpu ms':>7}  culprit", flush=True)
    for what, path in PATHS.items():
        if not re.search(only, what):
            continue
        one = measured(what, place, path.format(last=queues // 100))
        figures = f"{one.ms:7.1f} {one.processor_ms:7.1f} {one.turn_ms:8.1f} {one.turn_processor_ms:7.1f}"
        print(f"{what:44} {figures}  {one.culprit}", flush=True)
        is_quick = what not in PAGES or one.ms <= page_ms_max(queues)
        is_met &= is_quick and one.turn_processor_ms <= TURN_MS_MAX
    return is_met


def page_ms_max(queues: int) -> float:
    return PAGE_MS_MAX.get(queues, PAGE_MS_MAX[100_000])


def show_idle(place: Place, queues: int) -> None:
    """They sample meanwhile."""
    memory, begin = max(map(settled_resident_bytes, place.nodes)), time.time()
    share = idle_cpu_share(*place.nodes)
    slow = max((one["processor_seconds"] for one in place.turns_between(begin, time.time())), default=0.0)
    print(f"{queues} queues: {memory / 1e6:.0f} MB; idle {share:.1%} of a core, turns of {slow * 1_000:.1f} ms at most")


@contextlib.contextmanager
def one_node(scratch: Path) -> Iterator[Place]:
    turns = scratch / "turns"
    node = start_node(scratch / "data", environment={"STALL_TURNS": str(turns)}, module=WATCHED)
    try:
        yield Place([node], [turns], node)
    finally:
        node.stop()


@contextlib.contextmanager
def three_nodes(scratch: Path) -> Iterator[Place]:
    turns = [scratch / f"turns-{number}" for number in range(NODES)]
    environments = [{"STALL_TURNS": str(one)} for one in turns]
    with process_cluster(scratch, WATCHED, environments) as cluster:
        yield Place(cluster.nodes, turns, cluster[1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queues", type=int, default=10_000)
    parser.add_argument("--only", default="", help="lists whose names match this regular expression")
    parser.add_argument("--away", choices=("classic", "quorum"), help="of three nodes, and queues of this type")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="leveret-lists-") as scratch,
        (three_nodes if options.away else one_node)(Path(scratch)) as place,
    ):
        say(f"{len(place.nodes)} nodes are ready; {options.queues} queues are declared")
        declare(place.nodes[0], options.queues, options.away or "classic")
        say("declared; until the memory of all nodes has settled")
        show_idle(place, options.queues)
        say("lists are asked for")
        beside = SteadyPublisher((*place.asked.amqp, "/"))
        beside.start()
        try:
            return int(not measured_all(place, options.queues, options.only))
        finally:
            beside.stop()


if __name__ == "__main__":
    sys.exit(main())
