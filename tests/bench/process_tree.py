"""What a process and all that it has started take: this one with Spark's Java and Java's Pythons, or the nodes of a cluster."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_SCHEDULED = 2  # the kind of clock that clock_getcpuclockid(3), which Python lacks, names for a process


def processor_seconds(root: int | None = None) -> float:
    """Of all that run, and those of their children that have ended. `root`: the first of them, else this process."""
    return sum(
        _own_seconds(process) + sum(map(int, fields[13:15])) / _TICKS for process, fields in _tree(root or os.getpid())
    )


def members(root: int) -> list[int]:
    """The process and all that it has started, which run now."""
    return [process for process, _ in _tree(root)]


def seconds_of(processes: Iterable[int]) -> float:
    """Of these alone, for who asks so often that it would take too long to look for their children."""
    return sum(map(_own_seconds, processes))


def _own_seconds(process: int) -> float:
    """To the nanosecond, where /proc counts hundredths of a second: a run of 100,000 messages is ten of those."""
    try:
        return time.clock_gettime(~process << 3 | _SCHEDULED)
    except OSError:  # it has ended meanwhile
        return 0.0


def resident_bytes(root: int | None = None) -> int:
    """What several share, as Pythons do that were forked from one, counts once."""
    return sum(_kib(process, "Pss:") for process, _ in _tree(root or os.getpid())) << 10


def private_bytes(root: int | None = None) -> int:
    """Without what several share, of which each has less the more there are."""
    return sum(_kib(process, "Private_Clean:", "Private_Dirty:") for process, _ in _tree(root or os.getpid())) << 10


def _kib(process: int, *names: str) -> int:
    try:
        said = Path(f"/proc/{process}/smaps_rollup").read_text()
    except OSError:  # it has ended meanwhile
        return 0
    return sum(int(line.split()[1]) for line in said.splitlines() if line.startswith(names))


def _tree(root: int) -> Iterator[tuple[int, list[str]]]:
    """Each process, with what /proc says of it from its state on."""
    children: dict[int, list[int]] = {}
    said: dict[int, list[str]] = {}
    for directory in Path("/proc").iterdir():
        fields = _fields(directory) if directory.name.isdigit() else None
        if fields is not None:
            said[int(directory.name)] = fields
            children.setdefault(int(fields[1]), []).append(int(directory.name))
    waiting = [root]
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
