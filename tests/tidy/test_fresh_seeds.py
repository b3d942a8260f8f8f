"""`pytest --fresh-seeds` runs the seeds that it says, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ARCHIVE, RUNS = "tests/unit/storage/test_archive.py", "tests/unit/raft/test_random_runs.py"


def collected(*options: str) -> list[str]:
    """What would run of two files, in one of which most tests draw no seeds."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "--collect-only",
        "-q",
        *options,
        ARCHIVE,
        RUNS,
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    return [line.split("::")[1] for line in done.stdout.splitlines() if "::" in line]


def test_only_what_draws_seeds_from_a_range_runs_and_with_those_that_were_asked_for() -> None:
    seeds, blocks = "test_files_that_went_by_their_age_stay_away_after_a_power_cut", "test_nothing_is_ever_contradicted"
    found = collected("--fresh-seeds", "21", "--first-seed", "7000")
    assert [one for one in found if one.startswith(seeds)] == [f"{seeds}[{seed}]" for seed in range(7000, 7021)]
    rest = [one for one in found if not one.startswith(seeds)]
    assert all(one.startswith(blocks) for one in rest)
    assert [one.split("[")[1] for one in rest] == ["7000]", "7020]"], "blocks of 20"
