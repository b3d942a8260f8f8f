"""The rig itself: a power cut loses what was not made durable, and only that."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash import power


@pytest.mark.skipif(power.available() is not None, reason=f"no power cuts here: {power.available()}")
def test_a_power_cut_keeps_what_was_fsynced_and_loses_the_rest(tmp_path: Path) -> None:
    with power.power_disk(tmp_path) as disk:
        kept = os.open(disk.path / "kept", os.O_CREAT | os.O_WRONLY)
        os.write(kept, b"durable")
        os.fsync(kept)
        directory = os.open(disk.path, os.O_RDONLY)
        os.fsync(directory)
        os.write(kept, b" and not")
        lost = os.open(disk.path / "lost", os.O_CREAT | os.O_WRONLY)
        os.write(lost, b"never synced")
        disk.cut_power()
        with pytest.raises(OSError, match="Input/output error"):
            os.write(lost, b"x")
        for descriptor in (kept, lost, directory):
            os.close(descriptor)
        disk.restore_power()
        assert (disk.path / "kept").read_bytes() == b"durable"
        assert not (disk.path / "lost").exists()


@pytest.mark.skipif(power.available() is not None, reason=f"no power cuts here: {power.available()}")
def test_a_cut_that_leaves_the_power_on_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with power.power_disk(tmp_path) as disk:
        monkeypatch.setattr(power.fcntl, "ioctl", lambda *_: 0)
        with pytest.raises(RuntimeError, match="files can still be made there"):
            disk.cut_power()


@pytest.mark.skipif(power.available() is not None, reason=f"no power cuts here: {power.available()}")
def test_a_disk_comes_back_though_a_container_was_started_while_it_was_mounted(tmp_path: Path) -> None:
    """The container has a copy of every mount, in which a file system that was shut down lives on."""
    program = f"""
import subprocess
from pathlib import Path
from tests.crash import power
power.keep_mounts_apart()
with power.power_disk(Path({str(tmp_path)!r})) as disk:
    container = ["nsenter", "--mount=/proc/{os.getpid()}/ns/mnt", "unshare", "--mount", "sh", "-c", "echo there; read wait"]
    with subprocess.Popen(container, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "there\\n"
        disk.cut_power()
        disk.restore_power()
        (disk.path / "file").write_text("x")
        other.communicate("")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parents[2], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
