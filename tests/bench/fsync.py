"""What a write and its fdatasync cost here, by size and by what lies below. `python -m tests.bench.fsync [DIR]`

Also what a log costs the thread that writes it and makes its files, with zeros ahead and without.

The conclusion stands in docs/decisions/0001-preallocated-log-files.md.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from enum import Enum
from statistics import median

from storage.names import LOG_DIRECTORY, log_file
from storage.os_disk import OsDisk
from storage.wal.new_file import NewLogFile

FILE_BYTES = 64 << 20
COMMIT_BYTES = (200, 1 << 16, 1 << 20)
LOG_COMMIT_BYTES = (1 << 16, 1 << 18, 1 << 20, 1 << 21)
LOG_FILES = 6
WRITES_MAX = 1500
ZEROS = bytes(1 << 20)


class Below(Enum):
    """What lies where a commit is written."""

    NOTHING = "appended to"
    RESERVED = "preallocated"
    ZEROS = "filled"


def sync_times_us(directory: str, below: Below, commit_bytes: int = COMMIT_BYTES[0]) -> list[float]:
    """Sorted times of commits written one behind the other."""
    descriptor, path = tempfile.mkstemp(dir=directory)
    try:
        if below is not Below.NOTHING:
            os.posix_fallocate(descriptor, 0, FILE_BYTES)
        if below is Below.ZEROS:
            for offset in range(0, FILE_BYTES, len(ZEROS)):
                os.pwrite(descriptor, ZEROS, offset)
        os.fsync(descriptor)
        times = []
        commit = b"x" * commit_bytes
        for number in range(min(WRITES_MAX, FILE_BYTES // commit_bytes)):
            begin = time.perf_counter()
            os.pwrite(descriptor, commit, number * commit_bytes)
            os.fdatasync(descriptor)
            times.append((time.perf_counter() - begin) * 1e6)
        return sorted(times)
    finally:
        os.close(descriptor)
        os.unlink(path)


def log_ms(disk: OsDisk, commit_bytes: int, *, zeros: bool) -> Iterator[float]:
    """For a MiB of each of several files that one thread writes, making the next one while it writes the second half."""
    commit = b"x" * commit_bytes
    file = NewLogFile(disk, 1, FILE_BYTES).finish()
    for number in range(1, LOG_FILES + 1):
        begin, more = time.perf_counter(), zeros
        following = NewLogFile(disk, number + 1, FILE_BYTES)
        for offset in range(0, FILE_BYTES, commit_bytes):
            file.write_at(offset, [commit])
            file.sync()
            if offset * 2 >= FILE_BYTES and more:
                more = following.fill()
        while more:
            more = following.fill()
        file.close()
        file = following.finish()
        yield (time.perf_counter() - begin) * 1e3 * (1 << 20) / FILE_BYTES
        disk.delete(log_file(number))
    file.close()
    disk.delete(log_file(LOG_FILES + 1))


def main() -> None:
    directory = sys.argv[1] if len(sys.argv) > 1 else "."
    with tempfile.TemporaryDirectory(dir=directory) as below_it:
        disk = OsDisk(below_it)
        disk.make_dir(LOG_DIRECTORY)
        for commit_bytes in LOG_COMMIT_BYTES:
            filled = median(log_ms(disk, commit_bytes, zeros=True))
            reserved = median(log_ms(disk, commit_bytes, zeros=False))
            print(
                f"a log of commits of {commit_bytes:8} bytes: {filled:.2f} ms a MiB with zeros, {reserved:.2f} without"
            )
    for commit_bytes in COMMIT_BYTES:
        for below in Below:
            times = sync_times_us(directory, below, commit_bytes)
            middle, p99 = times[len(times) // 2], times[len(times) * 99 // 100]
            print(f"{commit_bytes:8} bytes  {below.value:12}  median {middle:6.0f} µs   p99 {p99:6.0f} µs")


if __name__ == "__main__":
    main()
