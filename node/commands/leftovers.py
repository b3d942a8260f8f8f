"""`leveret doctor --delete-leftovers`: files of classic queues that are declared nowhere, on a stopped node.

A crash may cut the deletion of a queue short, and then its files stay: a start tells of them and leaves them alone, for the
catalog that does not name the queue may be what was lost. So an operator decides, who is told what would go before it goes.

The list of durable files (classic/store/manifest.py) is saved without them before they are deleted: after a crash in between,
doing it again deletes the rest. What the last clean stop wrote down goes first, so the next start reads everything and finds
out what of the shared store nobody refers to any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from broker.catalog.catalog import Catalog
from classic.recovery import clean_stop
from classic.store import manifest
from node.catalog import catalog_store
from storage import names
from storage.disk import Disk, size_of
from storage.lmdb_store import LmdbStore
from storage.os_disk import OsDisk


class NoCatalog(Exception):
    """The text says why nobody can tell from this directory which queues are declared."""


class Changed(Exception):
    """What there is, is not what somebody agreed to delete."""


@dataclass(slots=True, frozen=True)
class Leftover:
    """The files of one queue."""

    queue_id: int  # 0: no file says which
    directory: str
    files: tuple[str, ...]
    size: int

    @property
    def sentence(self) -> str:
        whose = f"queue {self.queue_id}" if self.queue_id else "a queue that nothing names"
        return f"{self.directory}: {len(self.files)} files, {self.size} bytes, of {whose}"


def find_leftovers(directory: Path) -> tuple[list[Leftover], list[str]]:
    """What there is, and what is to be known before it is deleted, in sentences.

    Raises NoCatalog, CatalogDamaged, DirectoryInUse and StorageError.
    """
    with locked(directory) as disk:
        catalog = catalog_of(disk)
        found = leftovers_of(disk, catalog)
    return found, sentences(found, catalog)


def delete_leftovers(directory: Path, agreed: Sequence[Leftover]) -> None:
    """These, and nothing if there are others by now. Raises the same, and Changed."""
    with locked(directory) as disk:
        if leftovers_of(disk, catalog_of(disk)) != list(agreed):
            raise Changed("a node was started on this directory meanwhile: look again at what would be deleted")
        delete(disk, agreed)


@contextmanager
def locked(directory: Path) -> Iterator[OsDisk]:
    """No node uses the directory within this block. Raises NoCatalog and DirectoryInUse."""
    if not ((directory / names.NODE_FACTS).is_file() and (directory / names.CATALOG_DIRECTORY).is_dir()):
        raise NoCatalog(f"{directory} is no data directory of a node, or has no catalog")
    disk = OsDisk(str(directory))
    disk.lock(names.LOCK)
    try:
        yield disk
    finally:
        disk.unlock()


def catalog_of(disk: OsDisk) -> Catalog:
    """As this node knew it last. Raises NoCatalog and CatalogDamaged."""
    store = LmdbStore(disk.path(names.CATALOG_DIRECTORY), read_only=True)
    try:
        if store.get(catalog_store.IN_MEMORY_KEY) is not None:
            raise NoCatalog("this was a RAM node: what is declared is not on its disk, and its queues are not either")
        catalog = Catalog()
        catalog_store.load(store, catalog)
    finally:
        store.close()
    if not catalog.vhosts:
        raise NoCatalog("the catalog of this node is empty: restore it, or start the node in its cluster first")
    return catalog


def leftovers_of(disk: Disk, catalog: Catalog) -> list[Leftover]:
    noted = manifest.load(disk)
    ids = {directory: queue_id for queue_id, (directory, _) in noted.queues.items()}
    declared = {
        names.queue_directory(record.vhost, record.name, record.id)
        for vhost in catalog.vhosts
        for record in catalog.queues(vhost)
        if record.kind == "classic"
    }
    found = []
    for name in sorted(disk.list(names.CLASSIC_DIRECTORY)):
        directory = f"{names.CLASSIC_DIRECTORY}/{name}"
        if names.is_queue_directory(name) and directory not in declared:
            files = tuple(f"{directory}/{file}" for file in disk.list(directory))
            found.append(Leftover(ids.get(directory, 0), directory, files, sum(size_of(disk, one) for one in files)))
    return found


def delete(disk: Disk, found: Sequence[Leftover]) -> None:
    """See the module. Raises DiskFull and DiskFailed."""
    if disk.exists(names.CLASSIC_CLEAN_STOP):
        clean_stop.remove(disk)
    noted = manifest.load(disk)
    for one in found:
        noted.forget_queue(one.queue_id)
    noted.save(disk)
    for one in found:
        for name in one.files:
            disk.delete(name)
        disk.remove_dir(one.directory)
    disk.sync_dir(names.CLASSIC_DIRECTORY)


def sentences(found: Sequence[Leftover], catalog: Catalog) -> list[str]:
    if not found:
        return ["every queue that has files here is declared"]
    queues = sum(1 for vhost in catalog.vhosts for _ in catalog.queues(vhost))
    return [
        *(one.sentence for one in found),
        f"{len(found)} queues, {sum(one.size for one in found)} bytes: the catalog of this node names {queues} queues, and "
        "none of these. Their messages are deleted for good. If a queue is missing that should be declared, or the catalog was "
        "lost or restored from a backup, keep a copy of the data directory first",
    ]
