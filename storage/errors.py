"""What can go wrong with files, and who must act.

StorageError
  Corrupt      the bytes are not what was written: report, quarantine or repair; never delete
  TornTail     the end of a file was never made durable: its opener may cut it there
  Exhausted    something has run out for now: nothing was done, the same may succeed later
    DiskFull         there is no room: free some; what was being written is not there
    NoDescriptors    the process or the machine has no file descriptor left
  DiskFailed   the device or the file system failed: stop writing, a human must look
"""

from __future__ import annotations


class StorageError(Exception):
    """Anything of this folder. The text names the file and what was wrong with it."""


class Corrupt(StorageError):
    """Bytes that had been durable are damaged or missing. The owner of the file reports it and keeps it."""

    def __init__(self, name: str, offset: int, length: int, reason: str) -> None:
        super().__init__(f"{name} is damaged at offset {offset} ({length} bytes): {reason}")
        self.name = name
        self.offset = offset
        self.length = length
        self.reason = reason


class TornTail(StorageError):
    """A file ends in bytes that no one was promised. `whole` is where the good part ends; the opener may cut there."""

    def __init__(self, name: str, whole: int, size: int) -> None:
        super().__init__(f"{name} ends in {size - whole} bytes of an unfinished write; whole up to {whole}")
        self.name = name
        self.whole = whole
        self.size = size


class Exhausted(StorageError):
    """A resource has run out. The disk is as sound as before: a caller that can wait tries again later."""


class DiskFull(Exhausted):
    """No space left. The caller gives up what it was writing; the operator makes room."""


class NoDescriptors(Exhausted):
    """No file descriptor is left (EMFILE, ENFILE): the file was not opened, and nothing was done to it."""


class DiskFailed(StorageError):
    """Reading, writing or fsync failed, so the content of the file is unknown. Nothing more may be written to it."""


class DirectoryInUse(StorageError):
    """Another process holds the data directory. Nothing in it was touched."""
