"""File descriptors kept open for nothing, so that storage has some when the rest of the process has used up all others.

Sockets of strangers may take every descriptor of a process. The log then could not begin its next file, and no file could be
read or replaced. So a few are held from the start on; when opening a file finds none left, one of them is given up for it, and
held again as soon as files are closed. Most files are open for a moment, so a few spare ones serve any number of them. Whoever
keeps files open to read in them again keeps only the last one while some are lacking: a spare one is nobody's for long.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")
SPARE_COUNT = 16  # the log's next file with its directory, a reader, and the jobs of three threads at once, twice over
NONE_LEFT = (errno.EMFILE, errno.ENFILE)


class SpareDescriptors:
    """Used by several threads: lists append and pop as one step."""

    def __init__(self, count: int = SPARE_COUNT) -> None:
        self._count = count
        self._held: list[int] = []
        self.refill()

    def refill(self) -> None:
        """Hold as many as there should be, as far as the system has them."""
        while len(self._held) < self._count:
            try:
                self._held.append(os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC))
            except OSError:
                return

    def opened(self, opening: Callable[[], T]) -> T:
        """What `opening` returns, with a spare one given up for it if need be. Raises OSError."""
        while True:
            try:
                return opening()
            except OSError as error:
                if error.errno not in NONE_LEFT or not self._give_one_up():
                    raise

    @property
    def lacking(self) -> bool:
        """Whether some were given up, and the system has none to replace them."""
        if len(self._held) < self._count:
            self.refill()
        return len(self._held) < self._count

    def _give_one_up(self) -> bool:
        with suppress(IndexError):
            os.close(self._held.pop())
            return True
        return False

    def close(self) -> None:
        self._count = 0
        while self._give_one_up():
            pass

    def __del__(self) -> None:
        self.close()
