"""Pieces of files on their way to clients: storage/file_piece.py."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from storage.errors import DiskFailed
from storage.file_piece import FilePiece
from storage.os_disk import OsDisk
from tests.sim.disk import Fault, SimDisk, fault_on


@pytest.mark.parametrize("use", [FilePiece.read, lambda piece: piece.send_to(1, 0)], ids=["read", "sent"])
def test_a_disk_that_fails_is_told_of_and_who_sends_meets_an_error_of_the_system(
    use: Callable[[FilePiece], object],
) -> None:
    """Nothing in front of it knows other ones: what a connection had to write was lost, and it went on without."""
    disk, failures = SimDisk(), list[str]()
    file = disk.create("f")
    file.write_at(0, [bytes(100)])
    piece = FilePiece(file, 0, 100, failures.append)
    disk.faults = fault_on("read", Fault.EIO)
    with pytest.raises(OSError, match="simulated EIO"):
        use(piece)
    assert failures == ["cannot read f: simulated EIO"]


def test_a_device_that_fails_under_sendfile_is_a_failed_disk_and_a_peer_that_is_gone_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = OsDisk(str(tmp_path)).create("f")
    file.write_at(0, [bytes(100)])
    ours, theirs = socket.socketpair()
    theirs.close()
    with ours, pytest.raises(ConnectionError):
        file.send_to(ours.fileno(), 0, 100)

    def device_fails(*call: int) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "sendfile", device_fails)
    with pytest.raises(DiskFailed, match=r"cannot read .*f: Input/output error"):
        file.send_to(1, 0, 100)


def test_a_file_that_ends_too_early_is_not_sent_as_less(tmp_path: Path) -> None:
    file = OsDisk(str(tmp_path)).create("f")
    file.write_at(0, [bytes(100)])
    with pytest.raises(OSError, match="the file ends 20 bytes too early"):
        FilePiece(file, 0, 120, pytest.fail).read()
