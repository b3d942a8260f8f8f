"""A disk whose fsync takes its time: what is promised too early is then promised long before it is durable."""

from __future__ import annotations

import time
from collections.abc import Sequence

from storage.disk import Buffer, File
from storage.os_disk import OsDisk


class SlowFile:
    """A file of the real disk. The wait comes before the fsync, so that until then nothing of it is durable."""

    def __init__(self, file: File, fsync_s: float) -> None:
        self._file = file
        self._fsync_s = fsync_s

    def write_at(self, offset: int, parts: Sequence[Buffer]) -> None:
        self._file.write_at(offset, parts)

    def system_file(self) -> None:
        """Whatever writes it otherwise would not wait."""

    def read_at(self, offset: int, size: int) -> bytes:
        return self._file.read_at(offset, size)

    def read_ahead(self, offset: int, size: int) -> None:
        self._file.read_ahead(offset, size)

    def uncache(self, offset: int, size: int) -> None:
        self._file.uncache(offset, size)

    def send_to(self, socket: int, offset: int, size: int) -> int:
        return self._file.send_to(socket, offset, size)

    def sync(self) -> None:
        time.sleep(self._fsync_s)
        self._file.sync()

    def truncate(self, size: int) -> None:
        self._file.truncate(size)

    def size(self) -> int:
        return self._file.size()

    def close(self) -> None:
        self._file.close()


class SlowDisk(OsDisk):
    """The real disk, but for fsync."""

    def __init__(self, root: str, fsync_s: float) -> None:
        super().__init__(root)
        self._fsync_s = fsync_s

    def create(self, name: str, preallocate: int = 0) -> File:
        return SlowFile(super().create(name, preallocate), self._fsync_s)

    def open(self, name: str) -> File:
        return SlowFile(super().open(name), self._fsync_s)
