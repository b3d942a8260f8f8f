"""Compaction of one message store: what lives in files that are mostly garbage is copied to a new file, so that they can go.

    plan      on the loop: which files, and which contents live in them
    copy      in the background, with handles of its own: the loop never waits for the disk
    switch    on the loop: the copies count from now on, and the sources hold nothing that lives

For the persistent store the manifest is saved between `copy` and `switch`, with the copy and without the sources. So until the
disk vouches for the copies the sources are what counts, in memory too: an attempt that fails anywhere before changes nothing,
and its file is deleted. A content that cannot be read stays where it is, with its file; the others are copied all the same.

Several files are compacted into one, so that the store does not end up as many small files.
"""

from __future__ import annotations

from classic.store.open_files import whole_payload
from classic.store.store import MessageStore
from classic.stored_run import InStore
from storage.disk import Buffer, Disk, File
from storage.errors import Corrupt, StorageError
from storage.record import HEADER_BYTES, VERSION, Kind, seal

SOURCES_MAX = 16
BATCH_BYTES = 1 << 20  # written with one call


class Compaction:
    """One attempt. `sources` are held, which keeps them from being deleted, until `switch` or `give_up`."""

    def __init__(self, store: MessageStore, sources: list[int], number: int) -> None:
        self.sources = sources
        self.target = number
        self.size = 0  # of the target
        self.damages: list[Corrupt] = []
        self._store = store
        self._planned = [
            (content_id, source, stored.offset, stored.size)
            for source in sources
            for content_id, stored in store.living_in(source)
        ]
        self._copied: list[tuple[InStore, int, int]] = []  # content, its source, its place in the target
        self._damaged: set[int] = set()
        for source in sources:
            store.files[source].held = True

    @property
    def emptied(self) -> list[int]:
        """The sources of which every living content was copied."""
        return [source for source in self.sources if source not in self._damaged]

    def copy(self, disk: Disk, durable: bool) -> None:
        """For the background: write the target. Raises DiskFull, DiskFailed: then there is none."""
        name = self._store.name_of(self.target)
        if disk.exists(name):
            disk.delete(name)  # a stop or a crash left it behind, and nothing lives in it
        target = disk.create(name)
        try:
            self._copy_all(disk, target)
            if durable:
                target.sync()
                disk.sync_dir(self._store.directory)
        except StorageError:
            target.close()
            disk.delete(name)
            raise
        target.close()

    def _copy_all(self, disk: Disk, target: File) -> None:
        source, file = 0, None
        parts: list[Buffer] = []
        gathered = 0
        try:
            for content_id, number, offset, size in self._planned:
                if file is None or number != source:
                    if file is not None:
                        file.close()
                    source, file = number, disk.open(self._store.name_of(number))
                data = file.read_at(offset - HEADER_BYTES, HEADER_BYTES + size)
                content = whole_payload(data, 0, size)
                if content is None:
                    self._cannot_read(number, offset, size)
                    continue
                parts += (seal([content], Kind.CLASSIC_STORED, 0, 0, *content_id, VERSION), content)
                gathered += HEADER_BYTES + size
                self._copied.append((content_id, number, self.size + gathered - size))
                if gathered >= BATCH_BYTES:
                    target.write_at(self.size, parts)
                    self.size, gathered, parts = self.size + gathered, 0, []
        finally:
            if file is not None:
                file.close()
        target.write_at(self.size, parts)
        self.size += gathered

    def _cannot_read(self, source: int, offset: int, size: int) -> None:
        self._damaged.add(source)
        name = self._store.name_of(source)
        self.damages.append(Corrupt(name, offset - HEADER_BYTES, HEADER_BYTES + size, "no whole record lies here"))

    def switch(self, durable: bool) -> None:
        """The copies are what counts."""
        store = self._store
        ids = [content_id for content_id, _, _ in self._copied]
        store.adopt(self.target, self.size, self.size if durable else 0, ids)
        for content_id, source, offset in self._copied:
            store.moved(content_id, source, self.target, offset)
        for source in self._damaged:
            store.files[source].damaged = True
        self._let_go()
        for source in self.emptied:
            assert not store.files[source].living, f"{store.name_of(source)} was copied and has contents that were not"

    def give_up(self) -> None:
        """It failed: everything is as it was."""
        self._let_go()

    def _let_go(self) -> None:
        for source in self.sources:
            self._store.files[source].held = False


def plan(store: MessageStore, wanted_bytes: int) -> Compaction | None:
    """What is worth compacting now, None when less than `wanted_bytes` would be won. Raises DiskFull."""
    sources: list[int] = []
    living = garbage = 0
    for number in store.sparse_files():
        file = store.files[number]
        if len(sources) == SOURCES_MAX or (sources and living + file.living > store.file_bytes_max):
            break
        sources.append(number)
        living += file.living
        garbage += file.size - file.living
    if not sources or garbage < wanted_bytes:
        return None
    return Compaction(store, sources, store.next_number())
