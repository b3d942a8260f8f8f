"""What reached no queue, as files of several nodes have counted it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analytics.__main__ import main
from analytics.inputs import log_files
from analytics.jobs.answer import EXIT_HOLDS, EXIT_UNKNOWN
from analytics.unroutable.count_look import look_for_counts
from analytics.unroutable.count_rows import CountedRow, counted_rows, not_counted
from broker.unlogged import Unlogged
from native.log_tables import UNLOGGED
from storage.history.count_records import CountRow, encode_counts
from storage.history.name_records import ActorRow
from storage.record import Kind
from tests.unit.analytics.test_audit import ANN, CHANNEL, CONNECTION, ITS_CHANNEL, actor
from tests.unit.analytics.test_pursuit import START, log, record
from tests.unit.analytics.test_replay_reader import durable_log

BOB = [
    *actor(CONNECTION, ActorRow(1, 10, 0, "bob", "/", "10.0.0.8:1", "other", "java")),
    *actor(CHANNEL, ActorRow(2, 10, CONNECTION)),
]


def counted(*rows: CountRow, span_ms: int = 1_000) -> list[bytes]:
    return record(Kind.COUNTS, encode_counts(span_ms, rows))


def returned(messages: int, actor: int = CHANNEL, exchange: str = "x", key: str = "k") -> CountRow:
    return CountRow(actor, Unlogged.RETURNED, messages, 10 * messages, exchange, key)


def told(data: Path, *, all_of_them: bool = False) -> list[CountedRow]:
    seen = [look_for_counts(file, tail=True) for file in log_files([str(data)])]
    return counted_rows(seen, all_of_them=all_of_them)


def test_counts_are_summed_up_by_client_and_exchange_over_all_files(tmp_path: Path) -> None:
    late = counted(returned(9, key="late"), span_ms=3_000)
    log(tmp_path / "n1", 1, ANN, ITS_CHANNEL, counted(returned(2), span_ms=500), late)
    log(tmp_path / "n1", 2, ANN, ITS_CHANNEL, counted(returned(1, key="last"), returned(5, exchange="y")))
    first, second = told(tmp_path)
    assert (first.messages, first.body_bytes, first.peak_per_second, first.routing_key) == (12, 120, 3, "last")
    assert (first.node, first.what, first.exchange, second.exchange, second.messages) == ("n1", "returned", "x", "y", 5)
    assert (first.user, first.vhost, first.address, first.connection, first.product) == (
        "ann", "/", "10.0.0.7:1", "app", "pika",
    )  # fmt: skip


def test_a_number_is_that_of_the_process_that_runs_then(tmp_path: Path) -> None:
    """A node that is started again gives the same numbers to others, in the same file."""
    log(tmp_path / "n1", 1, ANN, ITS_CHANNEL, counted(returned(2)), BOB, counted(returned(1)))
    assert [(row.user, row.messages) for row in told(tmp_path)] == [("ann", 2), ("bob", 1)]


def test_first_and_last_are_those_of_all_files_as_far_as_marks_say_it(tmp_path: Path) -> None:
    """Also where the newest file tells no time."""
    durable_log(tmp_path / "n1", 1, ANN, ITS_CHANNEL, counted(returned(2)), counted(returned(1)))
    durable_log(tmp_path / "n1", 2, ANN, ITS_CHANNEL, counted(returned(4), span_ms=2_500), at=START + 60_000)
    log(tmp_path / "n1", 3, ANN, ITS_CHANNEL, counted(returned(7, key="last"), span_ms=10_000))
    (row,) = told(tmp_path)
    assert (row.first_at, row.last_at) == ("2023-11-14T22:13:20.002+00:00", "2023-11-14T22:14:20.002+00:00")
    assert (row.messages, row.peak_per_second, row.routing_key) == (14, 2, "last")


def test_of_less_than_a_second_the_peak_is_what_came_in_it(tmp_path: Path) -> None:
    log(tmp_path / "n1", 1, ANN, ITS_CHANNEL, counted(returned(3_000), span_ms=100))
    log(tmp_path / "n2", 1, ANN, ITS_CHANNEL, counted(returned(3_000), span_ms=1_500))
    assert [(row.node, row.peak_per_second) for row in told(tmp_path)] == [("n1", 3_000), ("n2", 2_000)]


def test_what_a_later_build_counts_is_told_by_its_number(tmp_path: Path) -> None:
    log(tmp_path / "n1", 1, counted(*(CountRow(0, number, 1, 1, "", "") for number in (0, len(UNLOGGED), 255))))
    assert {row.what for row in told(tmp_path, all_of_them=True)} == {"0", str(len(UNLOGGED)), "255"}


def test_nodes_that_did_not_count_are_told_in_their_order(tmp_path: Path) -> None:
    for node in ("n3", "n1", "n2"):
        log(tmp_path / node, 1, ANN)
        log(tmp_path / node, 2, ANN)
    seen = [look_for_counts(file, tail=True) for file in log_files([str(tmp_path)])]
    assert not_counted(seen[::-1]) == [("n1", 2, 2), ("n2", 2, 2), ("n3", 2, 2)]


def test_dead_letters_and_what_nobody_is_named_for_have_no_client(tmp_path: Path) -> None:
    dead = CountRow(0, Unlogged.DEAD_UNROUTABLE, 3, 30, "graves", "dead")
    log(tmp_path / "n1", 1, counted(dead, returned(1, actor=99), CountRow(0, 77, 1, 1, "", "")))
    assert [(row.what, row.user) for row in told(tmp_path, all_of_them=True)] == [
        ("dead_unroutable", None),
        ("77", None),
        ("returned", None),
    ]


def test_what_was_in_a_queue_or_with_a_consumer_is_told_if_it_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    transient = CountRow(CHANNEL, Unlogged.TRANSIENT, 7, 70, "x", "q")
    at_once = CountRow(CHANNEL, Unlogged.HANDED_AT_ONCE, 8, 70, "y", "q")
    log(tmp_path / "n1", 1, ANN, ITS_CHANNEL, counted(transient, at_once, returned(1)))
    for asked, whats in (
        ((), ["returned"]),
        (("--all",), ["handed_at_once", "transient", "returned"]),
        (("--all", "--exchange", "x"), ["transient", "returned"]),
        (("--exchange", ""), []),
    ):
        assert main(["--data", str(tmp_path), "--json", "--tail", "unroutable", *asked]) == EXIT_HOLDS
        assert [row["what"] for row in json.loads(capsys.readouterr().out)["rows"]] == whats


def test_a_file_in_which_nobody_counted_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log(tmp_path / "n1", 1, counted())
    log(tmp_path / "n2", 1, ANN)
    log(tmp_path / "n2", 2, counted())
    assert main(["--data", str(tmp_path), "--tail", "unroutable"]) == EXIT_UNKNOWN
    assert capsys.readouterr().err == "n2 did not count in 1 of 2 files: history.level was not full\n"
