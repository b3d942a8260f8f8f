"""A thread that writes buffers to a file and syncs it, one write after the other, beside an event loop.

    caller    begin(descriptor, offset, parts)    the thread writes all parts one behind the other, and syncs the file
    loop      watches fileno()                    readable when the write has ended
    caller    end()                               how the first of those begun ended; blocks while it has not

Two may be on their way: the second follows the first when that is synced, without a word from the caller. If the first failed
it is left out, and its outcome says "before".

The compiled twin (native/_write_thread.pyx) is what this is for: its thread never takes the interpreter lock. A thread of
Python has to wait for that lock after each system call, and long beside a loop that is busy, which lets go of it for some
microseconds at a time only. What is defined here needs the lock, and is for machines without a compiler.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Sequence
from queue import SimpleQueue
from typing import TYPE_CHECKING

from native import compiled_twin
from storage.disk import Buffer
from storage.os_disk import write_parts

# What failed, "write", "fsync" or what went "before", and with which errno: 0 where the system gave none. None if nothing did.
# Then how many seconds it took.
WriteOutcome = tuple[str | None, int, float]
Write = tuple[int, int, list[Buffer]]
WRITES_MAX = 2
NOT_WRITTEN: WriteOutcome = ("before", 0, 0.0)


class WriteThreadPlain:
    """See the module. All methods belong to one thread, the caller's."""

    def __init__(self) -> None:
        """Raises OSError when the system has no descriptor or thread left."""
        self._ended = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_SEMAPHORE)
        self._on_their_way = 0
        self._closed = False
        self._outcomes: deque[WriteOutcome] = deque()
        self._writes: SimpleQueue[tuple[Write, bool] | None] = SimpleQueue()  # and whether it follows one on its way
        self._thread = threading.Thread(target=self._run, name="leveret-commit", daemon=True)
        self._thread.start()

    def fileno(self) -> int:
        return self._ended

    def begin(self, descriptor: int, offset: int, parts: Sequence[Buffer]) -> None:
        """The parts must not change until the end. Raises BufferError for one that does not lie in one piece."""
        assert not self._closed, "a write is begun, and its thread is closed"
        assert self._on_their_way < WRITES_MAX, "a third write is begun before the first has ended"
        if not all(memoryview(part).c_contiguous for part in parts):
            raise BufferError("a part that is to be written does not lie in one piece")
        self._writes.put(((descriptor, offset, list(parts)), self._on_their_way > 0))
        self._on_their_way += 1

    def end(self) -> WriteOutcome:
        assert self._on_their_way, "no write was begun"
        os.eventfd_read(self._ended)
        self._on_their_way -= 1
        return self._outcomes.popleft()

    def close(self) -> None:
        """Wait for the writes that were begun, and end the thread. Closing twice does no harm."""
        if not self._closed:
            self._closed = True
            self._on_their_way = 0
            self._writes.put(None)
            self._thread.join()
            os.close(self._ended)

    def _run(self) -> None:
        failed = False
        while (begun := self._writes.get()) is not None:
            write, follows = begun
            outcome = NOT_WRITTEN if failed and follows else _timed(write)
            failed = outcome[0] is not None
            self._outcomes.append(outcome)
            os.eventfd_write(self._ended, 1)


def _timed(write: Write) -> WriteOutcome:
    began_s = time.monotonic()
    failed, error = _write_and_sync(*write)
    return failed, error, time.monotonic() - began_s


def _write_and_sync(descriptor: int, offset: int, parts: list[Buffer]) -> tuple[str | None, int]:
    step = "write"
    try:
        write_parts(descriptor, offset, parts)
        step = "fsync"
        os.fdatasync(descriptor)
    except OSError as error:
        return step, error.errno or 0
    return None, 0


WriteThread = WriteThreadPlain

# For mypy the plain class is the type; the twin's has the same methods.
if not TYPE_CHECKING and (_twin := compiled_twin("write_thread")) is not None:
    WriteThread = _twin.WriteThread
