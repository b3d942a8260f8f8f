"""What `leveret doctor` shows of files: each format is known to the folder that writes it, and this asks them all.

Files are only read. While a data directory is looked at no node can start in it, and one that a node uses is refused: what is
being written always looks damaged.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import classic.file_formats  # noqa: F401  registers how the files of classic queues are read
import raft.store.group_formats  # noqa: F401  and those of replicated logs
from broker.catalog.catalog import LOAD_ORDER
from broker.catalog.catalog_state import CatalogDamaged, decode_head
from node.catalog.catalog_store import HEAD_KEY, decoded, stored_of
from storage import doctor, names
from storage.disk import Disk
from storage.errors import Corrupt, StorageError
from storage.lmdb_store import DATA_FILE, LmdbStore
from storage.os_disk import OsDisk

DEPTH_MAX = 4  # so many folders lie between a data directory and its deepest file, at most


def doctor_rows(paths: Sequence[Path], *, dump: bool) -> Iterator[dict[str, Any]]:
    """Rows about these files and directories; a row with `finding` says what is wrong.

    Raises FileNotFoundError, ValueError for a file that is not ours, and DirectoryInUse.
    """
    for path in paths:
        path.stat()
        with locked(data_directory_of(path)):
            if dump:
                yield from dumped(path)
            for found in doctor.verify(str(path)):
                yield {
                    "file": found.path,
                    "offset": found.offset,
                    "length": found.length,
                    "finding": "damage" if found.damage else "unfinished write",
                    "reason": found.reason,
                }


def dumped(path: Path) -> Iterator[dict[str, Any]]:
    """What a file holds, or every file of ours in a directory. A row with `unreadable` ends what can be shown of a file."""
    files = sorted(below for below in path.rglob("*") if below.is_file()) if path.is_dir() else [path]
    for file in files:
        if file is path or doctor.is_ours(str(file)):
            try:
                for row in doctor.dump(str(file)):
                    yield {"file": str(file), **row}
            except (StorageError, CatalogDamaged) as error:  # the files behind it may be sound
                yield {"file": str(file), "unreadable": str(error)}


def data_directory_of(path: Path) -> Path | None:
    """The data directory that this is, or lies in; None for a file that was copied out of one."""
    absolute = path.absolute()
    for directory in [absolute, *absolute.parents][: DEPTH_MAX + 1]:
        if (directory / names.LOCK).is_file() and (directory / names.LOG_FACTS).is_file():
            return directory
    return None


@contextlib.contextmanager
def locked(directory: Path | None) -> Iterator[None]:
    """No node uses the directory within this block. Raises DirectoryInUse."""
    if directory is None:
        yield
        return
    disk = OsDisk(str(directory), read_only=True)
    disk.lock_to_look(names.LOCK)
    try:
        yield
    finally:
        disk.unlock()


# The catalog: an LMDB environment whose values are the broker's records.


@contextlib.contextmanager
def opened_store(disk: Disk) -> Iterator[LmdbStore]:
    assert isinstance(disk, OsDisk), "LMDB opens real files only"
    store = LmdbStore(disk.path(""), read_only=True)
    try:
        yield store
    finally:
        store.close()


def dump_catalog(disk: Disk, name: str) -> Iterator[doctor.Row]:
    """Every record. Nobody is shown a password's hash: it is all that an attack at home needs."""
    with opened_store(disk) as store:
        stored = store.get(HEAD_KEY)
        if stored is not None:
            position, head = decode_head(stored)
            yield {"record": "head", "applied": position.applied, **asdict(head)}
        for kind in LOAD_ORDER:
            for key, value in stored_of(store, kind):
                row = asdict(decoded(kind, key, value))
                if row.get("password_hash") is not None:
                    row["password_hash"] = "(not shown)"
                yield {"record": kind.__name__.removesuffix("Record").lower(), **row}


def verify_catalog(disk: Disk, name: str) -> Iterator[doctor.Finding]:
    with opened_store(disk) as store:
        try:
            stored = store.get(HEAD_KEY)
            if stored is not None:
                decode_head(stored)
        except (Corrupt, CatalogDamaged) as error:
            yield doctor.Finding(name, 0, 0, True, str(error))
        for kind in LOAD_ORDER:
            try:
                for key, value in stored_of(store, kind):
                    decoded(kind, key, value)
            except (Corrupt, CatalogDamaged) as error:
                yield doctor.Finding(name, 0, 0, True, str(error))


doctor.register(doctor.Format("catalog", lambda name: name == DATA_FILE, dump_catalog, verify_catalog))
