"""The command that operators use, `leveret-analytics`: a process with a Spark of its own, asked about what a real node wrote.

What else it answers is in test_jobs.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.spark.conftest import ACKED, GOT, PUBLISHED, REJECTED

pytestmark = pytest.mark.spark

ANSWER_TIMEOUT_S = 240.0  # a cold Spark beside other tests


def ask(logs: Path, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "analytics", "--master", "local[2]", "--data", str(logs), "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def test_every_message_is_accounted_for(logs: Path) -> None:
    said = ask(logs, "queues")
    assert said["coverage"]["nodes"] == ["n1"]
    assert said["coverage"]["damage"] == []
    counts: dict[str, Counter[str]] = {}
    for row in said["rows"]:
        counts.setdefault(row["name"].rpartition("/")[2], Counter())[row["state"]] += row["messages"]
        assert row["unknown"] is None
        assert row["maybe_uncommitted"] == 0
    left = PUBLISHED - ACKED - REJECTED - GOT
    assert counts["classic"] == {"acked": ACKED, "rejected": REJECTED, "got": GOT, "ready": left}
    # For a client that got without acknowledging the node acknowledges, as soon as it has sent the message.
    assert counts["quorum"] == {"acked": ACKED + GOT, "rejected": REJECTED, "ready": left}


def test_times_are_utc_wherever_it_is_asked(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They were those of the machine: of two nodes' questions each had its own, and an hour in autumn came twice."""
    monkeypatch.setenv("TZ", "America/New_York")
    query = (
        "select min(published_at) as at, unix_millis(min(published_at)) as ms,"
        " timestamp_millis(1793510400000) as first, timestamp_millis(1793514000000) as second from lives"
    )
    (row,) = ask(logs, "sql", query)["rows"]
    assert datetime.fromisoformat(f"{row['at']}+00:00").timestamp() == row["ms"] / 1_000
    assert (row["first"], row["second"]) == ("2026-11-01 05:20:00", "2026-11-01 06:20:00")
