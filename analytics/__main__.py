"""`leveret-analytics`: questions about what became of messages, answered from the logs of nodes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from copy import copy
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from analytics.audit.audit_trail import AUDIT_COLUMNS, AuditRow, trail
from analytics.audit.command_look import look_for_commands
from analytics.audit.command_results import catalog_starts
from analytics.file_window import coverage_of
from analytics.follow.follow_command import add_follow, follow
from analytics.inputs import LogFile, log_files, snapshot_files, without_bodies
from analytics.jobs import questions
from analytics.jobs.answer import EXIT_HOLDS, EXIT_MISSING, EXIT_UNKNOWN, JobAnswer, answer_of, worst
from analytics.jobs.duplicates import WITHIN_S
from analytics.jobs.figures import second_of
from analytics.jobs.proof import PROOF_COLUMNS, code_of
from analytics.jobs.raft_terms import TERM_COLUMNS
from analytics.life.life_story import story
from analytics.life.pursuit import pursue
from analytics.life.wanted import BodyText, HeaderValue, LookFor, TextProperty, at_place
from analytics.past.queue_at import QueueAt
from analytics.shell import lines_of_terminal, shell
from analytics.show import show
from analytics.spark.cluster_workers import check_workers
from analytics.spark.sent_wheel import sent
from analytics.spark.session import EXTRA, LOCAL, WORKER_PYTHON, NoSpark, is_cluster, spark_session
from analytics.streams.stream_copies import read_streams
from analytics.streams.stream_rows import STREAM_COLUMNS, stream_rows
from analytics.unroutable.count_look import look_for_counts
from analytics.unroutable.count_rows import COUNTED_COLUMNS, counted_rows, not_counted
from analytics.workers import Workers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EXIT_USAGE = 64
QUEUE_HELP = "its name, with or without the virtual host and a slash before it"
PLACE_HELP = "a sequence of a classic queue, an entry of a quorum queue, or POS/OFF/NTH as `lives` says it"
TIME_HELP = "ISO, UTC if it names no zone; 03:00 of today; or =-2h before now"


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    try:
        files = log_files(options.data)
        if not needs_spark(options):
            return WITHOUT_SPARK[options.command](options, files)
        with TemporaryDirectory(prefix="leveret-analytics-") as scratch:
            return on_spark(options, files, Path(scratch))
    except (NoSpark, OSError, ValueError) as error:
        print(f"leveret-analytics: {error}", file=sys.stderr)
        return EXIT_USAGE


def needs_spark(options: argparse.Namespace) -> bool:
    return options.command not in WITHOUT_SPARK or (options.command == "follow" and options.into is not None)


def on_spark(options: argparse.Namespace, files: list[LogFile], scratch: Path) -> int:
    """Raises NoSpark, OSError and ValueError."""
    if options.wheel is not None and not is_cluster(options.master):
        raise ValueError("--wheel is for workers of a cluster, and --master names none")
    more = {} if options.wheel is None else sent(options.wheel, scratch)
    spark = spark_session(options.master, more=more, log_bytes=sum(file.size for file in files))
    try:
        if is_cluster(options.master):
            check_workers(spark, files)
        if options.command == "follow":
            from analytics.parquet.follow_query import follow_into

            return follow_into(spark, options)
        return convert(spark, options, files) if options.command == "convert" else answer(spark, options, files)
    finally:
        spark.stop()


class JobQuestion:
    """One command, and the tables that it may look at."""

    def __init__(self, spark: SparkSession, options: argparse.Namespace, files: list[LogFile]) -> None:
        from analytics.spark import lives_table

        self.spark = spark
        self.options = options
        self.files = files
        self.found = lives_table.events(spark, options.data, tail=options.tail).persist()
        self.lives = lives_table.lives(self.found).persist()
        self.names = lives_table.queue_names(self.found)

    def of_queues(self) -> DataFrame:
        """The lives with name and kind of their queue, of the one that was asked for or of all."""
        from pyspark.sql import functions as f

        return self._asked_for(self.lives.join(f.broadcast(self.names), "queue", "left"))

    def numbers(self) -> set[int] | None:
        """Of the queues that were asked for; None: all were."""
        return None if self.options.queue is None else {row.queue for row in self.of_names().collect()}

    def of_names(self) -> DataFrame:
        """Number, kind and name of the queue that was asked for, or of all."""
        return self._asked_for(self.names)

    def _asked_for(self, named: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        queue = self.options.queue
        return named if queue is None else named.where((f.col("name") == queue) | f.col("name").endswith(f"/{queue}"))


def answer(spark: SparkSession, options: argparse.Namespace, files: list[LogFile]) -> int:
    asked = JobQuestion(spark, options, files)
    return several(asked) if options.command == "shell" else told(asked)


def several(asked: JobQuestion) -> int:
    """Questions line by line, until there are no more."""
    data = [word for path in asked.options.data for word in ("--data", path)]
    before = [*data, *(["--json"] if asked.options.json else []), *(["--tail"] if asked.options.tail else [])]

    def ask(words: list[str]) -> None:
        options = parser().parse_args([*before, *words])
        one = copy(asked)
        one.options = options
        if options.command in COMMANDS:
            told(one)
        elif not needs_spark(options):
            WITHOUT_SPARK[options.command](options, log_files(options.data))
        else:
            print(f"leveret-analytics: `{options.command}` is a command of its own", file=sys.stderr)

    shell(lines_of_terminal(), {*COMMANDS, *WITHOUT_SPARK, "convert", "shell"}, ask)
    return EXIT_HOLDS


def told(asked: JobQuestion) -> int:
    from analytics.spark.coverage_query import coverage

    options, files = asked.options, asked.files
    covered = coverage(asked.found, files)
    said = COMMANDS[options.command](asked)
    show(covered, said, as_json=options.json)
    lost = covered.is_damaged or bool(asked.lives.where("unknown is not null").limit(1).count())
    return worst([said.code, EXIT_UNKNOWN if lost else EXIT_HOLDS])


def sql(asked: JobQuestion) -> JobAnswer:
    from pyspark.errors import AnalysisException, ParseException

    from analytics.spark.sql_views import register_views

    options = asked.options
    register_views(asked.spark, asked.found, asked.lives, asked.names, options.data, tail=options.tail)
    try:
        return answer_of(asked.spark.sql(asked.options.query))
    except (AnalysisException, ParseException) as error:
        raise ValueError(str(error).strip().partition("\n")[0]) from error


def queues(asked: JobQuestion) -> JobAnswer:
    from pyspark.sql import functions as f

    counted = asked.of_queues().groupBy("name", "queue", "state")
    messages = f.sum("count").alias("messages")
    uncommitted = f.sum(f.when(f.col("committed").isNull(), f.col("count")).otherwise(0)).alias("maybe_uncommitted")
    why = f.first("unknown", ignorenulls=True).alias("unknown")
    return answer_of(counted.agg(messages, uncommitted, why).orderBy("name", "queue", "state"))


def lives(asked: JobQuestion) -> JobAnswer:
    from pyspark.sql import functions as f

    chosen, options = asked.of_queues(), asked.options
    if options.position is not None:
        place = f.col("pos") + f.when(f.col("off") == 0, f.col("nth")).otherwise(f.lit(0))
        chosen = chosen.where((place <= options.position) & (f.lit(options.position) < place + f.col("count")))
    if options.state is not None:
        chosen = chosen.where(f.col("state") == options.state)
    return answer_of(chosen.drop("kind").orderBy("pos", "off", "nth"))


def terms(asked: JobQuestion) -> JobAnswer:
    from analytics.spark.gather import terms as rows

    return JobAnswer(TERM_COLUMNS, [row._asdict() for row in rows(asked.found, asked.of_queues())])


def compare(asked: JobQuestion) -> JobAnswer:
    from analytics.spark.gather import differing

    said = answer_of(differing(asked.found, asked.of_names()))
    said.code = EXIT_MISSING if said.rows else EXIT_HOLDS
    return said


def report(asked: JobQuestion) -> JobAnswer:
    from analytics.report.page import page
    from analytics.report.report_figures import gathered
    from analytics.spark.coverage_query import coverage

    found = gathered(asked.spark, asked.of_queues(), asked.files, tail=asked.options.tail, asked_for=asked.numbers())
    made_at = datetime.now(UTC).isoformat(timespec="seconds")
    path = Path(asked.options.html)
    write_whole(path, page(coverage(asked.found, asked.files), found, made_at))
    code = worst([code_of(row) for row in found.proofs])
    return JobAnswer([("file", "string")], [{"file": str(path)}], code)


def write_whole(path: Path, text: str) -> None:
    """Or not at all, whatever ends this process."""
    beside = path.with_name(f".{path.name}.made")
    beside.write_text(text, encoding="utf-8", errors="backslashreplace")
    beside.replace(path)


def proof(asked: JobQuestion) -> JobAnswer:
    from analytics.spark.gather import proofs

    tail, asked_for = asked.options.tail, asked.numbers()
    rows = proofs(asked.spark, asked.of_queues(), asked.files, tail=tail, asked_for=asked_for)
    return JobAnswer(PROOF_COLUMNS, [row._asdict() for row in rows], worst([code_of(row) for row in rows]))


def duplicates(asked: JobQuestion) -> JobAnswer:
    from analytics.jobs.duplicates import duplicates as found
    from analytics.spark.message_source import messages

    withheld = without_bodies(asked.files)
    if withheld:
        raise ValueError(
            f"the export of {', '.join(withheld)} was made without the contents of messages, and all look alike"
        )
    read = messages(asked.spark, asked.options.data, tail=asked.options.tail)
    return answer_of(found(read, asked.of_queues(), asked.options.within))


def convert(spark: SparkSession, options: argparse.Namespace, files: list[LogFile]) -> int:
    from analytics.parquet import convert as conversion

    if options.tail:
        raise ValueError("--tail reads what may not stay in the log; a conversion takes what is durable only")
    snapshots = snapshot_files(options.data)
    covered, said = conversion.convert(spark, files, snapshots, Path(options.directory).resolve())
    show(covered, said, as_json=options.json)
    return EXIT_UNKNOWN if covered.is_damaged else EXIT_HOLDS


def life(options: argparse.Namespace, files: list[LogFile]) -> int:
    pursuit = pursue(files, snapshot_files(options.data), sought(options), tail=options.tail)
    said = story(pursuit)
    show(pursuit.coverage, said, as_json=options.json)
    covered = pursuit.coverage
    is_withheld = bool(covered.without_bodies) and options.at is None  # what is looked for may be in what is withheld
    return worst([said.code, EXIT_UNKNOWN if covered.is_damaged or is_withheld else EXIT_HOLDS])


def sought(options: argparse.Namespace) -> LookFor:
    """What `life` is asked for. Raises ValueError."""
    if options.at is not None:
        queue, place = options.at
        return LookFor(places=(at_place(queue, place),))
    for name in ("message_id", "correlation_id"):
        if (value := getattr(options, name)) is not None:
            return LookFor(sought=(TextProperty(name, value),))
    if options.header is not None:
        name, _, value = options.header.partition("=")
        return LookFor(sought=(HeaderValue(name, value),))
    return LookFor(sought=(BodyText(options.body_holds),))


def audit(options: argparse.Namespace, files: list[LogFile]) -> int:
    since = (
        None if options.since is None else datetime.fromtimestamp(options.since, UTC).isoformat(timespec="milliseconds")
    )

    def is_wanted(row: AuditRow) -> bool:
        is_theirs = options.user in (None, row.user)
        is_late = since is None or row.at is None or row.at >= since
        return is_theirs and is_late and options.about in f"{row.command} {row.what}"

    with Workers(files) as workers:
        seen = workers.each(partial(look_for_commands, tail=options.tail), files)
    found = trail(seen, is_wanted, catalog_starts(snapshot_files(options.data)))
    covered = coverage_of(files, seen)
    show(covered, JobAnswer(AUDIT_COLUMNS, [row._asdict() for row in found.rows]), as_json=options.json)
    for first, last in found.missing:
        print(f"entries {first} to {last} of the metadata log are in no file that was read", file=sys.stderr)
    return EXIT_UNKNOWN if found.missing or covered.is_damaged else EXIT_HOLDS


def streams(options: argparse.Namespace, files: list[LogFile]) -> int:
    with Workers(files) as workers:
        read = read_streams(files, workers.each, tail=options.tail)
    covered, asked = coverage_of(read.files, read.seen), options.queue
    rows = stream_rows(one for one in read.streams if asked in (None, one.name) or one.name.endswith(f"/{asked}"))
    show(covered, JobAnswer(STREAM_COLUMNS, [row._asdict() for row in rows]), as_json=options.json)
    return EXIT_UNKNOWN if covered.is_damaged or any(row.unknown for row in rows) else EXIT_HOLDS


def unroutable(options: argparse.Namespace, files: list[LogFile]) -> int:
    with Workers(files) as workers:
        seen = workers.each(partial(look_for_counts, tail=options.tail), files)
    covered, silent = coverage_of(files, seen), not_counted(seen)
    rows = [row for row in counted_rows(seen, all_of_them=options.all) if options.exchange in (None, row.exchange)]
    show(covered, JobAnswer(COUNTED_COLUMNS, [row._asdict() for row in rows]), as_json=options.json)
    for node, number, missing in silent:
        print(f"{node} did not count in {missing} of {number} files: history.level was not full", file=sys.stderr)
    return EXIT_UNKNOWN if silent or covered.is_damaged else EXIT_HOLDS


def queue(options: argparse.Namespace, files: list[LogFile]) -> int:
    asked = QueueAt(files, snapshot_files(options.data), options.queue, options.at, options.tail)
    said, covered = asked.answer()
    show(covered, said, as_json=options.json)
    if not said.rows:
        print(f"no file that was read names a queue {options.queue!r}", file=sys.stderr)
    return said.code


WITHOUT_SPARK: dict[str, Callable[[argparse.Namespace, list[LogFile]], int]] = {
    "life": life,
    "queue": queue,
    "audit": audit,
    "follow": follow,
    "streams": streams,
    "unroutable": unroutable,
}
COMMANDS: dict[str, Callable[[JobQuestion], JobAnswer]] = {
    "sql": sql,
    "queues": queues,
    "lives": lives,
    "proof": proof,
    "report": report,
    "terms": terms,
    "compare": compare,
    "hot": lambda asked: answer_of(questions.hot(asked.of_queues(), asked.options.by)),
    "dead": lambda asked: answer_of(questions.dead(asked.of_queues())),
    "duplicates": duplicates,
    "dropped": lambda asked: answer_of(questions.dropped(asked.of_queues())),
    "redelivered": lambda asked: answer_of(questions.redelivered(asked.of_queues())),
    "latency": lambda asked: answer_of(questions.latency(asked.of_queues(), asked.options.by)),
}


def past_second(text: str) -> int:
    return second_of(text, datetime.now(UTC))


def groups(text: str, known: tuple[str, ...] = questions.GROUPS) -> tuple[str, ...]:
    asked = tuple(text.split(","))
    if not set(asked) <= set(known):
        raise ValueError(text)
    return asked


def hot_groups(text: str) -> tuple[str, ...]:
    return groups(text, questions.HOT_GROUPS)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser("leveret-analytics", description=f"{__doc__} Needs the extra: {EXTRA}")
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
        "--tail",
        action="store_true",
        help="read what is written and not known to be durable, too: the last commit of a node that was killed or runs",
    )
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
    named = argparse.ArgumentParser(add_help=False)
    named.add_argument("queue", metavar="QUEUE", nargs="?", help=f"{QUEUE_HELP}; without it: all queues")

    def about(name: str, help_: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, parents=[named], help=help_)

    about("queues", "how many messages of each queue came to what")
    about("proof", "whether every message is accounted for; ends with 65 if some are missing, 75 if that is not known")
    about("dead", "what died in its queue, why, and who had it last")
    about("dropped", "what was too old or too much for its queue, by publisher")
    about("redelivered", "what came back to its queue, why, and who had it")
    twice = about("duplicates", "what came to a queue more than once, by the ids of messages, else by their bodies")
    twice.add_argument(
        "--within", type=int, default=WITHIN_S, metavar="SECONDS", help="after the one before; default %(default)s"
    )
    latency = about("latency", "how long messages waited, and how long they were held")
    latency.add_argument(
        "--by", type=groups, default=("queue",), metavar="GROUPS", help=f"some of {','.join(questions.GROUPS)}"
    )
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
    one.add_argument("--header", metavar="NAME=VALUE", help="the messages with this header, a text or a whole number")
    one.add_argument("--body-holds", metavar="TEXT", help="the messages with this text in their bodies")
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
    add_follow(commands)
    convert = commands.add_parser("convert", help="the tables as Parquet; again: what has come since")
    convert.add_argument("directory", metavar="DIR", help="where they are, or are to be")
    hot = about("hot", "what was published: how much, what share, and the busiest second; the most first")
    hot.add_argument(
        "--by", type=hot_groups, default=("queue",), metavar="GROUPS", help=f"some of {','.join(questions.HOT_GROUPS)}"
    )
    about("terms", "who led a quorum queue or stream when, and what later leaders have replaced")
    about("compare", "copies of the log of a quorum queue or stream on several nodes; ends with 65 if they differ")
    commands.add_parser("shell", help="several questions, line by line, in one session")
    report = about("report", "the answers of all these questions, and what came and went over time, as one HTML page")
    report.add_argument("--html", metavar="FILE", required=True, help="the file to write")
    sql = commands.add_parser(
        "sql", help="a question in SQL over the tables of docs/history.md, as `lives` and `publishes`"
    )
    sql.add_argument("query", metavar="SELECT")
    return made


if __name__ == "__main__":
    sys.exit(main())
