"""Ends a process with SIGKILL at a moment that it tells itself: as it logs a line, or instead of one of its syncs.

So an operation is cut short at the same step in every run, whatever the machine has to do. A library in front of libc's,
compiled when it is needed.
"""

from __future__ import annotations

from pathlib import Path

from tests.chaos import fsync_shim
from tests.crash.power import run

SOURCE = Path(__file__).with_suffix(".c")
available = fsync_shim.available


class CutShim:
    """One library, and a control file for each process."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._library = scratch / "cut_shim.so"
        run("cc", "-shared", "-fPIC", "-O2", "-o", str(self._library), str(SOURCE), "-ldl")

    def environment(self, name: str) -> dict[str, str]:
        return {"LD_PRELOAD": str(self._library), "CHAOS_CUT_LINE": str(self._control(name))}

    def environment_until_sync(self, number: int) -> dict[str, str]:
        """Of a process that is killed instead of this sync, counted from 1."""
        return {"LD_PRELOAD": str(self._library), "CHAOS_CUT_SYNC": str(number)}

    def kill_at_line(self, name: str, text: str) -> None:
        """In one step, so that half a text is never read."""
        made = self._control(name).with_suffix(".new")
        made.write_text(text)
        made.rename(self._control(name))

    def heal(self, name: str) -> None:
        self._control(name).unlink(missing_ok=True)

    def _control(self, name: str) -> Path:
        return self._scratch / f"{name}.cut"
