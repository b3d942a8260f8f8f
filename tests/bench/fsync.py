"""What one fdatasync costs here: appended files beside preallocated ones. `python -m tests.bench.fsync [DIR]`

The conclusion stands in docs/decisions/0001-preallocated-log-files.md.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time

WRITES = 1500
RECORD = b"x" * 200
PREALLOCATED_BYTES = 64 << 20


def sync_times_us(directory: str, *, preallocated: bool) -> list[float]:
    descriptor, path = tempfile.mkstemp(dir=directory)
    try:
        if preallocated:
            os.posix_fallocate(descriptor, 0, PREALLOCATED_BYTES)
            os.fsync(descriptor)
        times = []
        for number in range(WRITES):
            begin = time.perf_counter()
            os.pwrite(descriptor, RECORD, number * len(RECORD))
            os.fdatasync(descriptor)
            times.append((time.perf_counter() - begin) * 1e6)
        return sorted(times)
    finally:
        os.close(descriptor)
        os.unlink(path)


def main() -> None:
    directory = sys.argv[1] if len(sys.argv) > 1 else "."
    for preallocated in (False, True):
        times = sync_times_us(directory, preallocated=preallocated)
        kind = "preallocated" if preallocated else "appended to"
        print(f"{kind:12}  median {times[WRITES // 2]:6.0f} µs   p99 {times[WRITES * 99 // 100]:6.0f} µs")


if __name__ == "__main__":
    main()
