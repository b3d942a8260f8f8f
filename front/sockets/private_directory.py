"""A directory for sockets that only this user's processes may enter, and that does not outlive its process by much.

A process that is killed cannot delete its own. So it holds a lock on a file in it for as long as it lives, and who makes the
next one deletes those of this user whose lock nobody holds.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

PREFIX = "leveret-grpc-"
LOCK = "lock"


class PrivateDirectory:
    """See the module. `below`: where it is made, the system's directory for temporary files if nothing is said."""

    def __init__(self, below: Path | None = None) -> None:
        """Raises OSError."""
        below = below or Path(tempfile.gettempdir())
        for other in below.glob(f"{PREFIX}*"):
            _delete_if_left(other)
        self.path, self._lock = _made(below)
        while os.fstat(self._lock).st_nlink == 0:  # taken for one that was left, before it was locked
            os.close(self._lock)
            self.path, self._lock = _made(below)

    def delete(self) -> None:
        """Deleting it twice does no harm."""
        if self._lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1  # the number may be another file's by the next time


def _made(below: Path) -> tuple[Path, int]:
    path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=below))
    lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return path, lock


def _delete_if_left(path: Path) -> None:
    """One without a lock file is being made, or is not ours to judge."""
    with suppress(OSError):
        if path.lstat().st_uid != os.geteuid():
            return
        lock = os.open(path / LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path)
        finally:
            os.close(lock)
