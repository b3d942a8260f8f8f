"""What the manifest vouches for is durable first: files, their names, and the names of their directories."""

from __future__ import annotations

from random import Random

from classic.store.manifest import Manifest
from classic.store.noting import Noting, sync_files
from classic.stored_run import InStore
from tests.sim.disk import SimDisk
from tests.unit.classic.classic_world import World, record_of

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


def test_what_was_written_while_a_manifest_was_saved_is_synced_with_the_next() -> None:
    """It counted as synced, and nobody ever synced it: a power cut took it behind the release of its log file."""
    world = World([record_of("a", 1)])
    storage, index = world.kind._storage, world.queues["a"].backing.index
    index.keep_body(0, b"before")
    storage.store.put(InStore(1, 0), b"before", 1)
    noting = Noting(storage, {1: world.queues["a"]}, Manifest())
    noting.all_queues()
    while not noting.note_queues(10):
        pass
    noting.note_store()
    noting.make_durable(world.disk)
    index.keep_body(1, b"meanwhile")
    index.flush_bodies()
    storage.store.put(InStore(1, 1), b"meanwhile", 1)
    noting.done()
    segment = index.segments[0]
    assert index.unsynced(segment) == [index._body_name(0)]
    assert [name for name, _ in storage.store.unsynced()] == [storage.store.name_of(1)]
