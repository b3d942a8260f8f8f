"""A file that is replaced as a whole: after a crash there is the old content or the new one, never a mixture.

    offset  size  field
         0     8  magic        b"LVRSNAP\\x01", the last byte is the version
         8     4  crc32c       over the rest of the header and the payload
        12     8  payload_len  little endian
        20        payload

Written in four steps, each needed: a temporary file, its fsync, the rename, the fsync of the directory.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from struct import Struct

from native.crc32c import crc32c
from storage.disk import Buffer, Disk
from storage.errors import Corrupt, StorageError
from storage.names import temporary

MAGIC = b"LVRSNAP\x01"
_HEADER = Struct("<8sIQ")
_LENGTH = Struct("<Q")


def save(disk: Disk, name: str, parts: Sequence[Buffer]) -> None:
    """Replace the file, durably. Raises DiskFull and DiskFailed: then the old content is still there."""
    length = _LENGTH.pack(sum(map(len, parts)))
    crc = crc32c(length)
    for part in parts:
        crc = crc32c(part, crc)
    beside = temporary(name)
    with suppress(FileNotFoundError):  # of an attempt that a crash ended
        disk.delete(beside)
    file = disk.create(beside)
    try:
        file.write_at(0, [MAGIC, crc.to_bytes(4, "little"), length, *parts])
        file.sync()
    except StorageError:
        with suppress(StorageError, FileNotFoundError):
            disk.delete(beside)
        raise
    finally:
        file.close()
    disk.rename(beside, name)
    disk.sync_dir(name.rpartition("/")[0])


def load(disk: Disk, name: str) -> bytes:
    """The payload. Raises FileNotFoundError when nothing was ever saved, Corrupt when it is not what was."""
    return decode(name, disk.read_file(name))


def decode(name: str, data: bytes) -> bytes:
    """The payload of a file's bytes; `name` is for the error. Raises Corrupt."""
    if len(data) < _HEADER.size:
        raise Corrupt(name, 0, len(data), f"{len(data)} bytes are less than a header")
    magic, crc, length = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise Corrupt(name, 0, len(data), f"it begins with {magic!r}, not {MAGIC!r}")
    if length != len(data) - _HEADER.size:
        raise Corrupt(name, 0, len(data), f"it should hold {length} bytes, and holds {len(data) - _HEADER.size}")
    if crc32c(memoryview(data)[12:]) != crc:
        raise Corrupt(name, 0, len(data), "the checksum differs")
    return data[_HEADER.size :]
