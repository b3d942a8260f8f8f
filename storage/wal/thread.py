"""The log's thread: runs jobs in the order they were submitted, and has their results called on the event loop.

    loop      submit ---- jobs ---->  thread   runs each job, which may `report` a result
    loop      collect <-- results --  thread   wakes the loop with call_soon_threadsafe; a loop that blocks `wait`s for one

A result is a call that belongs to the loop. Results are called in the order they were reported.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Protocol

Job = Callable[[], None]


class Loop(Protocol):
    """What the log needs of an event loop."""

    def call_soon(self, callback: Callable[..., object], *args: Any) -> object: ...

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any) -> object: ...


class LogThread:
    """See the module. All but `report` belongs to the loop."""

    def __init__(self, loop: Loop, crashed: Callable[[Exception], None]) -> None:
        """`crashed` is called in the thread when a job raises, before the thread ends."""
        self._loop = loop
        self._crashed = crashed
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._results: SimpleQueue[Job] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="leveret-log", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> None:
        self._jobs.put(job)

    def report(self, result: Job) -> None:
        """Called in the thread: have this called on the loop."""
        self._results.put(result)
        with suppress(RuntimeError):  # the loop is closed already: the last `collect` calls what is left
            self._loop.call_soon_threadsafe(self.collect)

    def collect(self) -> None:
        while not self._results.empty():
            self._results.get()()

    def wait(self) -> None:
        """Block until there is a result, and call that one."""
        self._results.get()()

    def stop(self) -> None:
        """Blocks until all jobs are done. What they reported is there to be collected."""
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except Exception as error:  # a bug; without a report callers would wait forever for a thread that is gone
                self._crashed(error)
                raise
