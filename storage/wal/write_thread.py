"""A thread that writes buffers to a file and syncs it, one write at a time, beside an event loop.

    caller    begin(descriptor, offset, parts)    the thread writes all parts one behind the other, and syncs the file
    loop      watches fileno()                    readable when the write has ended
    caller    end()                               how it ended; blocks while it has not

The compiled twin (native/_write_thread.pyx) is what this is for: its thread never takes the interpreter lock. A thread of
Python has to wait for that lock after each system call, and long beside a loop that is busy, which lets go of it for some
microseconds at a time only. What is defined here needs the lock, and is for machines without a compiler.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from queue import SimpleQueue
from typing import TYPE_CHECKING

from native import compiled_twin
from storage.disk import Buffer
from storage.os_disk import write_parts

# What failed, "write" or "fsync", and with which errno: 0 where the system wrote nothing and gave no reason. None if nothing
# did. Then how many seconds it took.
WriteOutcome = tuple[str | None, int, float]
Write = tuple[int, int, list[Buffer]]


class WriteThreadPlain:
    """See the module. All methods belong to one thread, the caller's."""

    def __init__(self) -> None:
        """Raises OSError when the system has no descriptor or thread left."""
        self._ended = os.eventfd(0, os.EFD_CLOEXEC)
        self._begun = False
        self._closed = False
        self._outcome: WriteOutcome = (None, 0, 0.0)
        self._writes: SimpleQueue[Write | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="leveret-commit", daemon=True)
        self._thread.start()

    def fileno(self) -> int:
        return self._ended

    def begin(self, descriptor: int, offset: int, parts: Sequence[Buffer]) -> None:
        """The parts must not change until the end. Raises BufferError for one that does not lie in one piece."""
        assert not self._closed, "a write is begun, and its thread is closed"
        assert not self._begun, "a write is begun before the one before has ended"
        if not all(memoryview(part).c_contiguous for part in parts):
            raise BufferError("a part that is to be written does not lie in one piece")
        self._begun = True
        self._writes.put((descriptor, offset, list(parts)))

    def end(self) -> WriteOutcome:
        assert self._begun, "no write was begun"
        os.eventfd_read(self._ended)
        self._begun = False
        return self._outcome

    def close(self) -> None:
        """Wait for the write that was begun, and end the thread. Closing twice does no harm."""
        if not self._closed:
            self._closed = True
            self._begun = False
            self._writes.put(None)
            self._thread.join()
            os.close(self._ended)

    def _run(self) -> None:
        while (write := self._writes.get()) is not None:
            began_s = time.monotonic()
            failed, error = _write_and_sync(*write)
            self._outcome = (failed, error, time.monotonic() - began_s)
            os.eventfd_write(self._ended, 1)


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
