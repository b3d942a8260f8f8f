"""The library before fsync: it does what it is told while the process runs, and nothing otherwise."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos import fsync_shim
from tests.chaos.fsync_shim import FsyncShim

SYNC = """
import os, sys, time
descriptor = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)
for how in (os.fsync, os.fdatasync):
    began = time.monotonic()
    try:
        how(descriptor)
    except OSError as error:
        print(error.errno, end=" ")
    else:
        print("slow" if time.monotonic() - began >= 0.2 else "done", end=" ")
"""


@pytest.mark.skipif(fsync_shim.available() is not None, reason=f"no faulty fsync here: {fsync_shim.available()}")
def test_an_fsync_is_slow_or_fails_as_it_is_told(tmp_path: Path) -> None:
    shim = FsyncShim(tmp_path)

    def synced() -> str:
        command = [sys.executable, "-c", SYNC, str(tmp_path / "file")]
        return subprocess.run(
            command, env=os.environ | shim.environment("n1"), capture_output=True, text=True, check=True
        ).stdout.strip()

    assert synced() == "done done"
    shim.slow("n1", 0.2)
    assert synced() == "slow slow"
    shim.fail("n1")
    assert synced() == "5 5"
    shim.heal("n1")
    assert synced() == "done done"
