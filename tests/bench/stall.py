"""What heavy works of one client do to all others: the longest turn of the event loop, and a publisher beside them.

    python -m tests.bench.stall [--only TEXT] [--scale 0.1]                  of a node that is started for it
    python -m tests.bench.stall --peer HOST:PORT --peer-http HOST:PORT       the publisher's figure, of another broker

The works are in tests/bench/heavy_works.py. A turn's length is given with the processor time that it took: on a machine that
does other things, too, the first is longer than the node is to blame for. Ends with 1 when a turn or the publisher is over the
bar. Another broker does each work in a virtual host of its own; what it does not do, or not in time, is told and passed over.
"""

from __future__ import annotations

import argparse
import base64
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from tests.bench.client import UnexpectedAnswer
from tests.bench.heavy_works import WORKS, Api, Place
from tests.bench.steady_publisher import SteadyPublisher
from tests.running_node import RunningNode, start_node

TURN_MS_MAX = 50.0
CONFIRM_MS_MAX = 60.0
PEER_VHOST = "stall"
API_S = 120  # to delete 10,000 queues
SETTLES_S = 1.0  # what a work has set off may go on behind its answer
LEVERETCTL = Path(sys.executable).parent / "leveretctl"


@dataclass(slots=True)
class Stall:
    """What one work did."""

    work: str
    seconds: float
    turn_ms: float | None  # None: of another broker nobody knows
    processor_ms: float | None
    culprit: str
    confirm_ms: float  # p99.9


def api_at(http: str) -> Api:
    def ask(method: str, path: str, what: Any = None) -> Any:
        body = None if what is None else json.dumps(what).encode()
        request = urllib.request.Request(f"http://{http}/api/{path}", data=body, method=method)
        request.add_header("Authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=API_S) as response:
            answer = response.read()
        return json.loads(answer) if answer else None

    return ask


def of_node(node: RunningNode) -> Place:
    def ctl(*what: str) -> None:
        command = [str(LEVERETCTL), "--node", f"{node.grpc[0]}:{node.grpc[1]}", *what]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def policy(name: str, pattern: str, definition: dict[str, Any] | None) -> None:
        ctl("policy", *(["set", name, pattern, json.dumps(definition)] if definition is not None else ["clear", name]))

    return Place((*node.amqp, "/"), api_at(f"{node.http[0]}:{node.http[1]}"), policy, lambda: ctl("queue", "list"))


@contextmanager
def of_peer(amqp: tuple[str, int], http: str) -> Iterator[Place]:
    api = api_at(http)

    def policy(name: str, pattern: str, definition: dict[str, Any] | None) -> None:
        what = None if definition is None else {"pattern": pattern, "definition": definition}
        api("DELETE" if definition is None else "PUT", f"policies/{PEER_VHOST}/{name}", what)

    api("PUT", f"vhosts/{PEER_VHOST}", {})
    try:
        api("PUT", f"permissions/{PEER_VHOST}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
        yield Place((*amqp, PEER_VHOST), api, policy, lambda: api("GET", f"queues/{PEER_VHOST}"))
    finally:
        api("DELETE", f"vhosts/{PEER_VHOST}")


@contextmanager
def place(options: argparse.Namespace, turns: Path) -> Iterator[Place]:
    if options.peer is not None:
        host, _, port = options.peer.rpartition(":")
        with of_peer((host, int(port)), options.peer_http) as found:
            yield found
        return
    with tempfile.TemporaryDirectory(prefix="leveret-stall-") as scratch:
        node = start_node(
            Path(scratch) / "data", environment={"STALL_TURNS": str(turns)}, module="tests.bench.watched_node"
        )
        try:
            yield of_node(node)
        finally:
            node.stop()


def turns_between(turns: Path, begin: float, end: float) -> list[dict[str, Any]]:
    if not turns.exists():
        return []
    found = [msgspec.json.decode(line) for line in turns.read_bytes().splitlines()]
    return [one for one in found if begin <= one["at"] <= end + one["seconds"]]


def measured(name: str, where: Place, scale: float, turns: Path, beside: SteadyPublisher, peer: bool) -> Stall:
    work = WORKS[name](where, scale)
    work.prepare()
    time.sleep(SETTLES_S)  # the machine comes to rest: what was prepared is not to be measured
    begin = time.time()
    work.do()
    took = time.time() - begin
    time.sleep(SETTLES_S)  # part of the measurement
    end = time.time()
    confirms = beside.between(begin, end)
    work.clean_up()
    slow = turns_between(turns, begin, end)
    longest = max(slow, key=lambda one: one["processor_seconds"], default=None)
    return Stall(
        name,
        took,
        None if peer else max((one["seconds"] * 1000 for one in slow), default=0.0),
        None if peer else max((one["processor_seconds"] * 1000 for one in slow), default=0.0),
        longest["callers"] if longest is not None else "",
        confirms[min(len(confirms) - 1, int(len(confirms) * 0.999))] * 1000,
    )


def shown(one: Stall) -> str:
    turn = "" if one.turn_ms is None else f"{one.turn_ms:7.0f} {one.processor_ms:7.0f}"
    return f"{one.work:28} {one.seconds:7.2f} {turn:15} {one.confirm_ms:9.1f}  {one.culprit}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="works whose names contain one of these texts, separated by commas")
    parser.add_argument("--scale", type=float, default=1.0, help="how much of the full counts")
    parser.add_argument("--peer", help="measure this broker instead")
    parser.add_argument("--peer-http", help="its management API")
    options = parser.parse_args()
    if (options.peer is None) != (options.peer_http is None):
        parser.error("--peer and --peer-http go together")
    print(f"{'work':28} {'seconds':>7} {'turn ms':>7} {'cpu ms':>7} {'p99.9 ms':>9}  culprit", flush=True)
    over = False
    for name in [name for name in WORKS if any(one in name for one in options.only.split(","))]:
        with tempfile.TemporaryDirectory() as scratch:
            turns = Path(scratch) / "turns"
            with place(options, turns) as where:
                beside = SteadyPublisher(where.address)
                beside.start()
                try:
                    one = measured(name, where, options.scale, turns, beside, options.peer is not None)
                except (AssertionError, EOFError, OSError, UnexpectedAnswer) as error:
                    if options.peer is None:
                        raise
                    print(f"{name:28} not done: {error}", flush=True)
                    continue
                finally:
                    beside.stop()
        print(shown(one), flush=True)
        over |= (one.turn_ms or 0.0) > TURN_MS_MAX or one.confirm_ms > CONFIRM_MS_MAX
    return int(over and options.peer is None)


if __name__ == "__main__":
    sys.exit(main())
