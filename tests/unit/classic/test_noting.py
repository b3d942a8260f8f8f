"""What the manifest vouches for is durable first: files, their names, and the names of their directories."""

from __future__ import annotations

from random import Random

from classic.store.noting import sync_files
from tests.sim.disk import SimDisk

CUTS = 20


def test_a_file_in_a_directory_that_was_only_begun_outlives_every_power_cut() -> None:
    for cut in range(CUTS):
        disk = SimDisk()
        disk.make_dir("classic")
        disk.begin_dir("classic/queue")
        disk.create("classic/queue/1.idx")
        sync_files(disk, ["classic/queue/1.idx"])
        disk.crash(Random(cut))
        assert disk.exists("classic/queue/1.idx")


def test_files_of_a_queue_that_was_deleted_meanwhile_are_passed_over() -> None:
    disk = SimDisk()
    disk.make_dir("classic")
    disk.create("classic/1.idx")
    sync_files(disk, ["classic/gone/1.idx", "classic/1.idx"])
    disk.crash(Random(1))
    assert disk.files() == ["classic/1.idx"]
