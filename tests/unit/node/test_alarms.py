"""node/watching/alarms.py: when publishers are held, and how early queues are told to page out."""

import asyncio
import errno
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from node.config import Config, DiskSection, LogSection, MemorySection
from node.watching.alarms import (
    AlarmPorts,
    Watcher,
    disk_check_delay_ms,
    disk_limit_bytes,
    memory_limit_bytes,
    memory_pressure,
    resident_bytes,
)
from storage.errors import DiskFull, Exhausted, NoDescriptors
from storage.os_disk import OsDisk


class Ports:
    def __init__(self) -> None:
        self.alarms: dict[str, str] = {}
        self.pressure = 0.0
        self.used = 0
        self.freed_but_kept = 0
        self.shortage: Exhausted | None = None

    def as_ports(self) -> AlarmPorts:
        return AlarmPorts(
            raise_alarm=self.alarms.__setitem__,
            clear_alarm=lambda kind: self.alarms.pop(kind, None),
            set_pressure=lambda pressure: setattr(self, "pressure", pressure),
            free_bytes=lambda: 0,
            shortage=lambda: self.shortage,
            used_bytes=lambda: self.used + self.freed_but_kept,
            give_back_memory=lambda: setattr(self, "freed_but_kept", 0),
        )


def watcher(ports: Ports) -> Watcher:
    return Watcher(MemorySection(high_watermark_bytes=1000, paging_ratio=0.5), DiskSection(), 500, ports.as_ports())


def test_memory_above_the_watermark_raises_and_below_clears_the_alarm() -> None:
    ports = Ports()
    watch = watcher(ports)
    ports.used = 1001
    watch.check_memory()
    assert "1001 of 1000 bytes" in ports.alarms["memory"]
    ports.used = 1000
    watch.check_memory()
    assert ports.alarms == {}


def test_memory_that_was_freed_and_not_given_back_raises_no_alarm() -> None:
    ports = Ports()
    ports.used, ports.freed_but_kept = 900, 200
    watcher(ports).check_memory()
    assert ports.alarms == {}
    assert ports.freed_but_kept == 0


def test_an_operator_reads_in_the_log_when_publishers_are_held_and_when_they_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ports = Ports()
    watch = watcher(ports)
    for used in (1001, 1002, 999, 998):
        ports.used = used
        watch.check_memory()
    watch.check_disk(499)
    watch.check_disk(501)
    assert [record.getMessage() for record in caplog.records] == [
        "memory alarm: low on memory: 1001 of 1000 bytes used. Publishers are held, consumers go on",
        "memory alarm is over. Publishers go on",
        "disk alarm: low on disk: 499 bytes free, limit 500. Publishers are held, consumers go on",
        "disk alarm is over. Publishers go on",
    ]


def test_disk_below_the_limit_raises_and_at_the_limit_clears_the_alarm() -> None:
    ports = Ports()
    watch = watcher(ports)
    watch.check_disk(499)
    assert "499 bytes free, limit 500" in ports.alarms["disk"]
    watch.check_disk(500)
    assert ports.alarms == {}


def test_dead_entries_are_freed_while_the_disk_is_low() -> None:
    """With nothing in its queues a node held publishers for ever."""
    ports, freed = Ports(), list[int]()
    free = 500
    as_ports = replace(ports.as_ports(), free_bytes=lambda: free, free_dead_entries=lambda: freed.append(free))
    watch = Watcher(MemorySection(high_watermark_bytes=1000), DiskSection(), 500, as_ports)
    asyncio.run(watch.look_at_disk())
    assert freed == []
    free = 499
    asyncio.run(watch.look_at_disk())
    assert freed == [499]
    assert "disk" in ports.alarms
    free, ports.shortage = 500, DiskFull("cannot create the file")
    asyncio.run(watch.look_at_disk())
    assert freed == [499, 500]


def test_without_descriptors_publishers_are_held_and_nothing_gives_way() -> None:
    """Each look at the disk deleted a file of the archive, with 75 GB free, and the alarm said that the disk was low."""
    ports, given = Ports(), list[str]()
    ports.shortage = NoDescriptors("cannot create the file: Too many open files")

    async def make_room(_: int) -> None:
        given.append("archived files")

    as_ports = replace(
        ports.as_ports(),
        free_bytes=lambda: 500,
        free_dead_entries=lambda: given.append("dead entries"),
        make_room=make_room,
    )
    watch = Watcher(MemorySection(high_watermark_bytes=1000), DiskSection(), 500, as_ports)
    asyncio.run(watch.look_at_disk())
    assert given == []
    assert ports.alarms["disk"] == ("the log cannot reserve its next file: cannot create the file: Too many open files")
    ports.shortage = DiskFull("No space left")
    asyncio.run(watch.look_at_disk())
    assert given == ["dead entries", "archived files"]


def test_an_alarm_for_want_of_descriptors_is_over_soon_after_they_are_there() -> None:
    """With much room on the disk the next look came ten seconds later."""
    ports, section = Ports(), DiskSection(check_interval_min_ms=100, check_interval_max_ms=10_000)
    watch = Watcher(MemorySection(high_watermark_bytes=1000), section, 500, ports.as_ports())
    ports.shortage = NoDescriptors("cannot create the file: Too many open files")
    watch.check_disk(10**13)
    assert watch.until_next_look_ms() == 100
    ports.shortage = None
    watch.check_disk(10**13)
    assert ports.alarms == {}
    assert watch.until_next_look_ms() == 10_000


def test_pressure_rises_from_the_paging_point_to_the_watermark() -> None:
    assert [memory_pressure(used, 1000, 0.5) for used in (0, 500, 750, 1000, 2000)] == [0.0, 0.0, 0.5, 1.0, 1.0]


def test_an_absolute_watermark_wins_over_the_share() -> None:
    assert memory_limit_bytes(MemorySection(high_watermark=0.5), 1000) == 500
    assert memory_limit_bytes(MemorySection(high_watermark=0.5, high_watermark_bytes=7), 1000) == 7


def test_nodes_of_one_machine_divide_the_share_of_its_memory() -> None:
    assert memory_limit_bytes(MemorySection(high_watermark=0.5, nodes_on_machine=4), 1000) == 125
    assert memory_limit_bytes(MemorySection(high_watermark_bytes=7, nodes_on_machine=4), 1000) == 7


def test_the_disk_is_looked_at_more_often_the_fuller_it_is() -> None:
    section = DiskSection(check_interval_min_ms=100, check_interval_max_ms=10_000)
    assert disk_check_delay_ms(0, 50_000_000, section) == 100
    assert disk_check_delay_ms(50_000_000 + 1_000 * 500_000, 50_000_000, section) == 1_000
    assert disk_check_delay_ms(10**13, 50_000_000, section) == 10_000


def test_the_limit_leaves_room_for_what_the_node_needs_however_low_it_is_configured() -> None:
    """With 50 MB the alarm came when the log, which takes 64 MiB for each file, had ended the node already."""
    config = Config()
    limit = disk_limit_bytes(config)
    log = config.log
    assert limit >= 2 * log.file_bytes_max + log.gathering_bytes_max + config.classic.store_file_bytes_max
    assert disk_limit_bytes(Config(disk=DiskSection(free_limit_bytes=0))) == limit
    assert disk_limit_bytes(Config(disk=DiskSection(free_limit_bytes=10**10))) == 10**10
    assert disk_limit_bytes(Config(log=LogSection(file_bytes_max=10**9))) > 2 * 10**9


def test_publishers_are_held_while_the_log_cannot_reserve_its_next_file() -> None:
    ports = Ports()
    watch = watcher(ports)
    ports.shortage = DiskFull("no room for the file")
    watch.check_disk(10**12)
    assert "cannot reserve its next file" in ports.alarms["disk"]
    ports.shortage = None
    watch.check_disk(10**12)
    assert ports.alarms == {}


def test_memory_is_measured_where_no_descriptor_is_left(all_descriptors: Callable[[], Callable[[], None]]) -> None:
    """A node without any did not know its memory, and raised no alarm."""
    resident_bytes()
    all_descriptors()
    assert resident_bytes() > 1_000_000


def test_resident_memory_is_measured() -> None:
    assert resident_bytes() > 1_000_000


def test_a_measurement_that_fails_ends_nothing_and_alarms_stay_as_they_are(caplog: pytest.LogCaptureFixture) -> None:
    """/proc is read through descriptors, which strangers can take: the node exited with 74 then."""
    ports = Ports()
    measured = 0

    def used_bytes() -> int:
        nonlocal measured
        measured += 1
        if 2 < measured < 6:  # the first check measures twice
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return 1_001 if measured < 3 else 999

    async def scenario() -> None:
        raised, cleared = asyncio.Event(), asyncio.Event()

        def clear_alarm(kind: str) -> None:
            if kind == "memory" and raised.is_set():
                cleared.set()

        watch = Watcher(
            MemorySection(high_watermark_bytes=1000, check_interval_ms=1),
            DiskSection(),
            500,
            replace(
                ports.as_ports(),
                used_bytes=used_bytes,
                free_bytes=lambda: 10**12,
                raise_alarm=lambda kind, reason: raised.set(),
                clear_alarm=clear_alarm,
            ),
        )
        watching = asyncio.create_task(watch.run())
        waiting = asyncio.create_task(cleared.wait())
        await asyncio.wait((watching, waiting), timeout=10, return_when=asyncio.FIRST_COMPLETED)
        assert not watching.done(), f"the watcher has ended: {watching.exception()!r}"
        assert waiting.done(), "nothing is measured any more"
        assert measured > 5, "not before it can be measured again"
        watching.cancel()

    asyncio.run(scenario())
    assert caplog.text.count("memory cannot be measured: [Errno 24] Too many open files") == 1


def test_a_disk_that_cannot_say_how_much_is_free_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The disk says so with an error of its own kind, which ended the watcher, and with it the node."""
    measured = 0
    statvfs = os.statvfs

    def failing_at_first(path: str) -> os.statvfs_result:
        nonlocal measured
        measured += 1
        if measured < 4:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return statvfs(path)

    async def scenario() -> None:
        cleared = asyncio.Event()
        watch = Watcher(
            MemorySection(),
            DiskSection(check_interval_min_ms=1, check_interval_max_ms=1),
            0,
            replace(
                Ports().as_ports(),
                free_bytes=OsDisk(str(tmp_path)).free_bytes,
                clear_alarm=lambda kind: cleared.set() if kind == "disk" else None,
            ),
        )
        watching = asyncio.create_task(watch.run())
        async with asyncio.timeout(10):
            await cleared.wait()
        assert watch.disk_free > 0 and measured == 4
        watching.cancel()

    monkeypatch.setattr(os, "statvfs", failing_at_first)
    asyncio.run(scenario())
    assert "the disk cannot be measured: cannot ask the free space of" in caplog.text


def look(free: list[int], limit: int = 500) -> tuple[dict[str, str], list[int]]:
    """One look at a disk with so much free, before and after the node gave what it can do without: alarms, and what was asked
    for."""
    ports, wanted = Ports(), []

    async def make_room(bytes_free: int) -> None:
        wanted.append(bytes_free)
        free.pop(0)

    given = replace(ports.as_ports(), free_bytes=lambda: free[0], make_room=make_room)
    asyncio.run(Watcher(MemorySection(), DiskSection(), limit, given).look_at_disk())
    return ports.alarms, wanted


def test_what_the_node_can_do_without_goes_before_an_alarm_is_raised() -> None:
    assert look([499, 500]) == ({}, [500])
    alarms, wanted = look([100, 499])
    assert "499 bytes free" in alarms["disk"] and wanted == [500]


def test_nothing_has_to_go_while_there_is_room() -> None:
    assert look([500]) == ({}, [])


def test_a_log_without_room_for_its_next_file_asks_for_some_too() -> None:
    ports, asked = Ports(), []
    ports.shortage = DiskFull("no room for the file")

    async def make_room(bytes_free: int) -> None:
        asked.append(bytes_free)
        ports.shortage = None

    given = replace(ports.as_ports(), free_bytes=lambda: 1000, make_room=make_room)
    asyncio.run(Watcher(MemorySection(), DiskSection(), 500, given).look_at_disk())
    assert ports.alarms == {} and asked == [500]
