"""What is kept in the repository is what somebody wrote: no logs, data directories or dumps of a run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BYTES_MAX = 1_000_000


def test_no_large_file_is_tracked() -> None:
    """A node's data directory once came with a commit, its log of 64 MiB with it."""
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this tree is no clone of the repository")
    paths = [ROOT / name for name in listed.decode().split("\0") if name]
    assert [path.name for path in paths if path.is_file() and path.stat().st_size > BYTES_MAX] == []
