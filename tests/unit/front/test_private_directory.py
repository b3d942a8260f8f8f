"""Directories of processes that live stay, those of killed ones go with the next that is made."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from front.sockets import private_directory
from front.sockets.private_directory import LOCK, PREFIX, PrivateDirectory


def held_elsewhere(below: Path) -> subprocess.Popen[str]:
    """Another process that has one, and says which."""
    code = f"""
from pathlib import Path
from front.sockets.private_directory import PrivateDirectory
made = PrivateDirectory(Path({str(below)!r}))
print(made.path, flush=True)
input()
"""
    return subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_only_its_owner_may_enter_and_it_goes_when_it_is_deleted(tmp_path: Path) -> None:
    made = PrivateDirectory(tmp_path)
    assert made.path.parent == tmp_path and made.path.stat().st_mode & 0o777 == 0o700
    (made.path / "socket").touch()
    made.delete()
    assert not made.path.exists()
    with (tmp_path / "another file").open("w") as other:  # which may have the number of the lock now
        made.delete()
        os.fstat(other.fileno())


def test_what_a_killed_process_has_left_goes_and_what_a_living_one_has_stays(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path) as other:
        assert other.stdout is not None
        theirs = Path(other.stdout.readline().strip())
        (theirs / "socket").touch()
        first = PrivateDirectory(tmp_path)
        assert theirs.exists()
        other.kill()
        other.wait()
    second = PrivateDirectory(tmp_path)
    assert not theirs.exists() and first.path.exists() and second.path.exists()
    first.delete()
    second.delete()


def test_one_without_a_lock_file_or_of_another_user_or_that_is_a_link_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    being_made, linked, target = tmp_path / f"{PREFIX}new", tmp_path / f"{PREFIX}link", tmp_path / "elsewhere"
    being_made.mkdir()
    target.mkdir()
    (target / LOCK).touch()
    linked.symlink_to(target)
    PrivateDirectory(tmp_path).delete()
    assert being_made.exists() and (target / LOCK).exists()

    theirs = tmp_path / f"{PREFIX}theirs"
    theirs.mkdir()
    (theirs / LOCK).touch()
    own = os.geteuid()
    with monkeypatch.context() as another_user:
        another_user.setattr(os, "geteuid", lambda: own + 1)
        PrivateDirectory(tmp_path).delete()
    assert theirs.exists()
    PrivateDirectory(tmp_path).delete()
    assert not theirs.exists()


def test_one_that_was_taken_for_a_left_one_before_it_was_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock, taken = fcntl.flock, list[Path]()

    def taken_before(descriptor: int, how: int) -> None:
        if not taken:
            taken.extend(tmp_path.glob(f"{PREFIX}*"))
            private_directory._delete_if_left(taken[0])
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", taken_before)
    made = PrivateDirectory(tmp_path)
    assert taken and made.path not in taken and (made.path / LOCK).exists()
    made.delete()
