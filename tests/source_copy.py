"""The source of Leveret without what was made of it, in a directory in which it may be built."""

from __future__ import annotations

import shutil
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOT_SOURCE = shutil.ignore_patterns("__pycache__", "*.so", "*.c")


def copy_source(to: Path) -> None:
    """What the builder of an image would be sent: .dockerignore names it."""
    to.mkdir()
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        path = ROOT / line.removeprefix("!")
        if line.startswith("!") and path.exists() and path.name != "wheels":
            if path.is_dir():
                shutil.copytree(path, to / path.name, ignore=NOT_SOURCE)
            else:
                shutil.copy(path, to)
