"""A small transactional store of keys and values on LMDB, and its twin in memory. The catalog lives in one.

A commit is atomic and durable when it returns. Each value is stored behind a checksum, which LMDB itself does not have:

    offset  size  field
         0     4  crc32c of the key and the value, little endian
         4        value
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from mmap import PAGESIZE  # of LMDB's files, too
from typing import Protocol

import lmdb

from native.crc32c import crc32c
from storage.errors import Corrupt, DiskFailed, DiskFull
from storage.lmdb_pages import first_missing_page
from storage.os_disk import OsDisk

Change = tuple[bytes, bytes | None]  # None: the key goes

KEY_BYTES_MAX = 511  # LMDB's own limit; who has longer names hashes them
CHECKSUM_BYTES = 4
NO_ROOM = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT))  # in the text of an error: LMDB's have no number
DATA_FILE = "data.mdb"  # in the store's directory, as LMDB names it
MAP_BYTES = 16 << 30  # address space, not disk: the file grows as it is needed


class Store(Protocol):
    """Keys and values, both bytes."""

    def get(self, key: bytes) -> bytes | None:
        """The value, None if there is none. Raises Corrupt when it is not what was written."""

    def items(self, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """All keys that begin so, with their values, as they are now: what is committed while reading is not seen.
        Raises Corrupt."""

    def commit(self, changes: Sequence[Change]) -> None:
        """Make all changes, in this order, or none. Durable on return. Raises DiskFull: nothing was changed and it may
        be tried again. Raises DiskFailed: the store takes no further commit."""

    def close(self) -> None:
        """Let go of the files. Nothing is lost."""


class MemoryStore:
    """The same without a disk: for RAM nodes, simulations and tests."""

    def __init__(self) -> None:
        self._values: dict[bytes, bytes] = {}

    def get(self, key: bytes) -> bytes | None:
        return self._values.get(key)

    def items(self, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        return iter(sorted((key, value) for key, value in self._values.items() if key.startswith(prefix)))

    def commit(self, changes: Sequence[Change]) -> None:
        for key, value in changes:
            if value is None:
                self._values.pop(key, None)
            else:
                self._values[key] = value

    def close(self) -> None:
        """Nothing to let go of."""


class LmdbStore:
    """The store in a directory of its own."""

    def __init__(self, path: str, map_bytes: int = MAP_BYTES, read_only: bool = False) -> None:
        """`path` is a real path, made when it is missing (see `OsDisk.path`): LMDB opens its files itself.
        `read_only` is for looking at a store that is not in use: nothing is made or changed. Raises Corrupt."""
        self._path = path
        self._failed: str | None = None
        self._refuse_missing_heads()
        if read_only:
            with self._as_disk_errors("open"):
                self._environment = lmdb.open(path, map_size=map_bytes, max_dbs=0, readonly=True, lock=False)
        else:
            directory = OsDisk(os.path.dirname(os.path.abspath(path)))
            directory.make_dir(os.path.basename(path))  # LMDB would make one that only root can enter
            with self._as_disk_errors("open"):
                self._environment = lmdb.open(path, map_size=map_bytes, mode=0o600, max_dbs=0, metasync=True, sync=True)
            directory.sync_dir(os.path.basename(path))  # LMDB syncs its files, and never that they exist
        self._refuse_missing_pages()

    def _refuse_missing_heads(self) -> None:
        """LMDB looks at both when it opens the file, and would end the process in the same way."""
        path = os.path.join(self._path, DATA_FILE)
        size = os.path.getsize(path) if os.path.exists(path) else 0
        if 0 < size < 2 * PAGESIZE:
            raise Corrupt(path, size, 2 * PAGESIZE - size, "the end of the file is missing")

    def _refuse_missing_pages(self) -> None:
        """LMDB reads through a memory map, and a page that the file does not have would end the process. Only where the file is
        shorter than LMDB says pages may be missing, and often none is that counts (storage/lmdb_pages.py)."""
        path = os.path.join(self._path, DATA_FILE)
        size, page_bytes = os.path.getsize(path), self._environment.stat()["psize"]
        wanted = (self._environment.info()["last_pgno"] + 1) * page_bytes
        if size >= wanted:
            return
        with open(path, "rb") as file:
            missing = first_missing_page(file, page_bytes)
        if missing is not None:
            self._environment.close()
            raise Corrupt(path, missing * page_bytes, wanted - size, "the end of the file is missing")

    def get(self, key: bytes) -> bytes | None:
        with self._as_disk_errors("read"), self._environment.begin() as transaction:
            stored = transaction.get(key)
        return None if stored is None else self._checked(key, stored)

    def items(self, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        found = []
        with self._as_disk_errors("read"), self._environment.begin() as transaction:
            cursor = transaction.cursor()
            more = cursor.set_range(prefix) if prefix else cursor.first()
            while more and (key := cursor.key()).startswith(prefix):
                found.append((key, self._checked(key, cursor.value())))
                more = cursor.next()
        return iter(found)

    def commit(self, changes: Sequence[Change]) -> None:
        if self._failed is not None:
            raise DiskFailed(f"the store {self._path} takes nothing any more: {self._failed}")
        with self._as_disk_errors("write"), self._environment.begin(write=True) as transaction:
            for key, value in changes:
                assert 0 < len(key) <= KEY_BYTES_MAX, f"a key of {len(key)} bytes, at most {KEY_BYTES_MAX} are possible"
                if value is None:
                    transaction.delete(key)
                else:
                    transaction.put(key, _checksum(key, value) + value)

    def close(self) -> None:
        self._environment.close()

    def _checked(self, key: bytes, stored: bytes) -> bytes:
        value = stored[CHECKSUM_BYTES:]
        if stored[:CHECKSUM_BYTES] != _checksum(key, value):
            raise Corrupt(self._path, 0, len(stored), f"the checksum of the value of {key!r} differs")
        return value

    @contextmanager
    def _as_disk_errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except lmdb.Error as error:
            if isinstance(error, lmdb.MapFullError) or any(text in str(error) for text in NO_ROOM):
                raise DiskFull(f"cannot {what} {self._path}: {error}") from error
            self._failed = str(error)
            raise DiskFailed(f"cannot {what} {self._path}: {error}") from error


def _checksum(key: bytes, value: bytes) -> bytes:
    return crc32c(value, crc32c(key)).to_bytes(CHECKSUM_BYTES, "little")
