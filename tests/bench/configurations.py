"""This tree with one configuration beside this tree with another: what does an option cost?

    python -m tests.bench.configurations --a TOML [--b TOML] [--set SET] [--rounds N] [--only TEXT] [--at-least 0.98]

TOML is a line of a configuration file and may be given again: --a 'history.level = "full"' --b 'history.level = "off"'.
Without --b the other side has the default configuration. Nodes of both run side by side and take turns, as in
tests/bench/commits.py; a ratio above 1 means that A is ahead. Ends with 1 if a row of A is below. The ratio of processor
times is told beside it: it counts the same work in fewer pairs, for it knows nothing of the disk.
"""

from __future__ import annotations

import argparse
import sys

from tests.bench.brokers import running_broker
from tests.bench.commits import add_options, judged, side_by_side

AT_LEAST = 0.98


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.configurations",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--a", action="append", required=True, metavar="TOML")
    parser.add_argument("--b", action="append", default=[], metavar="TOML")
    add_options(parser, AT_LEAST)
    options = parser.parse_args()
    settings_a, settings_b = "\n".join(options.a), "\n".join(options.b)
    with (
        running_broker(options.set, settings=settings_a) as a,
        running_broker(options.set, settings=settings_b) as b,
    ):
        results = side_by_side(a, b, options)
    return judged(results, options.at_least)


if __name__ == "__main__":
    sys.exit(main())
