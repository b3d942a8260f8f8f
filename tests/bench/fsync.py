"""What one write and its fdatasync cost here, by size and by what lies below. `python -m tests.bench.fsync [DIR]`

The conclusion stands in docs/decisions/0001-preallocated-log-files.md.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from enum import Enum

FILE_BYTES = 64 << 20
COMMIT_BYTES = (200, 1 << 16, 1 << 20)
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


def main() -> None:
    directory = sys.argv[1] if len(sys.argv) > 1 else "."
    for commit_bytes in COMMIT_BYTES:
        for below in Below:
            times = sync_times_us(directory, below, commit_bytes)
            median, p99 = times[len(times) // 2], times[len(times) * 99 // 100]
            print(f"{commit_bytes:8} bytes  {below.value:12}  median {median:6.0f} µs   p99 {p99:6.0f} µs")


if __name__ == "__main__":
    main()
