"""Limits on a running process: processor time and memory by cgroups (both versions), descriptors by prlimit.

A limit is set while the process runs, and lifted again. A process that is moved into a cgroup leaves what it has already used
with the group that it came from, so a limit of memory counts what it takes from then on: anonymous memory and page cache. The
kernel reclaims the cache, which makes files slow, and kills the process when the rest exceeds the limit. Needs root.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
CPU, MEMORY = "cpu", "memory"
CPU_PERIOD_US = 100_000


def available() -> str | None:
    """Why processes cannot be limited here, or None when they can."""
    if os.geteuid() != 0:
        return "cgroups need root"
    missing = [controller for controller in (CPU, MEMORY) if not _is_usable(controller)]
    return f"there is no writable cgroup for {' and '.join(missing)}" if missing else None


class Limits:
    """The cgroups of one process."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._groups: dict[Path, Path] = {}  # ours: where the process came from

    def limit_processor(self, share: float) -> None:
        """This share of one core."""
        group = self._entered(CPU)
        quota_us = int(CPU_PERIOD_US * share)
        if _is_version_2(CPU):
            (group / "cpu.max").write_text(f"{quota_us} {CPU_PERIOD_US}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(CPU_PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(quota_us))

    def limit_memory(self, further_bytes: int) -> None:
        """This much more than it has now."""
        group = self._entered(MEMORY)
        (group / ("memory.max" if _is_version_2(MEMORY) else "memory.limit_in_bytes")).write_text(str(further_bytes))

    def have_bitten(self) -> bool:
        """Whether the kernel has held the process back for each of them."""
        return all(_times_held_back(group) for group in self._groups)

    def remove(self) -> None:
        """The process, if it still runs, goes back to the groups that it came from."""
        for ours, home in self._groups.items():
            for pid in (ours / "cgroup.procs").read_text().split():
                (home / "cgroup.procs").write_text(pid)
            ours.rmdir()
        self._groups.clear()

    def _entered(self, controller: str) -> Path:
        home = _group_of(self._pid, controller)
        ours = _root(controller) / f"leveret-chaos-{controller}-{self._pid}"
        if ours not in self._groups:
            ours.mkdir()
            self._groups[ours] = home
            (ours / "cgroup.procs").write_text(str(self._pid))
        return ours


def _times_held_back(group: Path) -> int:
    """By the counters of whichever of these the group has."""
    if (failed := group / "memory.failcnt").exists():
        return int(failed.read_text())
    for file, counter in (("cpu.stat", "nr_throttled"), ("memory.events", "max")):
        if (group / file).exists():
            counters = dict(line.split() for line in (group / file).read_text().splitlines())
            if counter in counters:
                return int(counters[counter])
    raise FileNotFoundError(f"{group} counts nothing that tells whether it limits")


def limit_descriptors(pid: int) -> tuple[int, int]:
    """It can open nothing more: the limit is the lowest number that is free. Returns the limits that it had."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    taken = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
    lowest_free = next(number for number in range(len(taken) + 1) if number not in taken)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (lowest_free, before[1]))
    return before


def restore_descriptors(pid: int, before: tuple[int, int]) -> None:
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def _is_version_2(controller: str) -> bool:
    return not (CGROUPS / controller).is_dir()


def _root(controller: str) -> Path:
    return CGROUPS if _is_version_2(controller) else CGROUPS / controller


def _is_usable(controller: str) -> bool:
    if not _is_version_2(controller):
        return os.access(CGROUPS / controller, os.W_OK)
    enabled = CGROUPS / "cgroup.subtree_control"
    return enabled.exists() and controller in enabled.read_text().split() and os.access(CGROUPS, os.W_OK)


def _group_of(pid: int, controller: str) -> Path:
    """Where the process is now, by lines of `hierarchy:controllers:path`; version 2 has one hierarchy without names."""
    wanted = "" if _is_version_2(controller) else controller
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if wanted in controllers.split(","):
            return _root(controller) / path.lstrip("/")
    raise ProcessLookupError(f"process {pid} is in no cgroup of {controller}")
