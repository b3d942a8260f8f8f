"""Runs in order of their sequences: in at the tail, out at either end, and back to an exact old place."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from operator import attrgetter

from classic.stored_run import StoredRun

_FIRST = attrgetter("first")
SLACK_MAX = 256  # used-up entries at the front are kept until it pays to move the rest


class RunQueue:
    """One of q1, q2, q3 and q4. `count` is the number of ready messages in its runs: each has at least one, so it also says
    whether there are runs, without a call. `first` is the run at the head, or None."""

    __slots__ = ("_head", "_runs", "count", "first")

    def __init__(self) -> None:
        self._runs: list[StoredRun] = []
        self._head = 0
        self.count = 0
        self.first: StoredRun | None = None

    def __len__(self) -> int:
        """How many runs."""
        return len(self._runs) - self._head

    def __bool__(self) -> bool:
        return len(self._runs) > self._head

    def __iter__(self) -> Iterator[StoredRun]:
        return iter(self._runs[self._head :])

    @property
    def head(self) -> StoredRun:
        return self._runs[self._head]

    @property
    def tail(self) -> StoredRun:
        return self._runs[-1]

    def append(self, run: StoredRun) -> None:
        if self.count:
            last = self._runs[-1]
            assert last.first + last.count <= run.first, f"{run.first} is put behind {last.end - 1}"
        else:
            self.first = run
        self._runs.append(run)
        self.count += run.ready

    def prepend_all(self, runs: list[StoredRun]) -> None:
        """Several at once, in order."""
        assert not self or not runs or runs[-1].end <= self.head.first, (
            f"{runs[-1].end - 1} is put before {self.head.first}"
        )
        self._runs[: self._head] = runs
        self._head = 0
        self.count += sum(run.ready for run in runs)
        self.first = self._runs[0] if self._runs else None

    def pop_head(self) -> StoredRun:
        run = self._runs[self._head]
        self._head += 1
        self.count -= run.ready
        if self._head == len(self._runs):
            self._runs, self._head, self.first = [], 0, None
            return run
        self.first = self._runs[self._head]
        if self._head > SLACK_MAX and self._head * 2 > len(self._runs):
            del self._runs[: self._head]
            self._head = 0
        return run

    def pop_tail(self) -> StoredRun:
        run = self._runs.pop()
        self.count -= run.ready
        if self._head == len(self._runs):
            self.take_all()
        return run

    def find(self, first: int) -> StoredRun | None:
        """The run that begins with this message."""
        at = bisect_left(self._runs, first, self._head, key=_FIRST)
        return self._runs[at] if at < len(self._runs) and self._runs[at].first == first else None

    def insert(self, run: StoredRun) -> None:
        """A run at its place."""
        at = bisect_left(self._runs, run.first, self._head, key=_FIRST)
        self._runs.insert(at, run)
        self.count += run.ready
        self.first = self._runs[self._head]

    def take_all(self) -> list[StoredRun]:
        runs = self._runs[self._head :]
        self._runs, self._head, self.count, self.first = [], 0, 0, None
        return runs
