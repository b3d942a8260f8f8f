"""A disk on which the archive gives way before it counts as full.

Whatever meets DiskFull has the oldest archived files deleted, and is done once more. An archive that has nothing left to give
leaves the disk as full as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from storage.disk import Buffer, Disk, File
from storage.errors import DiskFull

T = TypeVar("T")


class RoomyFile:
    """An open file of such a disk."""

    def __init__(self, file: File, give_room: Callable[[], bool]) -> None:
        self._file = file
        self._give_room = give_room
        self.read_at = file.read_at
        self.read_ahead = file.read_ahead
        self.uncache = file.uncache
        self.send_to = file.send_to
        self.system_file = file.system_file  # who finds no room with it comes back to `write_at`
        self.sync = file.sync
        self.truncate = file.truncate
        self.size = file.size
        self.close = file.close

    def write_at(self, offset: int, parts: Sequence[Buffer]) -> None:
        try:
            self._file.write_at(offset, parts)
        except DiskFull:
            if not self._give_room():
                raise
            self._file.write_at(offset, parts)


class RoomyDisk:
    """Fulfils Disk over another one."""

    def __init__(self, disk: Disk, give_room: Callable[[], bool]) -> None:
        self._disk = disk
        self._give_room = give_room
        self.read_file = disk.read_file
        self.delete = disk.delete
        self.sync_dir = disk.sync_dir
        self.remove_dir = disk.remove_dir
        self.list = disk.list
        self.exists = disk.exists
        self.lacks_descriptors = disk.lacks_descriptors
        self.free_bytes = disk.free_bytes

    def create(self, name: str, preallocate: int = 0) -> File:
        return self._file(self._with_room(lambda: self._disk.create(name, preallocate)))

    def open(self, name: str) -> File:
        return self._file(self._disk.open(name))

    def rename(self, old: str, new: str) -> None:
        self._with_room(lambda: self._disk.rename(old, new))

    def link(self, old: str, new: str) -> bool:
        return self._with_room(lambda: self._disk.link(old, new))

    def make_dir(self, name: str) -> None:
        self._with_room(lambda: self._disk.make_dir(name))

    def begin_dir(self, name: str) -> None:
        self._with_room(lambda: self._disk.begin_dir(name))

    def _file(self, file: File) -> File:
        return RoomyFile(file, self._give_room)

    def _with_room(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except DiskFull:
            if not self._give_room():
                raise
            return call()
