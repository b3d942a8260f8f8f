"""Copies of damaged files, for a human. Nothing that had been durable is deleted before it lies there."""

from __future__ import annotations

from itertools import count

from storage import names
from storage.disk import Disk
from storage.errors import StorageError


def put_aside(disk: Disk, name: str) -> str:
    """A durable copy of a file; returns its name. One that is there already, from an earlier start, will do.
    Raises FileNotFoundError, DiskFull, DiskFailed."""
    disk.make_dir(names.QUARANTINE_DIRECTORY)
    content = disk.read_file(name)
    for number in count():
        aside = names.quarantined(name, number)
        if not disk.exists(aside):
            break
        if disk.read_file(aside) == content:
            return aside
    file = disk.create(aside)
    try:
        file.write_at(0, [content])
        file.sync()
    except StorageError:
        disk.delete(aside)
        raise
    finally:
        file.close()
    disk.sync_dir(names.QUARANTINE_DIRECTORY)
    return aside
