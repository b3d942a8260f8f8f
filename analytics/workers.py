"""Processes that read files side by side."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

from analytics.inputs import LogFile

T = TypeVar("T")
Item = TypeVar("Item")
HERE_BYTES_MAX = 64 << 20  # so little is read faster than processes are started


class Workers:
    """This process, if there is little to read."""

    def __init__(self, files: Sequence[LogFile], processes_max: int | None = None) -> None:
        """Without `processes_max`: as many as there are processors."""
        processes = min(processes_max or os.cpu_count() or 1, len(files))
        is_little = sum(file.size for file in files) <= HERE_BYTES_MAX
        self._pool = None if is_little or processes < 2 else ProcessPoolExecutor(processes)

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def each(self, do: Callable[[Item], T], items: Iterable[Item]) -> list[T]:
        """What is to be done takes files, or what names one."""
        return list(map(do, items) if self._pool is None else self._pool.map(do, items))
