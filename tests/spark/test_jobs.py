"""The commands of operators, wired to tables; what their rules say is in tests/unit/analytics."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from analytics.__main__ import answer
from analytics.command_line import parser
from analytics.fold.folded_history import QueueHistory
from analytics.fold.lives import NOT_SEEN, Life, PublishedRun
from analytics.inputs import log_files
from analytics.jobs.answer import EXIT_HOLDS, EXIT_MISSING, EXIT_UNKNOWN, EXIT_USAGE
from analytics.jobs.questions import GROUPS, HOT_GROUPS
from replicated.local_members import QUEUE_GROUPS
from storage.names import LOG_DIRECTORY
from storage.record import Kind
from tests.ledger.test_mutants_of_a_log import records
from tests.spark.conftest import ACKED, GOT, PUBLISHED, REJECTED, Ask
from tests.unit.analytics.past_world import GROUP, entries_record, name_record
from tests.unit.analytics.test_pursuit import QUEUE, acknowledged, log, message, publish

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
LEFT = PUBLISHED - ACKED - REJECTED - GOT


def test_a_proof_holds_when_each_message_is_accounted_for(ask: Ask, logs: Path) -> None:
    code, rows = ask(logs, "proof")
    assert code == EXIT_HOLDS
    classic, quorum = rows
    assert (classic["name"], quorum["name"]) == ("//classic", "//quorum")
    for row in rows:
        assert (row["promised"], row["acked"], row["dead"]) == (PUBLISHED, ACKED + GOT, REJECTED)
        assert (row["present"], row["missing"], row["unknown"], row["why"]) == (LEFT, 0, 0, None)


def test_a_proof_of_one_queue_speaks_of_that_queue(ask: Ask, logs: Path) -> None:
    """It called the others unknown, of whose messages it had not looked at any."""
    code, rows = ask(logs, "proof", "quorum")
    assert (code, [row["name"] for row in rows]) == (EXIT_HOLDS, ["//quorum"])


def test_what_is_hot_is_told_with_its_share_and_busiest_second(ask: Ask, logs: Path) -> None:
    _, rows = ask(logs, "hot")
    assert {row["name"]: (row["messages"], row["percent"]) for row in rows} == {
        "//classic": (PUBLISHED, 50.0),
        "//quorum": (PUBLISHED, 50.0),
    }
    for row in rows:
        assert row["bytes"] == sum(len(b"%d" % number) for number in range(PUBLISHED))
        assert 0 < row["peak_per_second"] <= PUBLISHED


def test_publishers_are_told_with_the_process_that_numbered_them(ask: Ask, logs: Path) -> None:
    _, rows = ask(logs, "hot", "--by", "queue,publisher")
    told = {row["name"]: (row["process"], row["actor"], row["messages"]) for row in rows}
    name, incarnation = told["//classic"][0].split("/")
    assert name == "n1", "of a classic queue it is the one that wrote the record, as its directory is called"
    assert told["//quorum"][0] == f"1/{incarnation}"
    assert all(actor and messages == PUBLISHED for _, actor, messages in told.values())


def test_terms_name_the_node_that_led_and_copies_of_one_node_do_not_differ(ask: Ask, logs: Path) -> None:
    _, (row,) = ask(logs, "terms")
    assert (row["name"], row["leader"], row["first_index"], row["replaced"]) == ("//quorum", "n1", 1, 0)
    assert ask(logs, "compare") == (EXIT_HOLDS, [])


def test_a_position_is_asked_for_by_sequence_or_entry(ask: Ask, logs: Path) -> None:
    _, (row,) = ask(logs, "lives", "classic", "--position", str(ACKED))
    assert (row["state"], row["pos"] + row["nth"] <= ACKED < row["pos"] + row["nth"] + row["count"]) == (
        "rejected",
        True,
    )
    _, rows = ask(logs, "lives", "quorum")
    entry = rows[-1]["pos"]
    _, here = ask(logs, "lives", "quorum", "--position", str(entry))
    assert here == [row for row in rows if row["pos"] == entry]


def test_a_proof_over_a_part_of_a_log_is_unknown(ask: Ask, logs: Path, tmp_path: Path) -> None:
    shutil.copytree(logs / "n1", tmp_path / "n1")
    log = max((tmp_path / "n1" / LOG_DIRECTORY).iterdir())
    whole = log.read_bytes().rstrip(b"\0")
    log.write_bytes(whole[: len(whole) // 4])  # what came first are the classic queue's records
    code, rows = ask(tmp_path, "proof")
    assert code == EXIT_UNKNOWN
    assert any("classic queues of n1 are missing" in (row["why"] or "") for row in rows)


def test_what_died_and_what_came_back_is_told_by_reason(ask: Ask, logs: Path) -> None:
    _, rows = ask(logs, "dead")
    counts: Counter[tuple[str, str]] = Counter()
    for row in rows:  # each get of a quorum queue is a consumer of its own
        counts[row["name"], row["state"]] += row["messages"]
    assert counts == {("//classic", "rejected"): REJECTED, ("//quorum", "rejected"): REJECTED}
    assert ask(logs, "dropped") == (EXIT_HOLDS, [])
    _, rows = ask(logs, "redelivered", "quorum")
    assert [(row["reason"], row["messages"], row["returns"]) for row in rows] == [("released", 1, 1)]


def test_one_message_tells_its_life(ask: Ask, logs: Path) -> None:
    code, rows = ask(logs, "lives", "quorum", "--state", "ready")
    assert code == EXIT_HOLDS
    (back,) = [row for row in rows if row["returned"]]
    assert (back["returned"], back["times_out"], back["count"]) == ({"released": 1}, 1, 1)
    assert back["published_at"] <= back["first_out_at"]
    assert all(row["times_out"] == 0 for row in rows if row is not back)


def test_any_other_question_is_asked_in_sql(ask: Ask, logs: Path) -> None:
    query = (
        "select state, cast(sum(count) as long) as n from lives join queues using (queue)"
        " where name like '%classic' group by state"
    )
    code, rows = ask(logs, "sql", query)
    assert code == EXIT_HOLDS
    assert {row["state"]: row["n"] for row in rows} == {
        "acked": ACKED,
        "rejected": REJECTED,
        "got": GOT,
        "ready": LEFT,
    }


def test_lives_of_one_run_share_its_bytes() -> None:
    from analytics.spark.life_columns import lives_batch

    run = PublishedRun(1, 4, 40)
    lives = [Life(1, 0, 0, 1, run), Life(1, 0, 1, 3, run), Life(2, 0, 0, 5, NOT_SEEN)]
    assert lives_batch(1, lives, QueueHistory()).column("body_bytes").to_pylist() == [10, 30, 0]


def test_latencies_are_of_messages(ask: Ask, logs: Path) -> None:
    _, rows = ask(logs, "latency", "quorum", "--by", "queue,state")
    counts = {row["state"]: row["messages"] for row in rows}
    assert counts == {"acked": ACKED + GOT, "rejected": REJECTED, "ready": 1}
    for row in rows:
        assert 0 <= row["wait_p50_ms"] <= row["wait_p90_ms"] <= row["wait_p99_ms"] <= row["wait_max_ms"]


@pytest.mark.parametrize(("command", "groups"), [("latency", GROUPS), ("hot", HOT_GROUPS)])
def test_whatever_messages_are_grouped_by_is_in_the_lives_that_are_made(
    ask: Ask, logs: Path, command: str, groups: tuple[str, ...]
) -> None:
    _, rows = ask(logs, command, "--by", "queue")
    _, grouped = ask(logs, command, "--by", ",".join(groups))
    assert sum(row["messages"] for row in grouped) == sum(row["messages"] for row in rows)


def test_a_report_has_the_answers_of_all_questions_on_one_page(ask: Ask, logs: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    code, rows = ask(logs, "report", "--html", str(page))
    assert (code, rows) == (EXIT_HOLDS, [{"file": str(page)}])
    assert list(tmp_path.iterdir()) == [page]
    said = page.read_text()
    assert "Every message of 2 queues is accounted for" in said
    assert said.count("<polyline") == 4, "two rates, and what waited in each queue"
    for part in ("//classic", "//quorum", f"dead: {REJECTED}<", "<td>released</td>"):
        assert part in said


def test_what_is_no_table_is_done_by_the_workers_of_tables(spark: SparkSession) -> None:
    """They were forked from another process, and a session had twice as many."""

    def forked_from(*_: object) -> int:
        import os

        return os.getppid()

    def of_tables(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"process": [forked_from()]})

    (table,) = spark.range(1, numPartitions=1).mapInArrow(of_tables, "process long").collect()
    assert spark.sparkContext.parallelize([0], 1).map(forked_from).collect() == [table.process]


def test_compiled_code_has_the_room_that_java_gives_it_without_options_of_ours(spark: SparkSession) -> None:
    """It had a fifth of that, and a session failed at some question, "Out of space in CodeCache for adapters"."""
    assert spark._jvm is not None
    pools = spark._jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    room = sum(pool.getUsage().getMax() for pool in pools if pool.getName().startswith("Code"))
    assert room >= 240 << 20


def test_copies_of_two_nodes_that_differ_are_named_whatever_else_is_unknown(
    ask: Ask, logs: Path, tmp_path: Path
) -> None:
    """A classic queue that stands in the logs of two nodes is unknown, and has no copies."""
    for node in ("n1", "n2"):
        shutil.copytree(logs / "n1", tmp_path / node)
    assert ask(tmp_path, "queues", "classic")[0] == EXIT_UNKNOWN
    for words in ((), ("quorum",), ("classic",)):
        assert ask(tmp_path, "compare", *words) == (EXIT_HOLDS, [])
    assert ask(tmp_path, "terms")[0] == EXIT_HOLDS
    entries = [one for one in records(tmp_path / "n2", Kind.RAFT_ENTRIES) if one.writer >= QUEUE_GROUPS]
    place = [one for one in entries if b"quorum" in one.payload][-1]
    place.replace(place.payload.replace(b"quorum", b"quorun", 1))  # a routing key
    code, (row,) = ask(tmp_path, "compare")
    assert (code, row["name"], row["versions"], row["nodes"]) == (EXIT_MISSING, "//quorum", 2, ["n1", "n2"])
    assert ask(tmp_path, "compare", "classic") == (EXIT_HOLDS, [])


QUEUE_QUESTIONS = (("lives",), ("queues",), ("dead",), ("latency",), ("hot",), ("duplicates",))


@pytest.mark.parametrize("question", QUEUE_QUESTIONS, ids=lambda question: question[0])
def test_what_is_unknown_of_another_queue_is_no_matter(ask: Ask, tmp_path: Path, question: tuple[str, ...]) -> None:
    """Each ended with 75 whichever queue was asked for."""
    published = publish(0, message("m", b"1")), acknowledged(0, 1)
    log(tmp_path / "n1", 1, name_record(QUEUE), *published, name_record(GROUP), entries_record(GROUP, 5, b""))
    command, *more = question
    assert ask(tmp_path, "--tail", command, "c", *more)[0] == EXIT_HOLDS
    assert ask(tmp_path, "--tail", command, "q", *more)[0] == EXIT_UNKNOWN


def test_a_queue_of_which_not_one_message_is_known_says_why(ask: Ask, tmp_path: Path) -> None:
    """The entries before have left the log, and no snapshot is there: nothing was said, with exit code 0, by `proof` too."""
    log(tmp_path / "n1", 1, name_record(GROUP), entries_record(GROUP, 5, b""))
    code, (row,) = ask(tmp_path, "--tail", "queues")
    assert (code, row["name"], row["state"], row["messages"]) == (EXIT_UNKNOWN, "//q", "unknown", 0)
    assert row["unknown"] == "entries 1 to 4 are missing"
    code, (life,) = ask(tmp_path, "--tail", "lives", "q")
    assert (code, life["count"], life["unknown"]) == (EXIT_UNKNOWN, 0, row["unknown"])
    code, (proof,) = ask(tmp_path, "--tail", "proof")
    assert (code, proof["promised"], proof["why"]) == (EXIT_UNKNOWN, 0, row["unknown"])


def test_columns_of_one_name_are_refused(ask: Ask, logs: Path) -> None:
    """Each row had the value of the last one in all of them."""
    with pytest.raises(ValueError, match="several columns are called 'state': give each a name of its own with AS"):
        ask(logs, "sql", "select a.state, b.state from lives a join lives b on a.queue != b.queue")


def test_what_fails_when_it_is_worked_out_is_one_sentence(ask: Ask, logs: Path) -> None:
    """It was a traceback: only what the statement itself has wrong was told apart."""
    with pytest.raises(ValueError, match=r"(?i)^[^\n]*division by zero[^\n]*$"):
        ask(logs, "sql", "select count / (count - count) from lives")


def test_a_script_of_questions_ends_with_the_worst_of_them(
    spark: SparkSession, logs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ended_with(*lines: str) -> int:
        monkeypatch.setattr("sys.stdin", StringIO("\n".join(lines)))
        options = parser().parse_args(["--data", str(logs), "--json", "shell"])
        return answer(spark, options, log_files(options.data))

    assert ended_with("queues", "select count(*) from lives;", "streams") == EXIT_HOLDS
    assert capsys.readouterr().out.count('"coverage"') == 3
    assert ended_with("select none from nothing", "queues") == EXIT_USAGE
    assert ended_with("convert tables") == EXIT_USAGE
    assert "`convert` is a command of its own" in capsys.readouterr().err
    assert ended_with("dead nobody") == EXIT_UNKNOWN
