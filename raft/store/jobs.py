"""Work beside the event loop, one piece after another: the jobs of raft/store/node_log.py.

A job looks at the groups when its turn comes, waits until all that they had appended until then is durable, does its work
where it may block, and ends on the loop. So what it relies on can no more be undone by a crash, and no other job changes files
meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from storage.beside_loop import Background
from storage.errors import Exhausted
from storage.interval import Interval

RETRY_MS = 5_000  # after the disk was full


class Job(Protocol):
    """One piece of work. `full` and `end` are called on the loop, one of them, after `work`."""

    def plan(self) -> int | None:
        """Look at what is there. Returns the ticket of the log that must be durable before the work; None: nothing is to be
        done, and nothing else is called."""

    def work(self) -> None:
        """What blocks."""

    def end(self) -> None:
        """It worked. Raises Exhausted, having done nothing: then `full` is called, too."""

    def full(self) -> bool:
        """There was no room, or it failed, or no job is done any more. Returns whether to try again later, from the plan on,
        when there may be room. Others do not wait for that: one of them may be what makes room."""


class Jobs:
    """Runs jobs in the order in which they are asked for."""

    def __init__(
        self, background: Background, durable: Callable[[], int], failed: Callable[[Job, Exception], None]
    ) -> None:
        self.stopped = False
        self._background = background
        self._durable = durable
        self._failed = failed
        self._waiting: deque[Job] = deque()
        self._without_room: list[Job] = []  # to be tried again
        self._ticket: int | None = None  # that the first of them waits for, once it was planned
        self._busy = False
        self._pause = Interval(RETRY_MS)  # begins at the next tick

    @property
    def idle(self) -> bool:
        """Whether nothing is under way or waits, not even for room."""
        return self.free and not self.lacks_room

    @property
    def free(self) -> bool:
        """Whether a job that is added now begins at once."""
        return not self._waiting

    @property
    def lacks_room(self) -> bool:
        """Whether a job is to be tried again when there may be room."""
        return bool(self._without_room)

    def add(self, job: Job) -> None:
        if self.stopped:
            job.full()  # who waits for it must not wait for ever
            return
        self._waiting.append(job)
        self.go_on()

    def stop(self) -> None:
        """No job is done any more, and whoever waits for one is told."""
        self.stopped = True
        waiting, self._waiting = [*self._waiting, *self._without_room], deque()
        self._without_room = []
        for job in waiting:
            job.full()

    def tick(self, now_ms: int) -> None:
        if not self._without_room:
            return
        if not self._pause.begun:
            self._pause.begin(now_ms)
        elif not self._pause.lasts(now_ms):
            self._pause.end()
            again, self._without_room = self._without_room, []
            self._waiting += again
            self.go_on()

    def go_on(self) -> None:
        """Called when something was added, or became durable."""
        while self._waiting and not (self._busy or self.stopped):
            job = self._waiting[0]
            if self._ticket is None:
                self._ticket = job.plan()
                if self._ticket is None:
                    self._waiting.popleft()
                    continue
            if self._ticket > self._durable():
                return
            self._busy = True
            self._background.run(job.work, self._done)

    def _done(self, _: None, error: Exception | None) -> None:
        job = self._waiting.popleft()
        self._busy, self._ticket = False, None
        if error is None:
            try:
                job.end()
            except Exhausted as lacking:
                error = lacking
        if error is None:
            pass
        elif isinstance(error, Exhausted):
            if job.full():
                self._without_room.append(job)
        else:
            job.full()
            self._failed(job, error)
        self.go_on()
