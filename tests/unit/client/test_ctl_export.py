"""leveretctl definitions export: who can read the file."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from leveret.ctl.terminal import exits
from tests.unit.client.test_ctl import Ctl, node
from tests.unit.front.grpc.fakes import Running

__all__ = ["node"]  # the fixture


@pytest.fixture
def leveretctl(node: Running, capsys: pytest.CaptureFixture[str]) -> Ctl:
    return Ctl(node.target, capsys)


@pytest.mark.parametrize("before", [None, 0o644])
def test_only_its_owner_reads_what_was_exported_also_where_there_was_a_file(
    leveretctl: Ctl, tmp_path: Path, before: int | None
) -> None:
    """Hashes of passwords are in it."""
    file = tmp_path / "shop.json"
    if before is not None:
        file.write_bytes(b"x" * 100_000)
        file.chmod(before)
    leveretctl("definitions", "export", str(file))
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.read_bytes().startswith(b"{") and file.read_bytes().endswith(b"}")


def test_an_earlier_export_stays_where_there_is_no_room_for_the_next(
    leveretctl: Ctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    file = tmp_path / "shop.json"
    file.write_text("of yesterday")
    monkeypatch.setattr(os, "fsync", no_room)
    said = leveretctl("definitions", "export", str(file), code=exits.USAGE)
    assert file.read_text() == "of yesterday" and list(tmp_path.iterdir()) == [file]
    assert "No space left on device" in said


def test_what_is_no_file_is_written_to_as_it_is(leveretctl: Ctl, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    pipe.chmod(0o644)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        leveretctl("definitions", "export", str(pipe))
        assert os.read(reader, 1 << 16).startswith(b"{")
    finally:
        os.close(reader)
    assert pipe.stat().st_mode & 0o777 == 0o644
    leveretctl("definitions", "export", str(tmp_path), code=exits.USAGE)
