"""What open management pages and scrapes of metrics cost a publisher, in pairs.

    python -m tests.bench.open_pages [--pages 10] [--pairs 7] [--seconds 6] [--queues 1000]

Each pair is one stretch with the pages open and one without, in changing order, while a publisher with confirms works without a
pause. A page asks every 5 s for what its view asks for, as the page in a browser does; metrics are scraped every 5 s, too.
Samples are taken all the time. Behind that nobody publishes, and the processor time that the pages take is told: it is what
they cost a publisher who has the node to itself, and hardly varies, as rates on a disk do. Ends with 1 when the median pair
costs more than COST_MAX, or the pages take more of a core.
"""

from __future__ import annotations

import argparse
import base64
import statistics
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path

from pamqp import commands

from tests.bench.client import Client
from tests.running_node import RunningNode, start_node

COST_MAX = 0.03
EVERY_S = 5.0
QUEUE = "pages.beside"
LOGIN = "Basic " + base64.b64encode(b"guest:guest").decode()
WARM_UP_S = 2.0
ALONE_S = 15.0  # three rounds of the pages
# What the views of the page ask for in one round.
VIEWS = (
    ("overview", "nodes"),
    ("queues?page=1&page_size=50&sort=messages&sort_reverse=true", "vhosts?page=1&page_size=500&columns=name"),
    ("connections?page=1&page_size=50", "vhosts?page=1&page_size=500&columns=name"),
    (f"queues/%2F/{QUEUE}?lengths_age=600&lengths_incr=5&msg_rates_age=600&msg_rates_incr=5",),
    ("leveret/cluster", "nodes"),
    ("leveret/events?limit=200",),
)
SCRAPE = ("../metrics",)


def looking(node: RunningNode, asked: tuple[str, ...], offset_s: float, over: threading.Event) -> None:
    """One page, or one scraper."""
    wait_s = offset_s
    while not over.wait(wait_s):
        wait_s = EVERY_S
        for path in asked:
            url = f"http://{node.http[0]}:{node.http[1]}/api/{path}".replace("/api/../", "/")
            with urllib.request.urlopen(urllib.request.Request(url, headers={"Authorization": LOGIN})) as answer:
                answer.read()


@contextmanager
def open_pages(node: RunningNode, pages: int) -> Iterator[None]:
    """Spread over the 5 s, as they were opened at different moments."""
    over = threading.Event()
    asked = [*islice(cycle(VIEWS), pages), SCRAPE]
    threads = [
        threading.Thread(target=looking, args=(node, paths, EVERY_S * number / len(asked), over))
        for number, paths in enumerate(asked)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def published(client: Client, unit: bytes, seconds: float) -> float:
    """Confirmed messages a second, one after the other."""
    begin = time.perf_counter()
    count = 0
    while time.perf_counter() - begin < seconds:
        client.send(unit)
        client.receive_method(1, "Basic.Ack")
        count += 1
    return count / (time.perf_counter() - begin)


def cost_of_pair(node: RunningNode, client: Client, unit: bytes, pages: int, seconds: float, *, first: bool) -> float:
    """The part of the rate that the pages take."""
    rates: dict[bool, float] = {}
    for with_pages in (first, not first):
        if with_pages:
            with open_pages(node, pages):
                rates[True] = published(client, unit, seconds)
        else:
            rates[False] = published(client, unit, seconds)
    return 1 - rates[True] / rates[False]


def processor_share(node: RunningNode, seconds: float) -> float:
    """Of a core, by the node."""
    before, begin = node.cpu_seconds(), time.perf_counter()
    time.sleep(seconds)
    return (node.cpu_seconds() - before) / (time.perf_counter() - begin)


def pages_share(node: RunningNode, pages: int) -> float:
    """Of a core, by the pages, with nobody else at work."""
    alone = processor_share(node, ALONE_S)
    with open_pages(node, pages):
        return processor_share(node, ALONE_S) - alone


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pages", type=int, default=10)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument(
        "--seconds", type=float, default=6.0, help="of each half of a pair, one round of the pages at least"
    )
    parser.add_argument("--queues", type=int, default=1_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        node = start_node(Path(scratch) / "data")
        try:
            client = Client(*node.amqp)
            for number in range(given.queues):
                client.declare_queue(f"pages.{number}")
            client.declare_queue(QUEUE, arguments={"x-max-length": 1})
            client.call(1, commands.Confirm.Select(), "Confirm.SelectOk")
            unit = client.publish_unit("", QUEUE, 100)
            published(client, unit, WARM_UP_S)
            costs = []
            for number in range(given.pairs):
                cost = cost_of_pair(node, client, unit, given.pages, given.seconds, first=number % 2 == 0)
                costs.append(cost)
                print(f"pair {number + 1}: {given.pages} pages cost {cost:.1%}", flush=True)
            share = pages_share(node, given.pages)
        finally:
            node.stop()
    median = statistics.median(costs)
    print(f"median of {given.pairs} pairs: {median:.1%} (bar {COST_MAX:.0%})")
    print(f"with nobody at work {given.pages} pages take {share:.1%} of a core (bar {COST_MAX:.0%})")
    return int(max(median, share) > COST_MAX)


if __name__ == "__main__":
    sys.exit(main())
