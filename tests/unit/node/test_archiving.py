"""node/archiving.py: when the archive is looked at, and what its failures end: nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

import pytest

from node.archiving import TIDY_MS, NodeArchive
from node.background import Done, Inline
from node.foundation import Ports
from storage.archive.archive_window import ArchiveLimits
from storage.names import ARCHIVE_DIRECTORY, archived, log_file
from tests.sim.clock import SimClock, SimLoop
from tests.sim.disk import Fault, SimDisk, fault_on, no_faults

T = TypeVar("T")


def archive_on(disk: SimDisk) -> tuple[NodeArchive, list[int]]:
    """And the times at which it was tidied."""
    clock = SimClock()
    ports = Ports(SimLoop(clock), clock, None, disk, None, lambda name: Inline())  # type: ignore[arg-type]
    archive, tidied = NodeArchive(ports, ArchiveLimits(1, 1 << 20, 0)), list[int]()
    tidy: Callable[[], None] = archive.files.tidy

    def noted() -> None:
        tidied.append(clock.wall_ms())
        tidy()

    archive.files.tidy = noted  # type: ignore[method-assign]
    return archive, tidied


def test_limits_are_looked_at_now_and_then_also_when_the_wall_clock_was_set_back() -> None:
    archive, tidied = archive_on(SimDisk())
    for now_ms, so_often in ((50_000, 1), (50_100, 1), (50_000 + TIDY_MS, 2), (50_001 + TIDY_MS, 2), (1_000, 3)):
        archive.tick(now_ms)
        assert len(tidied) == so_often, f"at {now_ms}"


def test_an_archive_that_cannot_be_tidied_is_reported_now_and_then_and_ends_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = SimDisk()
    archive, _ = archive_on(disk)
    disk.faults = fault_on("list", Fault.EIO)
    with caplog.at_level(logging.ERROR):
        archive.tick(0)
        archive.tick(TIDY_MS)
    assert len(caplog.messages) == 1 and "the archive cannot be tidied" in caplog.messages[0]
    disk.faults = no_faults
    archive.tick(3 * TIDY_MS)
    assert archive.figures.files == 0


def test_the_archive_is_not_looked_at_again_before_the_last_look_is_over() -> None:
    archive, _ = archive_on(SimDisk())
    waiting: list[Callable[[], None]] = []

    class Late(Inline):
        def run(self, work: Callable[[], T], done: Done[T]) -> None:
            waiting.append(lambda: Inline.run(self, work, done))

    archive._thread = Late()
    for round_of_looks in (0, 2):
        for look in (1, 2):
            archive.tick((round_of_looks + look) * TIDY_MS)
            assert len(waiting) == 1
        waiting.pop()()
    archive.tick(9 * TIDY_MS)
    assert len(waiting) == 1


def test_room_that_cannot_be_made_is_reported_and_keeps_nobody_waiting(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimDisk()
    archive, _ = archive_on(disk)
    disk.faults = fault_on("list", Fault.EIO)
    answers: list[None] = []
    with caplog.at_level(logging.ERROR):
        archive.make_room(200).then(answers.append, lambda error: None)
    assert answers == [None] and len(caplog.messages) == 1


def test_room_is_made_of_the_oldest_and_whoever_asked_is_told() -> None:
    disk = SimDisk()
    disk.make_dir(ARCHIVE_DIRECTORY)
    for number in (1, 2, 3):
        disk.overwrite(archived(log_file(number)), bytes(100))
    disk.capacity = 350
    archive, _ = archive_on(disk)
    answers: list[None] = []
    archive.make_room(200).then(answers.append, lambda error: None)
    assert answers == [None] and disk.files() == [archived(log_file(3))]


def test_the_disk_that_others_use_has_the_archive_give_way() -> None:
    disk = SimDisk()
    disk.make_dir(ARCHIVE_DIRECTORY)
    disk.overwrite(archived(log_file(1)), bytes(100))
    disk.capacity = 100
    archive, _ = archive_on(disk)
    archive.disk.create("queue", 80).close()
    assert disk.files() == ["queue"]
