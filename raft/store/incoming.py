"""A snapshot that is being received: in parts first, and soon in the files that it will be.

    loop   chunks are appended to a part, without fsync
    jobs   a part that is full goes to a snapshot file and to segments, and is deleted (TakePart)
           the last one too, and all of it is durable and has its names (Install)

So what arrives is written to the disk once, for the system rarely gets around to a part before it is deleted, and nothing large
is left to be done when the last chunk is there. Segments leave the system's memory as soon as they are synced: gigabytes of old
messages would push out what clients read, and fresh memory for them took the receiver half as much processor time again.

The stream of bytes is told of in raft/store/snapshots.py, the jobs in raft/store/snapshot_jobs.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

from raft.core.live_entries import LiveEntries
from raft.core.messages import SnapshotMeta
from raft.store.entry_records import entries_of
from raft.store.group_records import StoredSnapshot
from raft.store.segments import SegmentBuilder
from raft.store.snapshots import contents
from raft.store.store_limits import SegmentBounds
from storage.disk import Buffer, Disk, File
from storage.errors import Corrupt, StorageError
from storage.names import RAFT_DIRECTORY, group_incoming, group_snapshot, temporary
from storage.record import CLEAN_END, DAMAGED, HEADER_BYTES, PAYLOAD_BYTES_MAX, Kind, Record, scan

READ_BYTES = 1 << 20  # of a part, at a time


class Incoming:
    """What has arrived and is no job's yet: the newest part. For the loop."""

    def __init__(
        self, disk: Disk, group: int, part_numbers: Iterator[int], part_bytes_max: int, assembly: SnapshotAssembly
    ) -> None:
        self.assembly = assembly
        self._disk = disk
        self._group = group
        self._part_numbers = part_numbers
        self._part_bytes_max = part_bytes_max
        self._size = 0
        self._name = ""
        self._part: File | None = None
        self._part_bytes = 0

    def add(self, offset: int, data: bytes) -> str | None:
        """Returns the part that is full now, if one is. Raises DiskFull, DiskFailed."""
        assert offset == self._size, f"chunk at {offset} behind {self._size} bytes of a snapshot"
        part = self._part or self._begin()
        part.write_at(self._part_bytes, [data])
        self._part_bytes += len(data)
        self._size += len(data)
        return self.end_part() if self._part_bytes >= self._part_bytes_max else None

    def _begin(self) -> File:
        self._name = group_incoming(self._group, next(self._part_numbers))
        self._part = self._disk.create(self._name)
        self._part_bytes = 0
        return self._part

    def end_part(self) -> str | None:
        """Nothing more goes to the newest part. Returns it, if there is one."""
        if self._part is None:
            return None
        self._part.close()
        self._part = None
        return self._name

    @property
    def files(self) -> list[str]:
        """The newest part, and what those before it have become."""
        return [self._name, *self.assembly.files] if self._part is not None else self.assembly.files

    def drop(self) -> None:
        """What has arrived is of no use. A file that stays is deleted by the next start."""
        self.assembly.refuse("it is not received any more")
        name = self.end_part()
        if name is not None:
            with suppress(StorageError, FileNotFoundError):
                self._disk.delete(name)


class SnapshotAssembly:
    """The files that a snapshot will be, made of its bytes in their order. For jobs, but for `refuse`."""

    def __init__(self, disk: Disk, group: int, next_number: Callable[[], int], bounds: SegmentBounds) -> None:
        self.why = ""  # it cannot be used, once that is known
        self._disk = disk
        self._group = group
        self._next_number = next_number
        self._builder = SegmentBuilder(disk, group, next_number, bounds, read_soon=False)
        self._number = 0  # of the snapshot file; 0: it is not begun
        self._file: File | None = None  # of the snapshot: the stream up to its first entry
        self._file_bytes = 0
        self._rest = b""  # the begin of a record
        self._contents: tuple[SnapshotMeta, LiveEntries, bytes] | None = None  # of that file, once it is whole
        self._expected: Iterator[int] = iter(())  # live entries that are still to come
        self._is_finished = False

    @property
    def files(self) -> list[str]:
        """That it has begun and that may be there: where they do not come to count, they are to go."""
        return [*self._own_files, *self._builder.files]

    @property
    def _own_files(self) -> list[str]:
        return [temporary(self._name), self._name] if self._number else []

    def refuse(self, why: str) -> None:
        """It cannot be used. Whatever else comes of it is not looked at."""
        self.why = self.why or why

    def take(self, part: str) -> None:
        """The next bytes, all that are in this file. Raises DiskFull, DiskFailed."""
        try:
            file = self._disk.open(part)
        except FileNotFoundError:
            self.refuse(f"{part} is missing")
            return
        try:
            size, at = file.size(), 0
            while at < size and not self.why:
                self._feed(file.read_at(at, READ_BYTES))
                at += READ_BYTES
        except Corrupt as error:
            self.refuse(str(error))
        finally:
            file.close()

    def finish(self, meta: SnapshotMeta) -> tuple[StoredSnapshot, LiveEntries, bytes]:
        """All of it is there: it becomes durable, and counts once the log says so. Returns the machine's state as well. Raises
        Corrupt when it is not this snapshot as it was sent; DiskFull, DiskFailed."""
        found, live, state = self._contents or self._file_is_whole()
        if found != meta:
            raise self._corrupt(f"it is snapshot {found}, not {meta}")
        missing = next(self._expected, None)
        if self._rest or missing is not None:
            raise self._corrupt(f"it ends within a record, or without live entry {missing}")
        segments = tuple(sorted(self._builder.finish()))
        assert self._file is not None, "its contents were read"
        self._file.sync()
        self._disk.rename(temporary(self._name), self._name)
        self._disk.sync_dir(RAFT_DIRECTORY)
        self._is_finished = True
        return StoredSnapshot(meta, meta.index + 1, self._number, self._file_bytes, live.count, segments), live, state

    def close(self) -> None:
        """Also after a failure: let go of what is not finished. What cannot be deleted stays in `files`."""
        if self._file is not None:
            self._file.close()
        self._builder.close()
        if not self._is_finished:
            for name in self._own_files:
                with suppress(StorageError, FileNotFoundError):
                    self._disk.delete(name)

    def _feed(self, data: bytes) -> None:
        """Raises Corrupt, DiskFull, DiskFailed."""
        data = self._rest + data
        records, end, why = scan(data, 0, len(data), PAYLOAD_BYTES_MAX)
        for record in records:
            if record[0] == Kind.RAFT_ENTRIES:
                self._add_entries(record, data)
            else:
                self._add_to_file(memoryview(data)[record[5] - HEADER_BYTES : record[6]])
        self._rest = data[end:]
        if why == DAMAGED or (why == CLEAN_END and len(self._rest) >= HEADER_BYTES):
            raise self._corrupt("the checksum of a record differs")

    def _add_to_file(self, record: Buffer) -> None:
        if self._contents is not None:
            raise self._corrupt("something that is no entry stands behind its end")
        if self._file is None:
            self._number = self._next_number()
            self._file = self._disk.create(temporary(group_snapshot(self._group, self._number)))
        self._file.write_at(self._file_bytes, [record])
        self._file_bytes += len(record)

    def _add_entries(self, record: Record, data: bytes) -> None:
        """All live entries, and nothing else, follow the file."""
        if self._contents is None:
            self._file_is_whole()
        entries = entries_of(self._name, self._group, record, data)
        for entry in entries:
            if entry.index != next(self._expected, None):
                raise self._corrupt(f"entry {entry.index} is not the next one that is live")
        self._builder.add(entries)

    def _file_is_whole(self) -> tuple[SnapshotMeta, LiveEntries, bytes]:
        if self._file is None:
            raise self._corrupt("it is empty")
        self._contents = contents(self._file, self._name, self._group, self._file_bytes)
        self._expected = iter(self._contents[1])
        return self._contents

    @property
    def _name(self) -> str:
        return group_snapshot(self._group, self._number)

    def _corrupt(self, why: str) -> Corrupt:
        return Corrupt(self._name, self._file_bytes, 0, why)
