"""A log file on its way to be used: its room reserved, zeros written into it, then itself and its name made durable.

The zeros are for speed alone. Room that is only reserved must be turned into written blocks, with the file system's journal,
by the very fsync that a confirm waits for; where zeros lie already, a commit overwrites them (docs/decisions/0001). They are
written in slices, so that a commit which the same thread is to write never waits for more than one. A file that is needed
before its last slice is used as it is, and one that large commits will fill gets none (wal/writer.py).
"""

from __future__ import annotations

from storage.disk import Disk, File
from storage.names import LOG_DIRECTORY, log_file

SLICE_BYTES = 1 << 20
ZEROS = bytes(SLICE_BYTES)


class NewLogFile:
    """One file, from its creation to `finish` or `close`. Any call may raise StorageError; then it is given up."""

    def __init__(self, disk: Disk, number: int, size: int) -> None:
        self.number = number
        self._disk = disk
        self._size = size
        self._filled = 0
        self._file: File = disk.create(log_file(number), size)

    def fill(self) -> bool:
        """Write the next slice of zeros. Returns whether more are to come."""
        slice_bytes = min(SLICE_BYTES, self._size - self._filled)
        self._file.write_at(self._filled, [memoryview(ZEROS)[:slice_bytes]])
        self._file.sync()  # here, so that `finish` has little left to wait for
        self._filled += slice_bytes
        return self._filled < self._size

    def finish(self) -> File:
        """Make the file and its name durable: from now on promises may be written to it."""
        self._file.sync()
        self._disk.sync_dir(LOG_DIRECTORY)
        return self._file

    def close(self) -> None:
        """It is given up, and can be deleted."""
        self._file.close()
