"""One suite over both disks: what the port promises, the real one and the simulated one do alike."""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from storage.disk import Disk
from storage.errors import DirectoryInUse, DiskFailed, DiskFull, NoDescriptors
from storage.file_piece import FilePiece
from storage.os_disk import PARTS_PER_CALL_MAX, OsDisk
from tests.sim.disk import BLOCK, Fault, SimDisk, fault_on


@pytest.fixture(params=["os", "sim"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    made: Disk = OsDisk(str(tmp_path / "data")) if request.param == "os" else SimDisk()
    made.make_dir("a/b")
    yield made


def test_parts_are_written_one_behind_the_other_and_read_back(disk: Disk) -> None:
    file = disk.create("a/f")
    file.write_at(0, [b"one", bytearray(b"two"), memoryview(b"three")])
    file.write_at(3, [b"TWO"])
    assert file.read_at(0, 100) == b"oneTWOthree" == disk.read_file("a/f")
    assert file.read_at(3, 3) == b"TWO"
    assert file.read_at(11, 5) == b"" and file.size() == 11
    file.sync()
    file.close()
    file.close()


def test_more_parts_than_one_call_takes(disk: Disk) -> None:
    parts = [bytes([at % 256]) for at in range(2 * PARTS_PER_CALL_MAX + 3)]
    file = disk.create("f")
    file.write_at(5, parts)
    assert disk.read_file("f") == bytes(5) + b"".join(parts)


def test_a_socket_is_given_what_it_takes_of_a_file_and_the_rest_when_it_takes_more(disk: Disk) -> None:
    content = os.urandom(2 << 20)
    file = disk.create("f")
    file.write_at(0, [content])
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        received = bytearray()
        at, stops = 100, 0
        while at < len(content):
            try:
                at += file.send_to(ours.fileno(), at, len(content) - at)
            except BlockingIOError:
                stops += 1
                received += theirs.recv(1 << 20)
        ours.close()
        while data := theirs.recv(1 << 20):
            received += data
    assert received == content[100:] and stops


def test_what_the_system_is_told_of_reads_changes_nothing_and_fails_never(disk: Disk) -> None:
    file = disk.create("f")
    file.write_at(0, [b"content"])
    for offset, size in ((0, 7), (3, 1 << 20), (1 << 40, 1)):
        file.read_ahead(offset, size)
        file.uncache(offset, size)
    assert (file.size(), file.read_at(0, 10)) == (7, b"content")
    file.close()
    file.read_ahead(0, 7)
    file.uncache(0, 7)


def test_a_file_that_ends_gives_a_socket_nothing(disk: Disk) -> None:
    file = disk.create("f")
    file.write_at(0, [b"short"])
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert file.send_to(ours.fileno(), 5, 10) == 0
        with pytest.raises(OSError, match="10 bytes too early"):
            FilePiece(file, 0, 15, pytest.fail).send_to(ours.fileno(), 5)


def test_preallocated_room_reads_as_zeros(disk: Disk) -> None:
    file = disk.create("f", preallocate=10_000)
    assert file.size() == 10_000 and file.read_at(0, 20_000) == bytes(10_000)
    file.truncate(3)
    assert disk.read_file("f") == bytes(3)


def test_names_are_made_changed_listed_and_removed(disk: Disk) -> None:
    disk.create("a/x").close()
    disk.create("a/w").close()
    assert disk.list("a") == ["b", "w", "x"] and disk.list("nowhere") == []
    disk.rename("a/x", "a/w")
    assert disk.list("a") == ["b", "w"]
    assert disk.exists("a/w") and disk.exists("a/b") and not disk.exists("a/x")
    disk.sync_dir("a")
    disk.sync_dir("")
    disk.delete("a/w")
    disk.remove_dir("a/b")
    assert disk.list("a") == []
    assert disk.free_bytes() > 0


def test_what_is_missing_or_there_already_is_pythons_own_error(disk: Disk) -> None:
    disk.create("f").close()
    with pytest.raises(FileExistsError):
        disk.create("f")
    for wrong in (
        lambda: disk.open("none"),
        lambda: disk.read_file("none"),
        lambda: disk.delete("none"),
        lambda: disk.rename("none", "g"),
        lambda: disk.create("none/f"),
        lambda: disk.sync_dir("none"),
        lambda: disk.remove_dir("none"),
    ):
        with pytest.raises(FileNotFoundError):
            wrong()


def test_a_directory_with_something_in_it_is_not_removed(disk: Disk) -> None:
    disk.create("a/b/f").close()
    with pytest.raises(DiskFailed, match="empty"):
        disk.remove_dir("a/b")


def test_deleting_leaves_open_handles_readable(disk: Disk) -> None:
    file = disk.create("f")
    file.write_at(0, [b"still here"])
    disk.delete("f")
    assert file.read_at(0, 10) == b"still here"


def test_files_belong_to_nobody_else(tmp_path: Path) -> None:
    disk = OsDisk(str(tmp_path / "data"))
    disk.make_dir("d")
    disk.create("d/f").close()
    assert stat.S_IMODE(os.stat(tmp_path / "data/d/f").st_mode) == 0o600
    assert stat.S_IMODE(os.stat(tmp_path / "data/d").st_mode) == 0o700
    assert stat.S_IMODE(os.stat(tmp_path / "data").st_mode) == 0o700


def test_only_one_holder_of_a_data_directory(tmp_path: Path) -> None:
    first, second = OsDisk(str(tmp_path)), OsDisk(str(tmp_path))
    first.lock("lock")
    with pytest.raises(DirectoryInUse, match=str(tmp_path)):
        second.lock("lock")
    first.unlock()
    second.lock("lock")
    second.unlock()


def test_a_short_write_is_continued_and_a_full_disk_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = OsDisk(str(tmp_path)).create("f")
    real = os.pwritev
    monkeypatch.setattr(os, "pwritev", lambda fd, parts, at: real(fd, [b"".join(parts)[:4]], at))
    file.write_at(0, [b"hello", b"world"])
    assert file.read_at(0, 20) == b"helloworld"

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(DiskFull, match="No space left"):
        file.write_at(10, [b"hello", b"world"])


@pytest.mark.parametrize("call", ["fdatasync", "ftruncate", "pwritev", "pread"])
def test_errors_of_the_device_become_disk_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    file = OsDisk(str(tmp_path)).create("f")

    def broken(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, call, broken)
    use = {
        "fdatasync": file.sync,
        "ftruncate": lambda: file.truncate(1),
        "pwritev": lambda: file.write_at(0, [b"x"]),
        "pread": lambda: file.read_at(0, 1),
    }
    with pytest.raises(DiskFailed, match="Input/output error"):
        use[call]()


@pytest.mark.parametrize("call", ["fdatasync", "fsync"])
def test_an_fsync_that_finds_no_room_has_failed_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Some file systems look for room only then, and drop the pages. Who took it for a full disk tried again later, and
    believed the second fsync."""
    disk = OsDisk(str(tmp_path / "data"))
    file = disk.create("f")
    file.write_at(0, [b"a"])

    def broken(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, broken)
    with pytest.raises(DiskFailed, match="No space left"):
        file.sync() if call == "fdatasync" else disk.sync_dir("")


def test_a_directory_is_durable_though_its_name_could_not_be_synced_when_it_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second call found that it exists, and synced nothing: its files could be gone after a power cut."""
    disk = OsDisk(str(tmp_path / "data"))
    synced: list[str] = []
    sync_dir = disk.sync_dir

    def no_descriptors(name: str) -> None:
        raise NoDescriptors(f"cannot fsync {name}: too many open files")

    def note(name: str) -> None:
        sync_dir(name)
        synced.append(name)

    monkeypatch.setattr(disk, "sync_dir", no_descriptors)
    with pytest.raises(NoDescriptors):
        disk.make_dir("classic/q")
    monkeypatch.setattr(disk, "sync_dir", note)
    disk.make_dir("classic/q")
    assert synced == ["", "classic"]
    disk.make_dir("classic/q")
    assert synced == ["", "classic"], "what is known to be durable costs nothing"
    disk.remove_dir("classic/q")
    disk.make_dir("classic/q")
    assert synced == ["", "classic", "classic"]


def test_a_directory_that_an_earlier_process_made_is_made_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That process may have ended between making and syncing it."""
    OsDisk(str(tmp_path)).make_dir("d")
    disk = OsDisk(str(tmp_path))
    synced: list[str] = []
    monkeypatch.setattr(disk, "sync_dir", synced.append)
    disk.make_dir("d")
    assert synced == [""]


def test_room_that_cannot_be_reserved_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    disk = OsDisk(str(tmp_path))
    with pytest.raises(DiskFull, match="reserve 4096 bytes"):
        disk.create("f", 4096)
    assert disk.list("") == []


@pytest.mark.parametrize("offset", [2**31 - 2, 2**31, 2**32 - 2, 2**32 + 1])
def test_offsets_beyond_2_and_4_gib_do_not_wrap(tmp_path: Path, offset: int) -> None:
    file = OsDisk(str(tmp_path)).create("sparse")
    file.write_at(offset, [b"far", b"away"])
    assert file.read_at(offset, 100) == b"faraway" and file.read_at(0, 7) == bytes(7)
    assert file.size() == offset + 7


# What only the simulated disk does.


def test_a_crash_keeps_what_was_synced_and_may_lose_everything_else() -> None:
    outcomes = set()
    for seed in range(200):
        disk = SimDisk()
        file = disk.create("f")
        file.write_at(0, [b"s" * BLOCK])
        file.sync()
        disk.sync_dir("")
        file.write_at(BLOCK, [b"u" * BLOCK, b"v" * BLOCK])
        disk.crash(Random(seed))
        content = disk.content("f")
        assert content[:BLOCK] == b"s" * BLOCK
        blocks = tuple(content[at : at + BLOCK] for at in range(BLOCK, len(content), BLOCK))
        outcomes.add(tuple(block[:1] if block == block[:1] * BLOCK else b"torn" for block in blocks))
    assert {(), (b"u", b"v"), (b"u",), (b"\0", b"v"), (b"\0", b"\0"), (b"torn",)} <= outcomes


def test_names_are_lost_without_a_directory_sync_and_each_by_itself() -> None:
    outcomes = set()
    for seed in range(100):
        disk = SimDisk()
        for name in ("old", "gone"):
            disk.create(name).sync()
        disk.sync_dir("")
        disk.rename("old", "new")
        disk.delete("gone")
        disk.create("made").sync()
        disk.crash(Random(seed))
        outcomes.add(tuple(disk.list("")))
    assert len(outcomes) == 8
    assert all(("old" in names) != ("new" in names) for names in outcomes), "a rename happens whole or not at all"


def test_a_directory_whose_name_was_not_synced_is_lost_unless_it_is_made_again() -> None:
    found = set()
    for seed in range(20):
        for again in (False, True):
            disk = SimDisk()
            disk.faults = fault_on("make_dir", Fault.EMFILE)
            with pytest.raises(NoDescriptors):
                disk.make_dir("d")
            disk.faults = lambda call: None
            if again:
                disk.make_dir("d")
            disk.create("d/f").sync()
            disk.sync_dir("d")
            disk.crash(Random(seed))
            found.add((again, disk.exists("d/f")))
    assert found == {(False, False), (False, True), (True, True)}


def test_a_directory_that_was_only_begun_is_durable_with_the_one_above() -> None:
    found = set()
    for seed in range(20):
        for synced in (False, True):
            disk = SimDisk()
            disk.make_dir("above")
            disk.begin_dir("above/d")
            disk.begin_dir("above/d")
            disk.create("above/d/f").sync()
            disk.sync_dir("above/d")
            if synced:
                disk.sync_dir("above")
            disk.crash(Random(seed))
            found.add((synced, disk.exists("above/d/f")))
    assert found == {(False, False), (False, True), (True, True)}


def test_beginning_a_directory_syncs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = OsDisk(str(tmp_path))
    disk.make_dir("above")
    synced: list[str] = []
    monkeypatch.setattr(disk, "sync_dir", synced.append)
    disk.begin_dir("above/d")
    disk.begin_dir("above/d")
    assert disk.exists("above/d") and synced == []
    disk.make_dir("above/d")
    assert synced == ["above"], "what was begun is not taken for durable"
    with pytest.raises(FileNotFoundError):
        disk.begin_dir("nowhere/d")


def test_a_failed_fsync_drops_the_pages_and_the_next_one_means_nothing() -> None:
    disk = SimDisk()
    file = disk.create("f")
    disk.sync_dir("")
    file.write_at(0, [b"promised?"])
    disk.faults = fault_on("sync", Fault.EIO)
    with pytest.raises(DiskFailed):
        file.sync()
    disk.faults = lambda call: None
    file.sync()
    disk.crash(Random(1))
    assert disk.content("f") == b""


def test_a_lying_fsync_loses_what_it_confirmed() -> None:
    disk = SimDisk()
    file = disk.create("f")
    disk.sync_dir("")
    disk.faults = fault_on("sync", Fault.LIE)
    file.write_at(0, [b"x" * 100])
    file.sync()
    assert any(twin_content(disk, seed) != b"x" * 100 for seed in range(20))


def twin_content(disk: SimDisk, seed: int) -> bytes:
    twin = SimDisk()
    file = twin.create("f")
    twin.sync_dir("")
    file.write_at(0, [disk.content("f")])
    twin.crash(Random(seed))
    return twin.content("f")


def test_a_disk_runs_full_with_a_part_written() -> None:
    disk = SimDisk(capacity=150)
    file = disk.create("f")
    file.write_at(0, [bytes(100)])
    with pytest.raises(DiskFull):
        file.write_at(100, [b"x" * 100])
    assert file.size() == 150
    with pytest.raises(DiskFull):
        disk.create("g", preallocate=10)


def test_a_handle_of_a_dead_process_is_a_mistake() -> None:
    disk = SimDisk()
    file = disk.create("f")
    disk.kill()
    with pytest.raises(AssertionError, match="dead"):
        file.read_at(0, 1)


def test_a_file_with_two_names_is_there_as_long_as_it_has_one(disk: Disk) -> None:
    file = disk.create("a/f")
    file.write_at(0, [b"content"])
    assert disk.link("a/f", "a/b/second")
    file.write_at(0, [b"C"])
    assert disk.read_file("a/b/second") == b"Content"
    with pytest.raises(FileExistsError):
        disk.link("a/f", "a/b/second")
    with pytest.raises(FileNotFoundError):
        disk.link("a/nothing", "a/b/third")
    disk.delete("a/f")
    assert disk.read_file("a/b/second") == b"Content" and not disk.exists("a/f")


def test_a_file_system_without_second_names_is_no_failed_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = OsDisk(str(tmp_path / "data"))
    disk.create("f").close()
    codes = [errno.EPERM, errno.EMLINK, errno.EXDEV, errno.ENOTSUP, errno.ENOSPC, errno.EIO]

    def refuse(old: str, new: str) -> None:
        raise OSError(codes.pop(0), "refused")

    monkeypatch.setattr(os, "link", refuse)
    assert [disk.link("f", "g") for _ in range(4)] == [False] * 4
    with pytest.raises(DiskFull):
        disk.link("f", "g")
    with pytest.raises(DiskFailed):
        disk.link("f", "g")


def test_a_second_name_that_was_not_synced_may_be_lost_alone() -> None:
    found = set()
    for seed in range(30):
        disk = SimDisk()
        disk.make_dir("a/b")
        file = disk.create("a/f")
        file.write_at(0, [b"content"])
        file.sync()
        disk.sync_dir("a")
        disk.link("a/f", "a/b/second")
        if seed % 2:
            disk.sync_dir("a/b")
        disk.delete("a/f")
        disk.crash(Random(seed))
        found.add((seed % 2, disk.exists("a/f"), disk.exists("a/b/second")))
        assert not seed % 2 or disk.read_file("a/b/second") == b"content"
    assert found == {(0, here, there) for here in (False, True) for there in (False, True)} | {
        (1, False, True),
        (1, True, True),
    }
