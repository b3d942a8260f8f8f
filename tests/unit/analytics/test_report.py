"""A report as a page: what stands in it, and that nothing in it reaches out or is taken for markup."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from xml.etree import ElementTree

import pytest

from analytics.coverage import Coverage, DamagedBytes, MissingFiles
from analytics.jobs.answer import JobAnswer
from analytics.jobs.proof import ProofRow
from analytics.report.charts import SPANS_S, Bar, Series, bar_chart, line_chart, nice_ceiling, number
from analytics.report.page import page
from analytics.report.report_contents import TABLE_ROWS, ReportFigures
from analytics.report.traffic import SPANS_MAX, SpanSum, busiest, rates, waiting, width_of

EVIL = "<script src=//evil>'\"&"
SECOND = 1_772_337_600
COVERED = Coverage(["n1", EVIL], 3, 1_000, "2026-03-01T04:00:00+00:00", "2026-03-01T05:00:00+00:00", [])
SPANS = [SpanSum(EVIL, SECOND, 10, 0), SpanSum("//q", SECOND, 4, 2), SpanSum(EVIL, SECOND + 20, 0, 7)]
EMPTY = JobAnswer([("name", "string")], [])
HOLDS = ProofRow("//q", 1, 10, 6, 1, 0, 0, 0, 0, 3, 0, 0, [], None)
DEAD = JobAnswer(
    [("name", "string"), ("messages", "bigint"), ("sample", "struct"), ("why", "string")],
    [{"name": EVIL, "messages": 12_345, "sample": {"pos": 1, "off": 0}, "why": None}],
)


def report(*proofs: ProofRow, covered: Coverage = COVERED) -> str:
    found = ReportFigures(list(proofs), SPANS, 10, EMPTY, DEAD, EMPTY, EMPTY)
    return page(covered, found, "2026-03-01T06:00:00+00:00")


def test_a_report_asks_nobody_for_anything_and_runs_nothing() -> None:
    said = report(HOLDS._replace(name=EVIL))
    assert "default-src 'none'" in said
    assert re.findall(r"<(?:script|link|img|iframe)|(?:src|href)=\"|url\(|@import|\son\w+=", said) == []
    assert "&lt;script src=//evil&gt;" in said


def test_a_report_begins_with_what_it_stands_on() -> None:
    said = report(HOLDS)
    assert said.index("What this stands on") < said.index("accounted for")
    damage = [DamagedBytes("n1", 1, 0, 4_096, False, "x"), DamagedBytes("n1", 2, 0, 9, True, "x")]
    assert "4,096 bytes in 1 place could not be read" in report(HOLDS, covered=COVERED._replace(damage=damage))
    assert "withheld by n1" in report(HOLDS, covered=COVERED._replace(without_bodies=("n1",)))
    lacking = COVERED._replace(missing=(MissingFiles("n1", 5, 6), MissingFiles("n2", 2, 2)))
    assert "<dd>files 5 to 6 of the log of n1 are missing; file 2 of the log of n2 is missing</dd>" in report(
        HOLDS, covered=lacking
    )
    assert "<dt>Missing</dt><dd>none</dd>" in report(HOLDS)


@pytest.mark.parametrize(
    ("proofs", "verdict"),
    [
        ([HOLDS], "Every message of 1 queue is accounted for"),
        ([HOLDS, HOLDS._replace(why="a gap")], "Not known of 1 of 2 queues"),
        ([HOLDS, HOLDS], "Every message of 2 queues is accounted for"),
        ([HOLDS._replace(missing=2), HOLDS._replace(unknown=1)], "2 messages are missing: they were"),
        ([HOLDS._replace(missing=1)], "1 message is missing: it was"),
        ([], "No file that was read tells of a message"),
    ],
)
def test_the_verdict_is_that_of_the_worst_queue(proofs: list[ProofRow], verdict: str) -> None:
    assert verdict in report(*proofs)


def test_over_damage_nothing_is_called_accounted_for() -> None:
    """The command ended with 75, and the page said that every message was."""
    damaged = COVERED._replace(damage=[DamagedBytes("n1", 1, 0, 4_096, False, "x")])
    said = report(HOLDS, covered=damaged)
    assert "Every message of" not in said and "Not known: something of the log could not be read" in said
    assert "is missing: it was" in report(HOLDS._replace(missing=1), covered=damaged)


def test_tables_leave_out_columns_without_values_and_say_when_there_is_nothing() -> None:
    said = report(HOLDS)
    assert '<td class="n">12,345</td><td>1 / 0</td></tr>' in said
    assert said.count('<p class="nothing">Nothing.</p>') == 3


def test_charts_are_well_formed_and_say_their_values() -> None:
    for drawn in (
        line_chart(EVIL, [Series(EVIL, [(SECOND, 3.0), (SECOND + 5, 1_234.0)])]),
        bar_chart(EVIL, ["one", EVIL], [Bar(EVIL, [1, 0]), Bar("q" * 99, [2_000, 1])]),
    ):
        tree = ElementTree.fromstring(f"<div>{drawn}</div>")
        titles = [one.text or "" for one in tree.iter("title")]
        assert any(EVIL in title for title in titles)
        assert any("1,234" in title or "2,000" in title for title in titles)


def test_a_chart_of_nothing_is_a_sentence() -> None:
    for drawn in (line_chart("x", []), bar_chart("x", ["a"], [Bar("q", [0])])):
        assert drawn.startswith('<p class="nothing">')


def test_of_one_moment_there_is_a_chart() -> None:
    said = line_chart("x", [Series("y", [(SECOND, 0.0)])])
    assert f"{datetime.fromtimestamp(SECOND, UTC):%H:%M:%S}" in said


@pytest.mark.parametrize(
    ("value", "ceiling"), [(0, 1), (1, 1), (1.2, 2), (2.1, 5), (7, 10), (10, 10), (101, 200), (5_001, 10_000)]
)
def test_scales_end_at_round_numbers(value: float, ceiling: float) -> None:
    assert nice_ceiling(value) == ceiling


def test_what_waits_is_what_came_and_did_not_go() -> None:
    mine = [one for one in SPANS if one.queue == EVIL]
    assert waiting(mine, 10).points == [(SECOND - 10, 0.0), (SECOND, 10.0), (SECOND + 10, 10.0), (SECOND + 20, 3.0)]
    published, ended = rates(SPANS, 10)
    assert [value for _, value in published.points] == [0.0, 1.4, 0.0, 0.0]
    assert [value for _, value in ended.points] == [0.0, 0.2, 0.0, 0.7]
    assert busiest(SPANS, 1) == [EVIL]
    assert (rates([], 10)[0].points, waiting([], 10).points) == ([], [])


@pytest.mark.parametrize("seconds", [0, 1, 239, 240, 10_000, 1_000_000])
def test_a_window_has_no_more_spans_than_a_chart_shows(seconds: int) -> None:
    width = width_of(SECOND, SECOND + seconds)
    assert seconds // width < SPANS_MAX
    assert all(seconds // one >= SPANS_MAX for one in SPANS_S if one < width), "a chart is as fine as it may be"


def test_a_window_of_years_has_the_widest_spans() -> None:
    assert width_of(0, SPANS_S[-1] * SPANS_MAX * 9) == SPANS_S[-1]


def test_each_queue_has_a_chart_of_its_own_messages_under_its_name() -> None:
    said = report(HOLDS)
    charts = re.findall(r"<h3>(.*?)</h3>(.*?)</svg>", said, re.DOTALL)
    assert [name for name, _ in charts] == ["&lt;script src=//evil&gt;&#x27;&quot;&amp;", "//q"]
    mine = [one for one in SPANS if one.queue == "//q"]
    assert charts[1][1].strip() in line_chart("Messages in //q", [waiting(mine, 10)])


def test_a_report_says_from_when_to_when_it_is_and_what_its_tables_hold() -> None:
    said = report(HOLDS._replace(why="a gap"))
    for name, value in (("From", COVERED.first), ("To", COVERED.last), ("Made", "2026-03-01T06:00:00+00:00")):
        assert f"<dt>{name}</dt><dd>{value}</dd>" in said
    assert "<dt>From</dt><dd>unknown</dd><dt>To</dt><dd>unknown</dd>" in report(
        HOLDS, covered=COVERED._replace(first=None, last=None)
    )
    assert re.search(r"<tr><td>//q</td>.*<td>a gap</td></tr>", said)


@pytest.mark.parametrize(("rows", "is_said"), [(TABLE_ROWS - 1, False), (TABLE_ROWS, True)])
def test_a_table_that_may_go_on_says_so(rows: int, *, is_said: bool) -> None:
    dead = JobAnswer(DEAD.columns, DEAD.rows * rows)
    said = page(COVERED, ReportFigures([HOLDS], SPANS, 10, EMPTY, dead, EMPTY, EMPTY), "now")
    assert (f"The first {TABLE_ROWS} rows." in said) == is_said


@pytest.mark.parametrize(
    ("value", "said"),
    [(0, "0"), (7, "7"), (0.25, "0.25"), (99.44, "99.4"), (100.6, "101"), (12_345.0, "12,345"), (1.5e6, "1,500,000")],
)
def test_numbers_are_told_as_people_read_them(value: float, said: str) -> None:
    assert number(value) == said


@pytest.mark.parametrize("span", [0, 5, 6, 7, 360, 7_199, 7_200, 90_000, 9_000_000])
def test_there_are_at_most_seven_times_below_a_chart_all_within_it(span: int) -> None:
    drawn = line_chart("x", [Series("y", [(SECOND, 0.0), (SECOND + span, 1.0)])])
    told = re.findall(r'class="tick-x" x="([\d.]+)" y="\d+">(.*?)<', drawn)
    places = [float(x) for x, _ in told]
    assert 1 <= len(told) <= 7 and places == sorted(set(places))
    assert all(64 <= place <= 64 + 900 for place in places)
    assert all((":" in text and "-" not in text) == (span < 7_200) for _, text in told)
