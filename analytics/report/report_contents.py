"""What a report shows."""

from __future__ import annotations

from typing import NamedTuple

from analytics.jobs.answer import JobAnswer
from analytics.jobs.proof import ProofRow
from analytics.report.traffic import SpanSum

TABLE_ROWS = 30
OUTCOMES = ("acked", "dead", "expired", "dropped", "purged", "cut", "present", "unknown", "missing")  # of a ProofRow


class ReportFigures(NamedTuple):
    """The answers of all questions, and what came and went over time."""

    proofs: list[ProofRow]
    spans: list[SpanSum]
    width: int  # of a span, in seconds
    latency: JobAnswer
    dead: JobAnswer
    dropped: JobAnswer
    redelivered: JobAnswer
