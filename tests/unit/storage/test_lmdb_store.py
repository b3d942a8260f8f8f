"""The catalog's store and its twin in memory: one suite over both."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest

from storage.errors import Corrupt, DiskFull
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
