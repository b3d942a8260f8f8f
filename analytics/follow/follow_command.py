"""`leveret-analytics follow`: its options, and what it does without Spark; `--into` is analytics/parquet/follow_query.py."""

from __future__ import annotations

import argparse
import time
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING

from analytics.follow.queue_rates import RATE_COLUMNS, QueueRates
from analytics.inputs import LogFile, log_files
from analytics.jobs.answer import EXIT_HOLDS, EXIT_UNKNOWN, JobAnswer
from analytics.show import show_now

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

EVERY_MIN_S, EVERY_MAX_S = 0.1, 3_600.0


def add_follow(commands: Commands) -> None:
    made = commands.add_parser(
        "follow",
        help="what comes to queues and leaves them now, from the logs of running nodes; needs neither Spark nor Java unless "
        "--into is given",
    )
    made.add_argument(
        "--every", type=interval, default=1.0, metavar="SECONDS", help="from one look to the next; default %(default)s"
    )
    made.add_argument("--times", type=int, metavar="N", help="end after so many; without it: when interrupted")
    made.add_argument(
        "--into",
        metavar="DIR",
        help="write all that the logs have, and go on to have, to the tables of `convert`; again: goes on where it was",
    )


def interval(text: str) -> float:
    with suppress(ValueError):
        if EVERY_MIN_S <= (seconds := float(text)) <= EVERY_MAX_S:
            return seconds
    raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from {EVERY_MIN_S:g} to {EVERY_MAX_S:g}")


def follow(options: argparse.Namespace, files: list[LogFile]) -> int:
    rates = QueueRates(time.monotonic)
    rates.look(files)
    with suppress(KeyboardInterrupt):
        for _ in count() if options.times is None else range(options.times):
            time.sleep(options.every)
            rows = [rate._asdict() for rate in rates.look(log_files(options.data))]
            at = datetime.now(UTC).isoformat(timespec="milliseconds")
            show_now(at, JobAnswer(RATE_COLUMNS, rows), rates.missed, rates.damaged, as_json=options.json)
    return EXIT_UNKNOWN if rates.missed or rates.damaged else EXIT_HOLDS
