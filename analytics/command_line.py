"""What `leveret-analytics` can be asked on the command line: its options and its commands, in the order of its help."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from analytics.follow.follow_command import add_follow
from analytics.jobs import questions
from analytics.jobs.answer import ROWS_SHOWN
from analytics.jobs.duplicates import WITHIN_S
from analytics.jobs.figures import second_of
from analytics.spark.session import EXTRA, LOCAL, WORKER_PYTHON

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

About = Callable[
    [str, str], argparse.ArgumentParser
]  # adds a command about one queue or all, of this name with this help

DESCRIPTION = "`leveret-analytics`: questions about what became of messages, answered from the logs of nodes."
QUEUE_HELP = "its name, with or without the virtual host and a slash before it"
PLACE_HELP = "a sequence of a classic queue, an entry of a quorum queue, or POS/OFF/NTH as `lives` says it"
TIME_HELP = "ISO, UTC if it names no zone; 03:00 of today; or =-2h before now; in the past"


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser("leveret-analytics", description=f"{DESCRIPTION} Needs the extra: {EXTRA}")
    _add_options(made)
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
    named = argparse.ArgumentParser(add_help=False)
    named.add_argument("queue", metavar="QUEUE", nargs="?", help=f"{QUEUE_HELP}; without it: all queues")

    def about(name: str, help_: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, parents=[named], help=help_)

    _add_counts(about)
    _add_messages(commands)
    _add_clients(commands, about)
    add_follow(commands)
    _add_wholes(commands, about)
    return made


def _add_options(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "--data",
        action="append",
        required=True,
        metavar="PATH",
        help="a data directory, or a directory with one for each node",
    )
    made.add_argument("--master", default=LOCAL, metavar="URL", help="of Spark; default %(default)s: in this process")
    made.add_argument(
        "--wheel",
        type=Path,
        metavar="FILE",
        help=f"of Leveret: sent to workers of a cluster, which need not have it then; their Python is {WORKER_PYTHON}",
    )
    made.add_argument("--json", action="store_true", help="one JSON object with coverage and rows")
    made.add_argument(
        "--limit", type=positive, default=ROWS_SHOWN, metavar="N", help="so many rows at most; default %(default)s"
    )
    made.add_argument(
        "--tail",
        action="store_true",
        help="read what is written and not known to be durable, too: the last commit of a node that was killed or runs",
    )


def _add_counts(about: About) -> None:
    """What became of messages, added up."""
    about("queues", "how many messages of each queue came to what")
    about("proof", "whether every message is accounted for; ends with 65 if some are missing, 75 if that is not known")
    about("dead", "what died in its queue, why, and who had it last")
    about("dropped", "what was too old or too much for its queue, by publisher")
    about("redelivered", "what came back to its queue, why, and who had it")
    twice = about("duplicates", "what came to a queue more than once, by the ids of messages, else by their bodies")
    twice.add_argument(
        "--within", type=positive, default=WITHIN_S, metavar="SECONDS", help="after the one before; default %(default)s"
    )
    latency = about("latency", "how long messages waited, and how long they were held")
    latency.add_argument(
        "--by", type=groups, default=("queue",), metavar="GROUPS", help=f"some of {','.join(questions.GROUPS)}"
    )


def _add_messages(commands: Commands) -> None:
    """Single messages, and who had them."""
    past = commands.add_parser("queue", help="a queue at a past second; needs neither Spark nor Java")
    past.add_argument("queue", metavar="QUEUE", help=QUEUE_HELP)
    past.add_argument("--at", type=past_second, required=True, metavar="TIME", help=TIME_HELP)
    lives = commands.add_parser("lives", help="what became of the messages of one queue")
    lives.add_argument("queue", metavar="QUEUE", help=QUEUE_HELP)
    lives.add_argument(
        "--position", type=int, metavar="N", help="the message at this sequence, or of this entry of its log"
    )
    lives.add_argument(
        "--state", metavar="STATE", help="ready, out, acked, rejected, expired, maxlen, purged, kept, cut, ..."
    )
    life = commands.add_parser(
        "life", help="the life of one message, from queue to queue; needs neither Spark nor Java"
    )
    one = life.add_mutually_exclusive_group(required=True)
    one.add_argument("--message-id", metavar="ID", help="the messages whose publisher gave them this id")
    one.add_argument(
        "--correlation-id", metavar="ID", help="the messages that belong to this request, as its client said"
    )
    one.add_argument("--at", nargs=2, metavar=("QUEUE", "POS"), help=PLACE_HELP)
    one.add_argument(
        "--header", type=header, metavar="NAME=VALUE", help="the messages with this header, a text or a whole number"
    )
    one.add_argument("--body-holds", metavar="TEXT", help="the messages with this text in their bodies")


def _add_clients(commands: Commands, about: About) -> None:
    """What clients did that is in no queue's log."""
    audit = commands.add_parser(
        "audit",
        help="who declared, deleted or changed what, and what was refused; needs neither Spark nor Java; ends with 75 if some "
        "is missing",
    )
    audit.add_argument("--user", metavar="NAME", help="what this user's clients have asked for")
    audit.add_argument("--about", metavar="TEXT", default="", help="commands with this text, as DeleteQueue or a name")
    audit.add_argument("--since", type=past_second, metavar="TIME", help=TIME_HELP)
    about(
        "streams",
        "what was published to streams, and how far behind readers are: those that store offsets and, where history.level is "
        "full, all; needs neither Spark nor Java",
    )
    unroutable = commands.add_parser(
        "unroutable",
        help="what reached no queue, by exchange and publisher, where history.level was full; needs neither Spark nor Java",
    )
    unroutable.add_argument(
        "--exchange", metavar="NAME", help="what was published to this one; '' is the default exchange"
    )
    unroutable.add_argument(
        "--all",
        action="store_true",
        help="also what is in no log though it was in a queue, or given to a consumer at once",
    )


def _add_wholes(commands: Commands, about: About) -> None:
    """Whole logs: as tables, over time, and copy beside copy."""
    convert = commands.add_parser("convert", help="the tables as Parquet; again: what has come since")
    convert.add_argument("directory", metavar="DIR", help="where they are, or are to be")
    hot = about("hot", "what was published: how much, what share, and the busiest second; the most first")
    hot.add_argument(
        "--by", type=hot_groups, default=("queue",), metavar="GROUPS", help=f"some of {','.join(questions.HOT_GROUPS)}"
    )
    about("terms", "who led a quorum queue or stream when, and what later leaders have replaced")
    about("compare", "copies of the log of a quorum queue or stream on several nodes; ends with 65 if they differ")
    commands.add_parser(
        "shell",
        help="several questions, line by line, in one session; where nobody types them it ends with the worst of their codes, "
        "64 if one could not be answered",
    )
    report = about("report", "the answers of all these questions, and what came and went over time, as one HTML page")
    report.add_argument("--html", metavar="FILE", required=True, help="the file to write")
    sql = commands.add_parser(
        "sql", help="a question in SQL over the tables of docs/history.md, as `lives` and `publishes`"
    )
    sql.add_argument("query", metavar="SELECT")


def past_second(text: str) -> int:
    try:
        return second_of(text, datetime.now(UTC))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no time: {TIME_HELP}") from error


def positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return int(text)


def header(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is no header: write NAME=VALUE")
    return name, value


def groups(text: str, known: tuple[str, ...] = questions.GROUPS) -> tuple[str, ...]:
    asked = tuple(text.split(","))
    if not set(asked) <= set(known):
        raise argparse.ArgumentTypeError(f"{text!r} are no groups: give some of {','.join(known)}")
    return asked


def hot_groups(text: str) -> tuple[str, ...]:
    return groups(text, questions.HOT_GROUPS)
