"""The files of the classic queues as a start finds them, and as it may rely on them from then on.

After a clean stop the summary and the manifest are believed when every file is at least as long as the manifest says. Otherwise
each file is cut to the size that the manifest vouches for, and files that it does not name are deleted: the log has what was in
them. A file that is missing or too short was damaged; that is reported, and the rest of it is used.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.records import QueueRecord
from classic.recovery import clean_stop
from classic.recovery.clean_stop import CleanStop
from classic.recovery.manifest_from_files import manifest_from_files
from classic.store import manifest
from classic.store.manifest import Manifest
from classic.store.node_storage import NodeStorage
from classic.store.queue_index import Segment
from classic.store.salvage import scan_on
from classic.store.store import Stored
from classic.stored_run import InStore
from storage import names
from storage.disk import Disk
from storage.errors import Corrupt
from storage.record import Kind


class RecoveredFiles:
    """See the module."""

    def __init__(self, storage: NodeStorage, records: Mapping[int, QueueRecord]) -> None:
        self._storage = storage
        self._disk = storage.disk
        self._records = records
        self._disk.make_dir(names.CLASSIC_DIRECTORY)
        self.clean = self._take_clean_stop()  # None after a crash, and where it cannot be believed
        self.manifest = self._load_manifest()
        self._compare_sizes()
        storage.spilled.empty()
        if self.clean is not None:
            self._restore(self.clean)
        else:
            self._cut_all()
            self.manifest.save(self._disk)  # what a killed process left may not be synced; from here on we rely on it
            storage.store.scan(self.manifest.store, self._scan_behind_damage)

    # the clean stop and the manifest

    def _take_clean_stop(self) -> CleanStop | None:
        try:
            return clean_stop.take(self._disk)
        except Corrupt as error:
            what = f"{error}: the start takes what the log and the index files say"
            self._storage.keep_copy(names.CLASSIC_CLEAN_STOP, what)
            clean_stop.remove(self._disk)
            return None

    def _load_manifest(self) -> Manifest:
        """The first start saves one before there is any file, so files without a manifest mean that it was lost."""
        try:
            if self._disk.exists(names.CLASSIC_FILES) or not manifest.has_files(self._disk):
                return manifest.load(self._disk)
            self._storage.found(f"{names.CLASSIC_FILES} is missing: all files that are there are taken as they are")
        except Corrupt as error:
            what = f"{error}: all files that are there are taken as they are"
            self._storage.keep_copy(names.CLASSIC_FILES, what)
        self.clean = None
        return manifest_from_files(self._disk, self._records.values())

    def _compare_sizes(self) -> None:
        """The summary of a clean stop is of no use when a file is shorter now. Files are not read: there are many. Damage to an
        index is found when it is read, at the latest before something is written behind it."""
        if self.clean is not None and (damaged := self._first_too_short()) is not None:
            self._storage.found(
                f"{damaged} is not as the last stop left it: the start takes what the log and the files say"
            )
            self.clean = None

    def _first_too_short(self) -> str | None:
        sizes = {names.store_file(names.STORE_PERSISTENT, number): size for number, size in self.manifest.store.items()}
        for queue_id, (directory, segments) in self.manifest.queues.items():
            if queue_id not in self._records:
                continue
            for number, segment in segments.items():
                sizes[names.index_segment(directory, number)] = segment.index_size
                if segment.body_size:
                    sizes[names.body_file(directory, number)] = segment.body_size
        return next((name for name, size in sizes.items() if size_of(self._disk, name) < size), None)

    def _restore(self, clean: CleanStop) -> None:
        contents = {InStore(*row[:2]): Stored(*row[2:]) for row in clean.store}
        self._storage.store.restore(self.manifest.store, contents)
        self._storage.live.update(clean.live)

    # after a crash: every file as long as the manifest says

    def _cut_all(self) -> None:
        self._cut_segments()
        self._cut_store()
        self._delete_unnoted()

    def _cut_segments(self) -> None:
        for queue_id, (directory, segments) in list(self.manifest.queues.items()):
            declared = queue_id in self._records
            if not declared and not self._disk.exists(directory):
                self.manifest.forget_queue(queue_id)  # a crash between deleting its files and saving the manifest
                continue
            for number, segment in list(segments.items()):
                if declared:
                    self._cut_segment(queue_id, directory, number, segment)
                elif not self._disk.exists(names.index_segment(directory, number)):
                    self.manifest.forget_segment(queue_id, number)  # a crash half-way

    def _cut_segment(self, queue_id: int, directory: str, number: int, segment: Segment) -> None:
        """Places in a body file are never used again, so its size stays as it was noted, whatever is left of it."""
        body = names.body_file(directory, number)
        if segment.body_size and not self._cut(body, segment.body_size):
            self._disk.make_dir(directory)  # which may be lost with it
            self._disk.create(body).close()
        if not self._cut(names.index_segment(directory, number), segment.index_size):
            if segment.body_size:
                self._storage.keep_copy(body, f"nothing says any more what lies in {body}")
            self.manifest.forget_segment(queue_id, number)

    def _cut_store(self) -> None:
        for number, size in list(self.manifest.store.items()):
            if not self._cut(names.store_file(names.STORE_PERSISTENT, number), size):
                del self.manifest.store[number]

    def _cut(self, name: str, size: int) -> bool:
        """Make the file as long as the manifest says. False when it is missing."""
        try:
            file = self._disk.open(name)
        except FileNotFoundError:
            self._storage.found(f"{name} is missing: what it held is lost")
            return False
        try:
            found = file.size()
            if found > size:
                file.truncate(size)
        finally:
            file.close()
        if found < size:
            what = f"{name} has {found} bytes, {size} of it were durable: the rest is lost"
            self._storage.keep_copy(name, what)
        return True

    def _delete_unnoted(self) -> None:
        """Files of queues and of the store that the manifest does not name."""
        noted = {
            name
            for directory, segments in self.manifest.queues.values()
            for number in segments
            for name in (names.index_segment(directory, number), names.body_file(directory, number))
        }
        for directory in self._disk.list(names.CLASSIC_DIRECTORY):
            if names.is_queue_directory(directory):
                self._delete_others(f"{names.CLASSIC_DIRECTORY}/{directory}", noted)
        stored = {names.store_file(names.STORE_PERSISTENT, number) for number in self.manifest.store}
        for name in self._disk.list(names.STORE_PERSISTENT):
            if f"{names.STORE_PERSISTENT}/{name}" not in stored:
                self._disk.delete(f"{names.STORE_PERSISTENT}/{name}")

    def _delete_others(self, directory: str, kept: set[str]) -> None:
        for name in self._disk.list(directory):
            if f"{directory}/{name}" not in kept:
                self._disk.delete(f"{directory}/{name}")
        if not self._disk.list(directory):
            self._disk.remove_dir(directory)

    def _scan_behind_damage(self, name: str, offset: int, length: int, reason: str) -> None:
        """The store's own scan ends at damage. The records behind it are still wanted."""
        contents, number = self._storage.store.contents, names.number_of(name, names.STORE_SUFFIX)
        assert number is not None, f"{name} is no file of the store"
        data = self._disk.read_file(name)[: offset + length]
        records, damages = scan_on(data, offset)
        self._storage.damaged(name, damages)
        for kind, _, _, writer, index, start, end in records:
            if kind == Kind.CLASSIC_STORED:
                contents.setdefault(InStore(writer, index), Stored(number, start, end - start, 0))

    # after all queues were filled

    def delete_undeclared(self, deleted: set[int]) -> None:
        """Delete the files of queues that are not declared, if the log has their deletion. Others are reported and kept."""
        for queue_id, (directory, segments) in list(self.manifest.queues.items()):
            if queue_id in self._records:
                continue
            if queue_id in deleted:
                for name in self._disk.list(directory):
                    self._disk.delete(f"{directory}/{name}")
                self.manifest.forget_queue(queue_id)
            else:
                self._storage.found(
                    f"{directory} holds {len(segments)} segments of queue {queue_id}, which is not declared: it is left alone"
                )


def size_of(disk: Disk, name: str) -> int:
    """-1 for a missing file."""
    try:
        file = disk.open(name)
    except FileNotFoundError:
        return -1
    try:
        return file.size()
    finally:
        file.close()
