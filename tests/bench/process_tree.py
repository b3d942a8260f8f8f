"""What this process and all that it has started take: Spark's Java, and Java's Pythons."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds() -> float:
    """Of all that run, and those of their children that have ended."""
    return sum(sum(map(int, fields[11:15])) for _, fields in _tree()) / _TICKS


def resident_bytes() -> int:
    """What several share, as Pythons do that were forked from one, counts once."""
    return sum(_proportional_kib(process) for process, _ in _tree()) << 10


def _proportional_kib(process: int) -> int:
    try:
        said = Path(f"/proc/{process}/smaps_rollup").read_text()
    except OSError:  # it has ended meanwhile
        return 0
    return next((int(line.split()[1]) for line in said.splitlines() if line.startswith("Pss:")), 0)


def _tree() -> Iterator[tuple[int, list[str]]]:
    """Each process, with what /proc says of it from its state on."""
    children: dict[int, list[int]] = {}
    said: dict[int, list[str]] = {}
    for directory in Path("/proc").iterdir():
        fields = _fields(directory) if directory.name.isdigit() else None
        if fields is not None:
            said[int(directory.name)] = fields
            children.setdefault(int(fields[1]), []).append(int(directory.name))
    waiting = [os.getpid()]
    while waiting:
        process = waiting.pop()
        yield process, said[process]
        waiting += children.get(process, [])


def _fields(directory: Path) -> list[str] | None:
    """None: it has ended meanwhile."""
    try:
        return (directory / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
