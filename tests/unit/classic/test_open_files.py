"""What is read ahead, for whom, and how often the disk is asked."""

from __future__ import annotations

import pytest

from classic.store.open_files import WINDOW_BYTES, WINDOWS_MAX, OpenFiles
from storage.errors import Corrupt
from storage.record import HEADER_BYTES, Kind, encode
from tests.sim.disk import SimDisk

PAYLOAD = b"x" * 2_000
EACH = HEADER_BYTES + len(PAYLOAD)
COUNT = 2_000


@pytest.fixture
def files() -> OpenFiles:
    disk = SimDisk()
    record = b"".join(encode(Kind.CLASSIC_BODY, 1, 1, [PAYLOAD]))
    for name in ("one", "other"):
        disk.overwrite(name, record * COUNT)
    return OpenFiles(disk)


def read(files: OpenFiles, name: str, number: int) -> bytes:
    return files.payload(name, number * EACH + HEADER_BYTES, len(PAYLOAD))


def test_one_reader_asks_the_disk_once_for_each_window(files: OpenFiles) -> None:
    assert all(read(files, "one", number) == PAYLOAD for number in range(COUNT))
    assert files.reads <= COUNT * EACH // WINDOW_BYTES + 2


def test_readers_at_several_places_of_one_file_do_not_take_the_window_from_each_other(files: OpenFiles) -> None:
    """Each message that one of two consumers got cost a megabyte read for it."""
    assert WINDOW_BYTES < 1_000 * EACH
    for number in range(400):
        for begin in (0, 1_000):
            assert read(files, "one", begin + number) == PAYLOAD
        assert read(files, "other", number) == PAYLOAD
    assert files.reads <= 6


def test_windows_are_bounded_and_go_with_their_file(files: OpenFiles) -> None:
    for number in range(COUNT - 1, 0, -COUNT // (3 * WINDOWS_MAX)):  # backwards: nothing is read ahead for the next
        read(files, "one", number)
    assert len(files._windows) == WINDOWS_MAX
    read(files, "other", 0)
    files.forget("one")
    assert [name for name, _, _ in files._windows] == ["other"]


def test_what_is_no_record_is_damage_and_what_was_written_since_is_read_again(files: OpenFiles) -> None:
    with pytest.raises(Corrupt, match="no whole record"):
        files.payload("one", HEADER_BYTES + 1, len(PAYLOAD))
    record = b"".join(encode(Kind.CLASSIC_BODY, 1, 1, [PAYLOAD]))
    read(files, "one", COUNT - 1)
    files.get("one").write_at(COUNT * EACH, [record])
    assert read(files, "one", COUNT) == PAYLOAD
