"""Keeps copies of damaged files for operators. No file that had been durable is deleted before its copy is durable."""

from __future__ import annotations

from itertools import count

from storage import names
from storage.disk import Disk
from storage.errors import StorageError


def quarantine(disk: Disk, name: str) -> str:
    """Make a durable copy of a file, unless an earlier start has made the same, and return its name. Raises FileNotFoundError,
    DiskFull, DiskFailed."""
    disk.make_dir(names.QUARANTINE_DIRECTORY)
    content = disk.read_file(name)
    for number in count():
        copy = names.quarantined(name, number)
        if not disk.exists(copy):
            break
        if disk.read_file(copy) == content:
            return copy
    file = disk.create(copy)
    try:
        file.write_at(0, [content])
        file.sync()
    except StorageError:
        disk.delete(copy)
        raise
    finally:
        file.close()
    disk.sync_dir(names.QUARANTINE_DIRECTORY)
    return copy
