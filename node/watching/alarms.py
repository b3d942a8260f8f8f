"""Watches memory and disk, and holds publishers before either runs out.

The decision is a plain function of what was measured; the watcher measures, tells the broker's alarms, and tells the queues
how tight memory is (0.0 plenty, 1.0 at the watermark), so that they page out before publishers must be held.

What was freed is not always given back to the system by itself: after a queue of a million messages was drained 15 MB stayed
with the C library, which could have kept an alarm raised for ever. So memory is trimmed before an alarm is raised.
"""

from __future__ import annotations

import asyncio
import ctypes
import functools
import logging
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from broker.login.log_throttle import LogThrottle
from node.config import Config, DiskSection, MemorySection
from storage.errors import DiskFull, Exhausted, StorageError

logger = logging.getLogger("leveret.alarms")

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# The disk is looked at less often while filling it would take long, assuming nobody writes faster than this.
DISK_FILL_BYTES_PER_MS = 250_000
# What grows a little while publishers are held: the catalog, lists of files, facts, logs of the process.
SMALL_THINGS_BYTES = 16_777_216
FAILURES_LOGGED_S = 10.0


@functools.cache
def _own_memory(process: int) -> BinaryIO:
    """What the kernel tells of this one. Stays open: who has no descriptor left must know what memory it takes, too."""
    assert process == os.getpid(), (
        "a child has another file, and /proc may number processes otherwise than they do themselves"
    )
    return open("/proc/self/statm", "rb", buffering=0)


def resident_bytes() -> int:
    """Memory of this process as the kernel counts it."""
    return int(os.pread(_own_memory(os.getpid()).fileno(), 128, 0).split()[1]) * PAGE_BYTES


def memory_available_to_us() -> int:
    """The machine's memory, or the control group's limit where that is lower."""
    machine = os.sysconf("SC_PHYS_PAGES") * PAGE_BYTES
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            limit = Path(path).read_text().strip()
        except OSError:
            continue
        if limit.isdecimal():
            machine = min(machine, int(limit))
    return machine


def give_back_memory() -> None:
    """Hand what is free inside the C library back to the system, where the library can do that (glibc)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def memory_limit_bytes(section: MemorySection, available: int) -> int:
    return section.high_watermark_bytes or int(available * section.high_watermark / section.nodes_on_machine)


def memory_pressure(used: int, limit: int, paging_ratio: float) -> float:
    """0.0 below the paging point, rising to 1.0 at the watermark and beyond."""
    begin = limit * paging_ratio
    return min(1.0, max(0.0, (used - begin) / max(1.0, limit - begin)))


def disk_limit_bytes(config: Config) -> int:
    """With less free than this publishers are held: what was configured, and at least what a node needs to go on then. The log
    reserves its next file, what was read from publishers is still written, and what gives room back needs some before: a log
    file that is moved out is in segments and store files before it goes, and a compaction has its copy."""
    log = config.log
    needed = 2 * log.file_bytes_max + log.gathering_bytes_max + config.classic.store_file_bytes_max + SMALL_THINGS_BYTES
    return max(config.disk.free_limit_bytes, needed)


def disk_check_delay_ms(free: int, limit: int, section: DiskSection) -> int:
    """Half the time that filling the rest could take, within the configured bounds."""
    until_full = (free - limit) // (2 * DISK_FILL_BYTES_PER_MS)
    return max(section.check_interval_min_ms, min(section.check_interval_max_ms, until_full))


@dataclass(frozen=True, slots=True)
class AlarmPorts:
    """What the watcher may do, handed in by assemble."""

    raise_alarm: Callable[[str, str], None]  # kind, reason for people
    clear_alarm: Callable[[str], None]
    set_pressure: Callable[[float], None]
    free_bytes: Callable[[], int]
    shortage: Callable[[], Exhausted | None] = lambda: None  # for which the log could not reserve its next file
    make_room: Callable[[int], Awaitable[object]] | None = (
        None  # until so much is free, from what the node can do without
    )
    free_dead_entries: Callable[[], None] = lambda: None  # of queues' logs: some of them, beside the loop
    used_bytes: Callable[[], int] = resident_bytes
    give_back_memory: Callable[[], None] = give_back_memory


class Watcher:
    """Measures on its own timers until it is cancelled."""

    def __init__(self, memory: MemorySection, disk: DiskSection, disk_limit: int, ports: AlarmPorts) -> None:
        self._memory = memory
        self._disk = disk
        self.disk_limit = disk_limit
        self._ports = ports
        self.memory_limit = memory_limit_bytes(memory, memory_available_to_us())
        self.memory_used = 0
        self.disk_free = 0
        self._raised: set[str] = set()
        self._failures = LogThrottle(FAILURES_LOGGED_S)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch_memory())
            tasks.create_task(self._watch_disk())

    async def _watch_memory(self) -> None:
        while True:
            with self._measuring("memory"):
                self.check_memory()
            await asyncio.sleep(self._memory.check_interval_ms / 1000)

    async def _watch_disk(self) -> None:
        while True:
            with self._measuring("the disk"):
                await self.look_at_disk()
            await asyncio.sleep(self.until_next_look_ms() / 1000)

    def until_next_look_ms(self) -> int:
        """At the disk. While an alarm lasts often: with much room but no descriptors publishers were held for ten seconds."""
        if "disk" in self._raised:
            return self._disk.check_interval_min_ms
        return disk_check_delay_ms(self.disk_free, self.disk_limit, self._disk)

    @contextmanager
    def _measuring(self, what: str) -> Iterator[None]:
        """Without descriptors, or from a failing device, nothing can be measured; alarms stay as they are until it can be."""
        try:
            yield
        except (OSError, StorageError) as error:
            suppressed = self._failures.may_log(what, asyncio.get_running_loop().time())
            if suppressed is not None:
                logger.error("%s cannot be measured: %s (%d more like this were not logged)", what, error, suppressed)

    def check_memory(self) -> None:
        used = self._ports.used_bytes()
        if used > self.memory_limit:
            self._ports.give_back_memory()
            used = self._ports.used_bytes()
        self.memory_used = used
        self._ports.set_pressure(memory_pressure(used, self.memory_limit, self._memory.paging_ratio))
        self._note("memory", used > self.memory_limit, f"low on memory: {used} of {self.memory_limit} bytes used")

    async def look_at_disk(self) -> None:
        """An alarm is for what nothing else helps against: what the node can do without goes first, where the room that this
        gives is what is lacking."""
        ports = self._ports
        free = ports.free_bytes()
        if free < self.disk_limit or isinstance(ports.shortage(), DiskFull):
            ports.free_dead_entries()
            if ports.make_room is not None:
                await ports.make_room(self.disk_limit)
            free = ports.free_bytes()
        self.check_disk(free)

    def check_disk(self, free: int) -> None:
        self.disk_free = free
        shortage = self._ports.shortage()
        reasons = [f"low on disk: {free} bytes free, limit {self.disk_limit}"] if free < self.disk_limit else []
        reasons += [f"the log cannot reserve its next file: {shortage}"] if shortage else []
        self._note("disk", bool(reasons), ", and ".join(reasons))

    def _note(self, kind: str, is_low: bool, state: str) -> None:
        if not is_low:
            self._ports.clear_alarm(kind)
        else:
            self._ports.raise_alarm(kind, state)
        if is_low and kind not in self._raised:
            self._raised.add(kind)
            logger.warning("%s alarm: %s. Publishers are held, consumers go on", kind, state)
        elif not is_low and kind in self._raised:
            self._raised.discard(kind)
            logger.warning("%s alarm is over. Publishers go on", kind)

    def statistics(self) -> dict[str, int]:
        return {
            "memory_used": self.memory_used,
            "memory_limit": self.memory_limit,
            "disk_free": self.disk_free,
            "disk_free_limit": self.disk_limit,
        }
