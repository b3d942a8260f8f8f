"""What `history.level` and an archive cost a broker: nodes of all levels side by side, in turn, on connections that stay.

    python -m tests.bench.history_price --file FILE [--kind classic|quorum] [--nodes 1|3] [--seconds 140] [--portion 0.1]
                                        [--levels off,control,basic,full,archive] [--only TEXT]
    python -m tests.bench.history_price --file FILE --tell

A node, or a cluster of three, is started for each level, and for `off` a second time as the control. Each round gives each of
them, in another order, the same portion of a row, `--portion` seconds of it. Rounds of all rows go on in turn until `--seconds`
are over, and are added to FILE: a node has a speed of its own since its start, by a hundredth or two, so ask several times and
let FILE have the rounds of five starts or more. What FILE says of this kind and number of nodes is told at the end, and alone
with --tell.

A cell is the median of the ratios of the rounds, below 1 is slower than `off` (archive: than `basic`); in brackets an interval
of 95 % for it, by drawing starts and their rounds again, and the lowest and highest median of a start. `rate` is of messages,
`cpu` of the processor time of all nodes by message, with a tenth of a second behind a portion in which the log is told of it;
`cpu, sum` is of all rounds together, which has what few rounds have, as the end of a file. TMPDIR=/dev/shm has nodes work in
memory: what a disk takes differs by a third from portion to portion, and hides what a level takes.

Rows `in step` have a node do the same for each portion, so they differ least. Ends with 1 where a row is surely over its bar:
its interval below 0.98 (basic), 0.97 (full) or 0.99 (archive), and the control's is not.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.bench.brokers import Broker, running_broker
from tests.bench.price_table import BESIDE, Round, markdown, over, prices
from tests.bench.staying_load import ROWS, StayingLoad, StayingRow, count_of, staying_loads
from tests.bench.workloads import ONE_NODE_SET, QUORUM_SET

SETTINGS = {
    "off": 'history.level = "off"',
    "control": 'history.level = "off"',
    "basic": 'history.level = "basic"',
    "full": 'history.level = "full"',
    "archive": 'history.level = "basic"\narchive.hours = 1',
}
DRAWS_SEED = 1


@contextmanager
def running_levels(levels: list[str], nodes: int, chance: random.Random) -> Iterator[dict[str, Broker]]:
    """A broker for each, started in any order. Their Pythons hash alike, so that no level has a better layout by that."""
    os.environ["PYTHONHASHSEED"] = str(chance.randrange(1, 1 << 32))
    which = ONE_NODE_SET if nodes == 1 else QUORUM_SET
    with ExitStack() as open_until:
        started = {
            level: open_until.enter_context(running_broker(which, settings=SETTINGS[level]))
            for level in chance.sample(levels, len(levels))
        }
        yield {level: started[level] for level in levels}


class Rounds:
    """Rows in turn, each on all brokers."""

    def __init__(self, brokers: dict[str, Broker], kind: str, portion_s: float, chance: random.Random) -> None:
        self._brokers, self._kind, self._portion_s, self._chance = brokers, kind, portion_s, chance
        self._start = f"{time.time_ns()}"
        self._turn = 0

    def some(self, row: StayingRow, until: float) -> Iterator[Round]:
        """None behind that moment."""
        self._turn += 1
        name = f"price.{self._turn}"
        with staying_loads(row, self._brokers, name, self._kind) as loads:
            count = count_of(next(iter(loads.values())), self._portion_s)
            for load in loads.values():
                load.portion(count)  # each has worked before anything counts
            while time.monotonic() < until:
                yield Round(row.name, self._start, self._round(loads, count))

    def _round(self, loads: dict[str, StayingLoad], count: int) -> dict[str, dict[str, float]]:
        """In any order. The processor time of a portion is read once others have had their turn: by then its node has told
        its log of it, and nobody has waited for that."""
        order = self._chance.sample(list(loads), len(loads))
        figures = {level: loads[level].portion(count) for level in order}
        return {level: figures[level] | {"cpu": loads[level].processor_seconds()} for level in order}


def measure(options: argparse.Namespace) -> None:
    chance, until = random.Random(), time.monotonic() + options.seconds
    rows = [row for row in ROWS if options.only in row.name]
    with running_levels(options.levels, options.nodes, chance) as brokers, options.file.open("a") as file:
        all_rounds = Rounds(brokers, options.kind, options.portion, chance)
        for done, row in enumerate(rows):
            now = time.monotonic()
            for one in all_rounds.some(row, now + (until - now) / (len(rows) - done)):
                file.write(json.dumps({"kind": options.kind, "nodes": options.nodes, **one._asdict()}) + "\n")


def rounds_of(file: Path, kind: str, nodes: int) -> list[Round]:
    said = [json.loads(line) for line in file.read_text().splitlines()]
    return [
        Round(one["row"], one["start"], one["levels"]) for one in said if (one["kind"], one["nodes"]) == (kind, nodes)
    ]


def told(options: argparse.Namespace) -> int:
    found = list(prices(rounds_of(options.file, options.kind, options.nodes), random.Random(DRAWS_SEED)))
    print("\n".join(markdown(found)))
    bad = over(found)
    for one in bad:
        print(f"over its bar: {one.row}, {one.level} by {one.figure}: {one.ratio:.3f}", file=sys.stderr)
    return 1 if bad else 0


def levels(text: str) -> list[str]:
    asked = text.split(",")
    unknown = [one for one in asked if one not in SETTINGS]
    if unknown:
        raise argparse.ArgumentTypeError(f"not a level: {', '.join(unknown)}")
    return asked


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.history_price",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--file", type=Path, required=True, help="rounds are added to it, a JSON object a line")
    parser.add_argument("--kind", choices=["classic", "quorum"], default="classic")
    parser.add_argument("--nodes", type=int, choices=[1, 3], default=1)
    parser.add_argument("--seconds", type=float, default=140, help="with starts of nodes")
    parser.add_argument("--portion", type=float, default=0.1, help="seconds")
    parser.add_argument("--levels", type=levels, default=["off", *BESIDE])
    parser.add_argument("--only", default="", help="rows whose name holds this text")
    parser.add_argument("--tell", action="store_true", help="measure nothing")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # nodes that were started are stopped
    if not options.tell:
        measure(options)
    return told(options)


if __name__ == "__main__":
    sys.exit(main())
