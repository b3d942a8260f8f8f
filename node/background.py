"""Work that blocks (an fsync, a password hash) is done beside the event loop, and its end is told on the loop.

`Threads` is what a node uses. `Inline` does the work at once where it is asked for, for tests and simulation; nothing in
the node may rely on `done` being called later than `run` returns.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

T = TypeVar("T")
# Called with the result, or with None and what was raised.
Done = Callable[[T | None, Exception | None], None]


class Background(Protocol):
    def run(self, work: Callable[[], T], done: Done[T]) -> None:
        """Do `work` without holding up the event loop, then call `done` on the loop."""

    def close(self) -> None:
        """Wait for the work that has begun. What finishes now is not told any more."""


class Threads:
    """A few threads of one purpose; work beyond their number waits in order."""

    def __init__(self, loop: asyncio.AbstractEventLoop, count: int, name: str, niceness: int = 0) -> None:
        """With a niceness above 0 the threads run when nothing else wants the processor."""
        self._loop = loop
        self._pool = ThreadPoolExecutor(count, name, _be_nice, (niceness,))
        self._closed = False

    def run(self, work: Callable[[], T], done: Done[T]) -> None:
        assert not self._closed, "work after the end"
        self._pool.submit(self._work, work, done)

    def _work(self, work: Callable[[], T], done: Done[T]) -> None:
        try:
            result = work()
        except Exception as error:
            self._tell(done, None, error)
        else:
            self._tell(done, result, None)

    def _tell(self, done: Done[T], result: T | None, error: Exception | None) -> None:
        # The loop may have ended between the two lines; then nobody waits for the answer either.
        if not self._closed and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(done, result, error)

    def close(self) -> None:
        self._closed = True
        self._pool.shutdown(wait=True)


class Inline:
    """At once, in the caller's thread."""

    def run(self, work: Callable[[], T], done: Done[T]) -> None:
        try:
            result = work()
        except Exception as error:
            done(None, error)
        else:
            done(result, None)

    def close(self) -> None:
        pass


def _be_nice(niceness: int) -> None:
    """Of the calling thread alone: Linux schedules each by its own. Where that is not permitted, things go on as they are."""
    if niceness:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness)
