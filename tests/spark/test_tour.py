"""`make analytics`, as README shows it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def test_the_tour_tells_a_life_a_past_second_and_a_proof(tmp_path: Path) -> None:
    tour = [sys.executable, "-m", "tests.tour", str(tmp_path / "tour")]
    done = subprocess.run(tour, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    life, past, proof = done.stdout.split("\n$ leveret-analytics")[1:]
    for step in (
        "published with key 'orders'",
        "delivered to consumer",
        "rejected by consumer",
        "a dead letter of //orders",
    ):
        assert step in life
    assert past.split()[-9:-7] == ["2000", "2000"], past
    rows = {line.split()[0]: line.split()[1:] for line in proof.splitlines() if line.startswith("//")}
    promised, _, dead = map(int, rows["//orders"][1:4])
    assert promised >= 2_000 and dead == 1, "an order that was tried anew is there twice"
    assert rows["//orders"][8] == "0", "nobody has to take anything"
    assert rows["//orders.rejected"][1] == rows["//orders.rejected"][8] == "1"
    assert all(row[-1] == "0" for row in rows.values()), "nothing is missing"
