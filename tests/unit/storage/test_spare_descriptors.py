"""A disk whose process has no file descriptor left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from classic.store.open_files import OPEN_MAX, OpenFiles
from raft.core.live_entries import NONE_LIVE
from raft.core.messages import Entry, EntryKind
from raft.store.segments import OpenSegments, SegmentBuilder, Wanted, read_segments
from raft.store.store_limits import SegmentBounds
from storage import snapshot_file
from storage.errors import Exhausted, NoDescriptors
from storage.names import RAFT_DIRECTORY
from storage.os_disk import OsDisk
from storage.spare_descriptors import SPARE_COUNT


def test_any_number_of_files_is_used_one_after_the_other(tmp_path: Path, all_descriptors: Callable[[], None]) -> None:
    disk = OsDisk(str(tmp_path))
    all_descriptors()
    for number in range(3 * SPARE_COUNT):
        snapshot_file.save(disk, f"file{number}", [b"content"])
        assert snapshot_file.load(disk, f"file{number}") == b"content"
    assert len(disk.list("")) == 3 * SPARE_COUNT


def test_more_files_at_once_than_are_spare_is_an_error_that_passes(
    tmp_path: Path, all_descriptors: Callable[[], None]
) -> None:
    """It was DiskFailed, after which nothing is written any more."""
    disk = OsDisk(str(tmp_path))
    all_descriptors()
    held = [disk.create(f"file{number}") for number in range(SPARE_COUNT)]
    for opening in (disk.create, disk.open, disk.sync_dir, disk.list):
        with pytest.raises(NoDescriptors, match="Too many open files"):
            opening("")
    assert issubclass(NoDescriptors, Exhausted)
    held[0].close()
    disk.open("file1").close()


def test_readers_give_up_the_files_they_used_longest_ago(tmp_path: Path, all_descriptors: Callable[[], None]) -> None:
    disk = OsDisk(str(tmp_path))
    for number in range(OPEN_MAX):
        disk.create(f"file{number}").close()
    files = OpenFiles(disk)
    all_descriptors()
    for number in range(OPEN_MAX):
        assert files.get(f"file{number}").size() == 0


def test_a_replicated_queue_of_many_segments_is_read(tmp_path: Path, all_descriptors: Callable[[], None]) -> None:
    """Segments stayed open until no spare descriptor was left, and the node stopped with code 74."""
    disk, count = OsDisk(str(tmp_path)), 2 * SPARE_COUNT
    disk.make_dir(RAFT_DIRECTORY)
    builder = SegmentBuilder(disk, 7, iter(range(1, count + 1)).__next__, SegmentBounds(1, 1 << 20))
    builder.add(Entry(index, 1, EntryKind.COMMAND, b"%d" % index) for index in range(1, count + 1))
    wanted = Wanted(7, 1, count, NONE_LIVE, tuple(builder.finish()), count + 1)
    opened = OpenSegments(disk)
    all_descriptors()
    for index in range(1, count + 1):
        assert read_segments(opened, wanted, index, count + 1)[0][0].data == b"%d" % index


def test_readers_leave_spare_descriptors_to_others(tmp_path: Path, all_descriptors: Callable[[], None]) -> None:
    """Classic queues kept all of them, and the node stopped when a replicated queue was to be read."""
    disk = OsDisk(str(tmp_path))
    for number in range(2 * SPARE_COUNT):
        disk.create(f"file{number}").close()
    files = OpenFiles(disk)
    all_descriptors()
    for number in range(2 * SPARE_COUNT):
        files.get(f"file{number}")
    others = [disk.open("file0") for _ in range(SPARE_COUNT - 1)]
    assert len(others) == SPARE_COUNT - 1


def test_a_reader_of_others_files_and_a_disk_that_was_let_go_hold_none(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    disk = OsDisk(str(tmp_path))
    disk.lock("lock")
    file = disk.create("file")
    disk.unlock()
    file.close()
    OsDisk(str(tmp_path), read_only=True)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
