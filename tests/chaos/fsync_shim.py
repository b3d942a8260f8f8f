"""Makes a process's fsync slow, or fail, while it runs: a library in front of libc's, compiled when it is needed."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.crash.power import run

SOURCE = Path(__file__).with_suffix(".c")


def available() -> str | None:
    """Why fsync cannot be made faulty here, or None when it can."""
    return None if shutil.which("cc") else "no C compiler (cc) is installed"


class FsyncShim:
    """One library, and a control file for each process."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._library = scratch / "fsync_shim.so"
        run("cc", "-shared", "-fPIC", "-O2", "-o", str(self._library), str(SOURCE), "-ldl")

    def environment(self, name: str) -> dict[str, str]:
        return {"LD_PRELOAD": str(self._library), "CHAOS_FSYNC": str(self._control(name))}

    def slow(self, name: str, seconds: float) -> None:
        self._say(name, f"{int(seconds * 1_000_000)} 0\n")

    def fail(self, name: str) -> None:
        self._say(name, "0 1\n")

    def heal(self, name: str) -> None:
        self._control(name).unlink(missing_ok=True)

    def _say(self, name: str, text: str) -> None:
        """At once, so that half a line is never read."""
        made = self._control(name).with_suffix(".new")
        made.write_text(text)
        made.rename(self._control(name))

    def _control(self, name: str) -> Path:
        return self._scratch / f"{name}.fsync"
