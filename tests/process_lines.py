"""A process whose lines are kept as they come, and waited for."""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

SAID_WITHIN_S = 60.0


class ProcessLines:
    """Started at once. Every line that it prints, also as an error, is kept; `said` waits for one."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], directory: Path) -> None:
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self._ended = False
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=directory, env=environment
        )
        threading.Thread(target=self._read, daemon=True).start()

    def said(self, pattern: str, after: int = 0, within_s: float = SAID_WITHIN_S) -> int:
        """Wait until a line behind the first `after` matches; the number of lines up to it."""
        looked_for = re.compile(pattern)
        until = time.monotonic() + within_s
        with self._changed:
            at = after
            while True:
                for number, line in enumerate(self.lines[at:], at + 1):
                    if looked_for.search(line):
                        return number
                at = len(self.lines)
                if self._ended or not self._changed.wait(until - time.monotonic()):
                    raise AssertionError(f"nobody said {pattern!r}; the last was\n" + "\n".join(self.lines[-60:]))

    def _read(self) -> None:
        assert self.process.stdout is not None, "started with a pipe"
        for line in self.process.stdout:
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()
