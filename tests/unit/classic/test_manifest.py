"""Which files of the classic queues are durable: what is noted, kept and forgotten."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from classic.store import manifest
from classic.store.manifest import Manifest
from classic.store.open_files import OpenFiles
from classic.store.queue_index import LoadedSegments, QueueIndex, Segment
from classic.store.store import MessageStore, StoreFile
from storage import fact_file
from storage.errors import Corrupt, DiskFull
from storage.names import CLASSIC_FILES, STORE_PERSISTENT
from tests.sim.disk import Fault, SimDisk, fault_on, no_faults

SEGMENT = Segment(3, index_size=500, body_size=900, first=48, end=60, in_store=True)


ALL = (3, 4)


def index_with(disk: SimDisk, *segments: Segment) -> QueueIndex:
    index = QueueIndex(OpenFiles(disk), LoadedSegments(), "classic/" + "a" * 32, 7)
    index.restore({segment.number: replace(segment) for segment in segments})
    return index


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk()
    disk.make_dir("classic")
    return disk


def test_the_first_start_finds_an_empty_one(disk: SimDisk) -> None:
    found = manifest.load(disk)
    assert found.queues == {} and found.store == {}


def test_what_was_saved_is_loaded(disk: SimDisk) -> None:
    noted = Manifest(store={2: 304, 1 << 40: 0})
    noted.note_segments(7, index_with(disk, SEGMENT, Segment(4, 10)), ALL)
    noted.save(disk)
    found = manifest.load(disk)
    assert found == noted
    assert found.queues[7][1][3] == SEGMENT
    assert found.queues[7][0] == "classic/" + "a" * 32


def test_a_queue_without_segments_is_not_noted(disk: SimDisk) -> None:
    noted = Manifest()
    noted.note_segments(7, index_with(disk), ALL)
    assert noted.queues == {}


def test_what_is_noted_does_not_grow_with_the_file(disk: SimDisk) -> None:
    """It says what had been synced then; what is written since is not."""
    segment = Segment(3, index_size=100)
    noted = Manifest()
    noted.note_segments(7, index_with(disk, segment), ALL)
    segment.index_size = 200
    store = MessageStore(OpenFiles(disk), STORE_PERSISTENT)
    store.files[1] = StoreFile(50)
    noted.note_store(store)
    store.files[1].size = 90
    assert noted.queues[7][1][3].index_size == 100 and noted.store == {1: 50}


def test_what_a_segment_is_doing_now_is_not_kept(disk: SimDisk) -> None:
    noted = Manifest()
    noted.note_segments(7, index_with(disk, Segment(3, 100, settled_count=4)), ALL)
    assert noted.queues[7][1][3] == Segment(3, 100)


def test_a_queue_goes_with_its_last_segment(disk: SimDisk) -> None:
    noted = Manifest()
    noted.note_segments(7, index_with(disk, Segment(3, 10), Segment(4, 10)), ALL)
    assert noted.forget_segment(7, 3) and 7 in noted.queues
    assert not noted.forget_segment(7, 3), "it is noted no more"
    assert noted.forget_segment(7, 4) and noted.queues == {}
    assert not noted.forget_segment(7, 4) and not noted.forget_segment(8, 1)


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"queues": {}},
        {"queues": [], "store": {}},
        {"queues": {"seven": ["d", []]}, "store": {}},
        {"queues": {"7": ["d"]}, "store": {}},
        {"queues": {"7": ["d", [[1, 2, 3]]]}, "store": {}},
        {"queues": {"7": ["d", [[]]]}, "store": {}},
        {"queues": {"7": ["d", 5]}, "store": {}},
        {"queues": {}, "store": {"one": 1}},
        {"queues": {}, "store": None},
    ],
)
def test_whole_facts_that_say_something_else_are_damage(disk: SimDisk, facts: dict[str, Any]) -> None:
    fact_file.save(disk, CLASSIC_FILES, facts)
    with pytest.raises(Corrupt, match="does not say what it should") as caught:
        manifest.load(disk)
    assert caught.value.name == CLASSIC_FILES


def test_a_full_disk_leaves_the_old_one(disk: SimDisk) -> None:
    Manifest(store={1: 100}).save(disk)
    disk.faults = fault_on("write", Fault.ENOSPC_PARTIAL)
    with pytest.raises(DiskFull):
        Manifest(store={1: 200}).save(disk)
    disk.faults = no_faults
    assert manifest.load(disk).store == {1: 100}
    Manifest(store={1: 300}).save(disk)
    assert manifest.load(disk).store == {1: 300}
