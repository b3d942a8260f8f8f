"""`leveret wal dump`: the log of a node as rows, from its directory or one of its files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from node.exporting.log_rows import LogDirectory, Row, rows_of_file
from storage.os_disk import OsDisk

FOLLOW_PAUSE_S = 0.2  # a commit is seen this much later at most; a look at the file costs microseconds


def wait_for_more() -> None:
    time.sleep(FOLLOW_PAUSE_S)


def dump_rows(path: Path, follow: Callable[[], None] | None = None) -> Iterator[Row]:
    """The records of a file, or of the log in a data directory or an export of one; a row with `finding` says what could not be
    read. With `follow`, called whenever nothing new is there, it never ends.

    Raises FileNotFoundError, and ValueError for what is no file of records or holds no log.
    """
    path.stat()
    if path.is_dir():
        yield from LogDirectory(OsDisk(str(path), read_only=True)).rows(follow)
    else:
        yield from rows_of_file(path)
