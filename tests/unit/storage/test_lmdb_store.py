"""The catalog's store and its twin in memory: one suite over both."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import lmdb
import pytest

from storage.errors import Corrupt, DiskFailed, DiskFull
from storage.lmdb_store import KEY_BYTES_MAX, LmdbStore, MemoryStore, Store


@pytest.fixture(params=["lmdb", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: Store = LmdbStore(str(tmp_path / "catalog")) if request.param == "lmdb" else MemoryStore()
    yield made
    made.close()


def test_changes_are_made_in_order_and_found_by_prefix(store: Store) -> None:
    store.commit([(b"a1", b"x"), (b"a2", b""), (b"b", b"y"), (b"a1", b"z"), (b"b", None), (b"c", None)])
    assert store.get(b"a1") == b"z" and store.get(b"a2") == b"" and store.get(b"b") is None
    assert list(store.items(b"a")) == [(b"a1", b"z"), (b"a2", b"")]
    assert list(store.items()) == [(b"a1", b"z"), (b"a2", b"")]
    assert list(store.items(b"zzz")) == []


def test_reading_does_not_see_what_is_committed_meanwhile(store: Store) -> None:
    store.commit([(bytes([at]), b"v") for at in range(1, 10)])
    items = store.items()
    store.commit([(bytes([at]), None) for at in range(1, 10)])
    assert len(list(items)) == 9 and list(store.items()) == []


def test_a_commit_survives_the_process_that_dies_right_after_it(tmp_path: Path) -> None:
    program = (
        "import os, sys; from storage.lmdb_store import LmdbStore;"
        "LmdbStore(sys.argv[1]).commit([(b'k', b'v')]); os.kill(os.getpid(), 9)"
    )
    path = str(tmp_path / "catalog")
    root = Path(__file__).parents[3]
    assert subprocess.run([sys.executable, "-c", program, path], cwd=root, check=False).returncode == -9
    store = LmdbStore(path)
    assert store.get(b"k") == b"v"
    store.close()


def test_a_full_store_changes_nothing_and_goes_on(tmp_path: Path) -> None:
    store = LmdbStore(str(tmp_path / "catalog"), map_bytes=200_000)
    store.commit([(b"k", b"old")])
    with pytest.raises(DiskFull):
        store.commit([(b"k", b"new"), *((b"%d" % at, bytes(4000)) for at in range(100))])
    assert list(store.items()) == [(b"k", b"old")]
    store.commit([(b"k", b"new")])
    assert store.get(b"k") == b"new"
    store.close()


class NoRoom:
    """An environment whose disk has none, and says so in the system's words."""

    def __init__(self, code: int) -> None:
        self._code = code

    def begin(self, write: bool = False) -> object:
        raise lmdb.Error(f"mdb_txn_commit: {os.strerror(self._code)}")

    def close(self) -> None:
        pass


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_quota_that_is_used_up_is_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """Where a quota was reached the node stopped at the next that was declared, and where the disk was full it waited."""
    store = LmdbStore(str(tmp_path / "catalog"))
    with monkeypatch.context() as patched, pytest.raises(DiskFull, match=os.strerror(code)):
        patched.setattr(store, "_environment", NoRoom(code))
        store.commit([(b"k", b"v")])
    store.commit([(b"k", b"v")])
    assert store.get(b"k") == b"v"
    store.close()


def test_a_value_that_is_not_what_was_written_is_damage(tmp_path: Path) -> None:
    path = str(tmp_path / "catalog")
    store = LmdbStore(path)
    store.commit([(b"k", b"value")])
    store.close()
    with lmdb.open(path) as environment, environment.begin(write=True) as transaction:
        stored = bytearray(transaction.get(b"k"))
        stored[-1] ^= 1
        transaction.put(b"k", bytes(stored))
    store = LmdbStore(path)
    with pytest.raises(Corrupt, match="checksum"):
        store.get(b"k")
    with pytest.raises(Corrupt, match="checksum"):
        store.items(b"")
    store.close()


def test_a_key_that_is_too_long_is_a_mistake_of_the_caller(tmp_path: Path) -> None:
    store = LmdbStore(str(tmp_path / "catalog"))
    store.commit([(bytes(KEY_BYTES_MAX), b"just fits")])
    with pytest.raises(AssertionError, match="512 bytes"):
        store.commit([(bytes(KEY_BYTES_MAX + 1), b"")])
    store.close()


def test_its_files_belong_to_nobody_else_and_their_owner_can_reach_them(tmp_path: Path) -> None:
    LmdbStore(str(tmp_path / "catalog")).close()
    assert stat.S_IMODE(os.stat(tmp_path / "catalog").st_mode) == 0o700
    assert stat.S_IMODE(os.stat(tmp_path / "catalog" / "data.mdb").st_mode) == 0o600


def shorter_than_it_says(directory: Path, seed: int) -> dict[bytes, bytes]:
    """A store whose last pages were taken and given back in one transaction, and never written. Returns what it holds."""
    random, path = Random(seed), str(directory / "catalog")
    store, held = LmdbStore(path), dict[bytes, bytes]()
    while os.path.getsize(directory / "catalog" / "data.mdb") >= (store._environment.info()["last_pgno"] + 1) * 4096:
        numbers = random.sample(range(3000), random.choice([1, 100, 1500])) if random.random() < 0.5 else []
        changes = [(b"queue %06d" % number, b"v" * random.choice([80, 200])) for number in numbers]
        gone = random.sample(sorted(held), random.randint(0, len(held)))
        store.commit([*changes, *((key, None) for key in gone)])
        held |= changes
        held = {key: value for key, value in held.items() if key not in gone}
    store.close()
    return held


@pytest.mark.parametrize("seed", [0, 2, 4, 5, 6])
def test_a_file_without_pages_that_nothing_refers_to_is_sound(tmp_path: Path, seed: int) -> None:
    """A node that was stopped cleanly, after 1,500 queues came and went, called its catalog damaged and did not start."""
    held = shorter_than_it_says(tmp_path, seed)
    for changes in ([], [(b"new %d" % number, bytes(300)) for number in range(200)]):
        try:
            store = LmdbStore(str(tmp_path / "catalog"))
        except Corrupt as error:
            pytest.fail(f"a sound file is refused: {error}")
        held |= changes
        store.commit(changes)
        assert dict(store.items()) == held
        store.close()


@pytest.mark.parametrize("seed", [0, 4, 12])
def test_a_file_that_lost_its_end_is_refused_unless_all_that_counts_is_there(tmp_path: Path, seed: int) -> None:
    held = shorter_than_it_says(tmp_path, seed)
    size = os.path.getsize(tmp_path / "catalog" / "data.mdb")
    refused = 0
    for lost in (1, 4095, 4096, 3 * 4096, size // 2, size - 4096, size - 152, size):
        copy = tmp_path / f"without {lost}"
        shutil.copytree(tmp_path / "catalog", copy)
        os.truncate(copy / "data.mdb", size - lost)
        try:
            store = LmdbStore(str(copy), read_only=True)
        except (Corrupt, DiskFailed):
            refused += 1
        else:
            assert dict(store.items()) == held
            store.close()
    assert refused >= 3
