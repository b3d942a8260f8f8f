"""A report as one HTML file. It asks nobody for anything and runs nothing: its content policy forbids all but its own style."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from analytics.coverage import Coverage, counted
from analytics.jobs.answer import Column
from analytics.jobs.proof import PROOF_COLUMNS, ProofRow
from analytics.report.charts import Bar, bar_chart, line_chart, nothing, number
from analytics.report.page_style import COLOURS, STYLE
from analytics.report.report_contents import OUTCOMES, TABLE_ROWS, ReportFigures
from analytics.report.traffic import busiest, rates, waiting

QUEUES_CHARTED = 6
BARS_MAX = 25
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(covered: Coverage, found: ReportFigures, made_at: str) -> str:
    """The file. `made_at`: when, for people."""
    body = [
        "<h1>What became of the messages</h1>",
        _coverage(covered, made_at),
        _accounts(covered, found.proofs),
        _over_time(found),
        _section(
            "How long messages waited, and how long they were held",
            "In milliseconds: from being published to being handed out first, and from being handed out last to the end."
            " The log of a classic queue does not tell of deliveries that were settled at once.",
            found.latency.columns, found.latency.rows,
        ),
        _section(
            "What died", "Rejected, given up, too old or too much for its queue; by reason, last consumer and routing key.",
            found.dead.columns, found.dead.rows,
        ),
        _section(
            "What was dropped", "Too old or too much, by who published it.", found.dropped.columns, found.dropped.rows
        ),
        _section(
            "What came back", "Delivered, and returned to its queue; by reason and by who had it.",
            found.redelivered.columns, found.redelivered.rows,
        ),
    ]  # fmt: skip
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"><title>What became of the messages</title>'
        f"<style>{STYLE}{COLOURS}</style>"
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n' + "\n".join(body) + "\n</body></html>\n"


def _coverage(covered: Coverage, made_at: str) -> str:
    lost = [one for one in covered.damage if not one.torn]
    places = counted(len(lost), "place", "places")
    damage = f"{sum(one.length for one in lost):,} bytes in {places} could not be read" if lost else "none"
    facts = {
        "Nodes": ", ".join(covered.nodes),
        "From": covered.first or "unknown",
        "To": covered.last or "unknown",
        "Files": f"{covered.files:,}, {covered.file_bytes:,} bytes",
        "Damage": damage,
        "Missing": "; ".join(one.sentence() for one in covered.missing) or "none",
        "Made": made_at,
    }
    if covered.without_bodies:
        facts["Contents"] = f"withheld by {', '.join(covered.without_bodies)}"
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts.items())
    return f'<section class="box"><h2 style="margin-top:0">What this stands on</h2><dl>{rows}</dl></section>'


def _accounts(covered: Coverage, proofs: Sequence[ProofRow]) -> str:
    columns = [one for one in PROOF_COLUMNS if one[0] not in ("queue", "first_missing")]
    largest = sorted(proofs, key=lambda row: -row.promised)[:BARS_MAX]
    bars = [Bar(row.name, [getattr(row, name) for name in OUTCOMES]) for row in largest]
    return "\n".join(
        [
            "<h2>Whether every message is accounted for</h2>",
            _verdict(covered, proofs),
            bar_chart("Messages of each queue by what they came to", OUTCOMES, bars),
            _table(columns, [row._asdict() for row in proofs]),
        ]
    )


def _verdict(covered: Coverage, proofs: Sequence[ProofRow]) -> str:
    """What the command ends with, in words."""
    missing = sum(row.missing for row in proofs)
    unknown = sum(1 for row in proofs if row.why or row.unknown)
    if missing:
        messages = counted(missing, "message is missing: it was", "messages are missing: they were")
        return f'<p class="verdict bad">{messages} promised, and nowhere to be found.</p>'
    if unknown:
        queues = counted(len(proofs), "queue", "queues")
        return f'<p class="verdict bad">Not known of {unknown} of {queues}: the table says why.</p>'
    if covered.is_damaged:
        return (
            '<p class="verdict bad">Not known: something of the log could not be read, which may be of any queue.</p>'
        )
    if not proofs:
        return '<p class="verdict bad">No file that was read tells of a message.</p>'
    queues = counted(len(proofs), "queue", "queues")
    return f'<p class="verdict good">Every message of {queues} is accounted for.</p>'


def _over_time(found: ReportFigures) -> str:
    parts = [
        "<h2>What came and went</h2>",
        f'<p class="muted">All queues, in spans of {found.width} s; times are UTC.</p>',
    ]
    parts.append(line_chart("Messages per second", rates(found.spans, found.width)))
    for queue in busiest(found.spans, QUEUES_CHARTED):
        mine = [one for one in found.spans if one.queue == queue]
        parts.append(f"<h3>{escape(queue)}</h3>")
        parts.append(line_chart(f"Messages in {queue}", [waiting(mine, found.width)]))
    return "\n".join(parts)


def _section(title: str, about: str, columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> str:
    more = f'<p class="muted">The first {TABLE_ROWS} rows.</p>' if len(rows) == TABLE_ROWS else ""
    return f'<h2>{escape(title)}</h2><p class="muted">{escape(about)}</p>{_table(columns, rows)}{more}'


def _table(columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> str:
    """Columns without a value are left out."""
    if not rows:
        return nothing("Nothing.")
    shown = [(name, of) for name, of in columns if any(row[name] not in (None, "", {}, []) for row in rows)]
    head = "".join(f"<th{_class(of)}>{escape(name.replace('_', ' '))}</th>" for name, of in shown)
    body = "".join(f"<tr>{_cells(row, shown)}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cells(row: Mapping[str, Any], shown: Iterable[Column]) -> str:
    return "".join(f"<td{_class(of)}>{escape(_text(row[name]))}</td>" for name, of in shown)


def _class(of: str) -> str:
    return ' class="n"' if of in ("bigint", "int", "double") else ""


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return " / ".join(_text(part) for part in value.values())
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return number(value)
    return str(value)
