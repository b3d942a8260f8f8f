"""Commits that a thread without the interpreter lock writes and syncs, one after the other (wal/write_thread.py).

It takes those whose file is ready and is one of the system's. All others are the log thread's: it makes files, and writes to
those that only this process knows.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol, runtime_checkable

from storage.disk import File, SystemFile
from storage.errors import DiskFailed, StorageError
from storage.os_disk import WROTE_NOTHING, disk_error
from storage.wal.files import WalFiles
from storage.wal.log_core import Commit
from storage.wal.write_thread import NOT_WRITTEN, WriteOutcome, WriteThread


@runtime_checkable
class WatchingLoop(Protocol):
    """An event loop that says when a descriptor is readable."""

    def add_reader(self, descriptor: int, callback: Callable[..., object], *args: Any) -> object: ...

    def remove_reader(self, descriptor: int) -> object: ...


class CommitThread:
    """See the module. All methods belong to the loop."""

    def __init__(
        self, files: WalFiles, loop: WatchingLoop, finished: Callable[[Commit, float | StorageError | None], None]
    ) -> None:
        """`finished`: called with each commit, and how many seconds writing took or why it was not written; None: because the
        one before it was not."""
        self._files = files
        self._loop = loop
        self._finished = finished
        self._thread = WriteThread()
        self._writing: deque[tuple[Commit, File, SystemFile]] = deque()  # the handle keeps the descriptor open
        loop.add_reader(self._thread.fileno(), self._collect)

    @property
    def is_writing(self) -> bool:
        return bool(self._writing)

    def begin(self, commit: Commit) -> bool:
        """Write this commit, behind the one on its way if there is one. False: it is none for this thread. Raises StorageError
        where its file cannot be opened."""
        if self._files.broken or commit.file_number > self._files.ready:
            return False
        file = self._files.open(commit.file_number)
        known_by = file.system_file()
        if known_by is None:
            return False
        self._thread.begin(known_by.descriptor, commit.start, commit.buffers)
        self._writing.append((commit, file, known_by))
        return True

    def wait(self) -> None:
        """Block until the first of the commits that were begun has ended, and have that told."""
        assert self._writing, "no commit is being written"
        outcome = self._thread.end()
        commit, _, known_by = self._writing.popleft()
        self._finished(commit, self._judged(outcome, known_by.path))

    def stop(self) -> None:
        """Nothing is begun any more. What is on its way is waited for."""
        with suppress(RuntimeError):  # the loop is closed already
            self._loop.remove_reader(self._thread.fileno())
        self._thread.close()

    def _collect(self) -> None:
        if self._writing:  # `wait` may have been first
            self.wait()

    def _judged(self, outcome: WriteOutcome, path: str) -> float | StorageError | None:
        what, number, took_s = outcome
        if what == NOT_WRITTEN[0]:
            return None
        if what is not None:
            reason = OSError(number, os.strerror(number)) if number else OSError(WROTE_NOTHING)
            return disk_error(reason, what, path)
        if self._files.broken:
            return DiskFailed("an earlier operation on the log failed")
        return took_s
