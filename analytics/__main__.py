"""`leveret-analytics`: questions about what became of messages, answered from the logs of nodes."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from copy import copy
from datetime import UTC, datetime
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from analytics.audit.audit_trail import AUDIT_COLUMNS, AuditRow, trail
from analytics.audit.command_look import look_for_commands
from analytics.audit.command_results import catalog_starts
from analytics.command_line import parser
from analytics.file_window import coverage_of, missing_files
from analytics.follow.follow_command import follow
from analytics.inputs import LogFile, check_copies, log_files, snapshot_files, without_bodies
from analytics.jobs import questions
from analytics.jobs.answer import EXIT_HOLDS, EXIT_MISSING, EXIT_UNKNOWN, EXIT_USAGE, JobAnswer, answer_of, worst
from analytics.jobs.asked_columns import asked_columns
from analytics.jobs.proof import PROOF_COLUMNS, code_of
from analytics.jobs.raft_terms import TERM_COLUMNS
from analytics.life.life_story import story
from analytics.life.pursuit import pursue
from analytics.life.wanted import BodyText, HeaderValue, LookFor, TextProperty, at_place
from analytics.past.queue_at import QueueAt
from analytics.queue_events import QUORUM, STREAM
from analytics.shell import is_typed, lines_of_terminal, shell
from analytics.show import ReaderGone, show
from analytics.spark.cluster_workers import check_workers
from analytics.spark.sent_wheel import sent
from analytics.spark.session import NoSpark, is_cluster, said_by, spark_session
from analytics.streams.stream_copies import read_streams
from analytics.streams.stream_rows import STREAM_COLUMNS, stream_rows
from analytics.unroutable.count_look import look_for_counts
from analytics.unroutable.count_rows import COUNTED_COLUMNS, counted_rows, not_counted
from analytics.workers import Workers
from storage.errors import DiskFailed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EXIT_UNREAD = 1


def main(arguments: Sequence[str] | None = None) -> int:
    write_nowhere_if_closed()
    options = parser().parse_args(arguments)
    print_any_name()
    try:
        files = log_files(options.data)
        check_copies(files)
        if not needs_spark(options):
            return WITHOUT_SPARK[options.command](options, files)
        with TemporaryDirectory(prefix="leveret-analytics-") as scratch:
            return on_spark(options, files, Path(scratch))
    except ReaderGone:
        return EXIT_UNREAD
    except (NoSpark, OSError, ValueError, DiskFailed) as error:  # the last: a file that must not or cannot be read
        print(f"leveret-analytics: {error}", file=sys.stderr)
        return EXIT_USAGE


def write_nowhere_if_closed() -> None:
    """Who has closed the output wants the exit code only. No file that is opened later is to have its number."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  # until the process ends


def print_any_name() -> None:
    """Names are any text, and a terminal or pipe may have few characters: what it has not is written as its number."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def needs_spark(options: argparse.Namespace) -> bool:
    return options.command not in WITHOUT_SPARK or (options.command == "follow" and options.into is not None)


def on_spark(options: argparse.Namespace, files: list[LogFile], scratch: Path) -> int:
    """Raises NoSpark, OSError and ValueError."""
    if options.wheel is not None and not is_cluster(options.master):
        raise ValueError("--wheel is for workers of a cluster, and --master names none")
    more = {} if options.wheel is None else sent(options.wheel, scratch)
    spark = spark_session(options.master, more=more, log_bytes=sum(file.size for file in files))
    from pyspark.errors import PySparkException  # it is there, or there was no session

    try:
        if is_cluster(options.master):
            check_workers(spark, files)
        if options.command == "follow":
            from analytics.parquet.follow_query import follow_into

            return follow_into(spark, options)
        return convert(spark, options, files) if options.command == "convert" else answer(spark, options, files)
    except PySparkException as error:
        raise NoSpark(said_by(error)) from error
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
        self.lives = lives_table.lives(self.found, asked_columns(options) or lives_table.COLUMNS).persist()
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

    def answer_of(self, table: DataFrame) -> JobAnswer:
        return answer_of(table, self.options.limit)

    def is_unknown(self) -> bool:
        """Whether something is of the queue that was asked for, or of any. What a classic queue had is not asked where copies
        of logs are: it has none. A number that no log names may be of any kind."""
        from pyspark.sql import functions as f

        lives = self.of_queues() if getattr(self.options, "queue", None) is not None else self.lives
        if self.options.command in OF_COPIES:
            lives = self.of_queues().where(f.coalesce("kind", f.lit(QUORUM)).isin(QUORUM, STREAM))
        return not lives.where("unknown is not null").isEmpty()

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
    before += ["--limit", str(asked.options.limit)]

    def ask(words: list[str]) -> int:
        options = parser().parse_args([*before, *words])
        one = copy(asked)
        one.options = options
        if options.command in COMMANDS:
            return told(one)
        if needs_spark(options):
            raise ValueError(f"`{options.command}` is a command of its own")
        return WITHOUT_SPARK[options.command](options, log_files(options.data))

    code = shell(lines_of_terminal(), {*COMMANDS, *WITHOUT_SPARK, "convert", "shell"}, ask)
    return EXIT_HOLDS if is_typed() else code


def told(asked: JobQuestion) -> int:
    from analytics.spark.coverage_query import coverage

    options, files = asked.options, asked.files
    covered = coverage(asked.found, files)
    said = said_to(asked)
    show(covered, said, as_json=options.json)
    gaps = covered.is_damaged if options.command in WITH_GAPS else covered.has_gaps
    return worst([said.code, EXIT_UNKNOWN if gaps or asked.is_unknown() else EXIT_HOLDS])


def said_to(asked: JobQuestion) -> JobAnswer:
    """That nothing is said of a queue that no log names is no word about it."""
    said = COMMANDS[asked.options.command](asked)
    queue = getattr(asked.options, "queue", None)
    if queue is not None and asked.of_names().isEmpty():
        say_unnamed(queue)
        said.code = worst([said.code, EXIT_UNKNOWN])
    return said


def say_unnamed(queue: str, kind: str = "queue") -> None:
    print(f"no file that was read names a {kind} {queue!r}", file=sys.stderr)


def sql(asked: JobQuestion) -> JobAnswer:
    from pyspark.errors import PySparkException

    from analytics.spark.sql_views import register_views

    options = asked.options
    register_views(asked.spark, asked.found, asked.lives, asked.names, options.data, tail=options.tail)
    try:
        return asked.answer_of(asked.spark.sql(asked.options.query))
    except PySparkException as error:
        raise ValueError(said_by(error)) from error


def queues(asked: JobQuestion) -> JobAnswer:
    from pyspark.sql import functions as f

    counted = asked.of_queues().groupBy("name", "queue", "state")
    messages = f.sum("count").alias("messages")
    uncommitted = f.sum(f.when(f.col("committed").isNull(), f.col("count")).otherwise(0)).alias("maybe_uncommitted")
    why = f.first("unknown", ignorenulls=True).alias("unknown")
    return asked.answer_of(counted.agg(messages, uncommitted, why).orderBy("name", "queue", "state"))


def lives(asked: JobQuestion) -> JobAnswer:
    from pyspark.sql import functions as f

    chosen, options = asked.of_queues(), asked.options
    if options.position is not None:
        chosen = questions.at_position(chosen, options.position)
    if options.state is not None:
        chosen = chosen.where(f.col("state") == options.state)
    return asked.answer_of(chosen.drop("kind").orderBy("pos", "off", "nth"))


def terms(asked: JobQuestion) -> JobAnswer:
    from analytics.spark.gather import terms as rows

    return JobAnswer(TERM_COLUMNS, [row._asdict() for row in rows(asked.found, asked.of_queues())])


def compare(asked: JobQuestion) -> JobAnswer:
    from analytics.spark.gather import differing

    said = asked.answer_of(differing(asked.found, asked.of_names()))
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
    return asked.answer_of(found(read, asked.of_queues(), asked.options.within))


def convert(spark: SparkSession, options: argparse.Namespace, files: list[LogFile]) -> int:
    from analytics.parquet import convert as conversion

    if options.tail:
        raise ValueError("--tail reads what may not stay in the log; a conversion takes what is durable only")
    snapshots = snapshot_files(options.data)
    covered, said = conversion.convert(spark, files, snapshots, Path(options.directory).resolve())
    show(covered, said, as_json=options.json)
    return EXIT_UNKNOWN if covered.has_gaps else EXIT_HOLDS


def life(options: argparse.Namespace, files: list[LogFile]) -> int:
    pursuit = pursue(files, snapshot_files(options.data), sought(options), tail=options.tail)
    said = story(pursuit)
    show(pursuit.coverage, said, as_json=options.json)
    covered = pursuit.coverage
    is_withheld = bool(covered.without_bodies) and options.at is None  # what is looked for may be in what is withheld
    return worst([said.code, EXIT_UNKNOWN if covered.has_gaps or is_withheld else EXIT_HOLDS])


def sought(options: argparse.Namespace) -> LookFor:
    """What `life` is asked for. Raises ValueError."""
    if options.at is not None:
        queue, place = options.at
        return LookFor(places=(at_place(queue, place),))
    for name in ("message_id", "correlation_id"):
        if (value := getattr(options, name)) is not None:
            return LookFor(sought=(TextProperty(name, value),))
    if options.header is not None:
        return LookFor(sought=(HeaderValue(*options.header),))
    return LookFor(sought=(BodyText(options.body_holds),))


def audit(options: argparse.Namespace, files: list[LogFile]) -> int:
    since = (
        None if options.since is None else datetime.fromtimestamp(options.since, UTC).isoformat(timespec="milliseconds")
    )

    def is_wanted(row: AuditRow) -> bool:
        is_theirs = options.user in (None, row.user) or row.unknown is not None
        is_late = since is None or row.at is None or row.at >= since
        return is_theirs and is_late and options.about in f"{row.command} {row.what}"

    with Workers(files) as workers:
        seen = workers.each(partial(look_for_commands, tail=options.tail), files)
    found = trail(seen, is_wanted, catalog_starts(snapshot_files(options.data)))
    covered = coverage_of(files, seen)._replace(missing=missing_files(files))
    show(covered, JobAnswer(AUDIT_COLUMNS, [row._asdict() for row in found.rows]), as_json=options.json)
    missing = found.missing if found.begins_before(since) else [(1, found.before), *found.missing]
    for first, last in missing:
        print(f"entries {first} to {last} of the metadata log are in no file that was read", file=sys.stderr)
    is_unknown = missing or covered.has_gaps or any(row.unknown for row in found.rows)
    return EXIT_UNKNOWN if is_unknown else EXIT_HOLDS


def streams(options: argparse.Namespace, files: list[LogFile]) -> int:
    with Workers(files) as workers:
        read = read_streams(files, workers.each, tail=options.tail)
    covered, asked = coverage_of(read.files, read.seen)._replace(missing=missing_files(files)), options.queue
    rows = stream_rows(
        (one for one in read.streams if asked in (None, one.name) or one.name.endswith(f"/{asked}")), covered.missing
    )
    show(covered, JobAnswer(STREAM_COLUMNS, [row._asdict() for row in rows]), as_json=options.json)
    is_unnamed = asked is not None and not rows
    if is_unnamed:
        say_unnamed(asked, "stream")
    return EXIT_UNKNOWN if is_unnamed or covered.has_gaps or any(row.unknown for row in rows) else EXIT_HOLDS


def unroutable(options: argparse.Namespace, files: list[LogFile]) -> int:
    with Workers(files) as workers:
        seen = workers.each(partial(look_for_counts, tail=options.tail), files)
    covered, silent = coverage_of(files, seen)._replace(missing=missing_files(files)), not_counted(seen)
    rows = [row for row in counted_rows(seen, all_of_them=options.all) if options.exchange in (None, row.exchange)]
    show(covered, JobAnswer(COUNTED_COLUMNS, [row._asdict() for row in rows]), as_json=options.json)
    for node, number, missing in silent:
        print(f"{node} did not count in {missing} of {number} files: history.level was not full", file=sys.stderr)
    return EXIT_UNKNOWN if silent or covered.has_gaps else EXIT_HOLDS


def queue(options: argparse.Namespace, files: list[LogFile]) -> int:
    asked = QueueAt(files, snapshot_files(options.data), options.queue, options.at, options.tail)
    said, covered = asked.answer()
    show(covered, said, as_json=options.json)
    if not said.rows:
        say_unnamed(options.queue)
    return said.code


WITHOUT_SPARK: dict[str, Callable[[argparse.Namespace, list[LogFile]], int]] = {
    "life": life,
    "queue": queue,
    "audit": audit,
    "follow": follow,
    "streams": streams,
    "unroutable": unroutable,
}
OF_COPIES = frozenset({"compare", "terms"})  # of replicated logs
WITH_GAPS = frozenset({"proof", "report"})  # they find out themselves which queues files that are missing told of
COMMANDS: dict[str, Callable[[JobQuestion], JobAnswer]] = {
    "sql": sql,
    "queues": queues,
    "lives": lives,
    "proof": proof,
    "report": report,
    "terms": terms,
    "compare": compare,
    "hot": lambda asked: asked.answer_of(questions.hot(asked.of_queues(), asked.options.by)),
    "dead": lambda asked: asked.answer_of(questions.dead(asked.of_queues())),
    "duplicates": duplicates,
    "dropped": lambda asked: asked.answer_of(questions.dropped(asked.of_queues())),
    "redelivered": lambda asked: asked.answer_of(questions.redelivered(asked.of_queues())),
    "latency": lambda asked: asked.answer_of(questions.latency(asked.of_queues(), asked.options.by)),
}


if __name__ == "__main__":
    sys.exit(main())
