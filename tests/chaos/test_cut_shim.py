"""The library that ends a process: at the line that it was told, or at the sync, and nowhere else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos import cut_shim
from tests.chaos.cut_shim import CutShim

pytestmark = pytest.mark.skipif(
    cut_shim.available() is not None, reason=f"nothing can be cut here: {cut_shim.available()}"
)

LOGS = """
import logging
logging.basicConfig(level="INFO", format="%(message)s")
for step in ("one", "two", "three"):
    logging.info("step %s", step)
"""
SYNCS = """
import os, sys
for step in range(3):
    descriptor = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)
    os.fdatasync(descriptor)
    os.rename(sys.argv[1], sys.argv[1] + ".new")
    print(step, flush=True)
"""


def ran(environment: dict[str, str], *command: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-c", *command], env=os.environ | environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


def test_a_process_ends_behind_the_line_that_it_was_told(tmp_path: Path) -> None:
    shim = CutShim(tmp_path)
    environment = shim.environment("n1")
    assert ran(environment, LOGS) == (0, "", "step one\nstep two\nstep three\n")
    shim.kill_at_line("n1", "step two")
    assert ran(environment, LOGS) == (-signal.SIGKILL, "", "step one\nstep two\n")
    shim.heal("n1")
    assert ran(environment, LOGS)[0] == 0


@pytest.mark.parametrize(("number", "said"), [(1, ""), (2, ""), (3, "0\n"), (6, "0\n1\n")])
def test_a_process_ends_instead_of_the_sync_that_it_was_told(tmp_path: Path, number: int, said: str) -> None:
    environment = CutShim(tmp_path).environment_until_sync(number)
    assert ran(environment, SYNCS, str(tmp_path / "file"))[:2] == (-signal.SIGKILL, said)


def test_a_process_with_fewer_syncs_comes_to_its_end(tmp_path: Path) -> None:
    environment = CutShim(tmp_path).environment_until_sync(7)
    assert ran(environment, SYNCS, str(tmp_path / "file"))[:2] == (0, "0\n1\n2\n")
