"""What files of the log hold, counted as they are written: the archive need not read them again for their summaries.

A file is counted if all of it was written by this process. When it is full its tally is kept until somebody asks, unless there
are too many: then the oldest is forgotten, and its file read when it is archived.

The event loop owns the tally of the file that is being written. Whoever asks for one that is full may be another thread; a file
that is asked for was released, which the one being written never is.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

from native.log_tally import LogTally
from storage.archive.summary import Summary, summary_of
from storage.disk import Buffer

ROWS_MAX = 100_000  # of all that are kept: some 15 MB


class FileTallies:
    """See the module."""

    def __init__(self) -> None:
        self._number, self._tally, self._end = 0, LogTally(), 0  # of the file being written; 0: it is not counted
        self._full: dict[int, tuple[LogTally, int]] = {}  # by number: what it holds, and where it ends
        self._rows = 0  # of all of them
        self._lock = Lock()  # for these two

    def wrote(self, number: int, start: int, end: int, buffers: Sequence[Buffer]) -> None:
        """These whole records lie there in a file of the log, behind all that it was told before."""
        if start == 0:
            self._begin(number)
        if number == self._number:
            self._tally.take(buffers)
            self._end = end

    def _begin(self, number: int) -> None:
        if self._number:
            self._keep(self._number, self._tally, self._end)
        self._number, self._tally = number, LogTally()

    def _keep(self, number: int, tally: LogTally, end: int) -> None:
        with self._lock:
            self._full[number] = (tally, end)
            self._rows += tally.rows
            while self._rows > ROWS_MAX:
                self._forget(next(iter(self._full)))

    def _forget(self, number: int) -> tuple[LogTally, int]:
        found = self._full.pop(number)
        self._rows -= found[0].rows
        return found

    def take(self, number: int, size: int) -> Summary | None:
        """The summary of a file of this size, for whoever writes it down; None: it has to be read."""
        with self._lock:
            if number not in self._full:
                return None
            tally, end = self._forget(number)
        return summary_of(tally, end, whole=True) if end <= size else None
