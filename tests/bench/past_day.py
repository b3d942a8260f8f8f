"""The archive of a day, as tests/bench/history.py asks it for one of its seconds: files of a node that tell of two queues,
and others of it before and behind them, with summaries that say the hours of the day. The others are links to a few, so a log
of 50 GB takes no more room than its different files; who reads one finds that it is not the file that its name says.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator
from dataclasses import replace
from itertools import chain, cycle, islice
from pathlib import Path
from shutil import copytree
from typing import NamedTuple

from analytics.inputs import LogFile, log_files
from storage import snapshot_file
from storage.archive.summary import Summary, summarise
from storage.names import ARCHIVE_DIRECTORY, RAFT_DIRECTORY, archived, archived_summary, log_file
from storage.os_disk import OsDisk
from tests.bench.history_logs import copied_file

HALF_A_DAY_US = 43_200 * 1_000_000


class SummedFile(NamedTuple):
    file: LogFile
    summary: Summary


def archived_day(data: Path, asked: Container[str], directory: Path, size: int) -> Path:
    """`data`: of a node. Its files that name a queue of `asked` are in the middle of the day; the others stand for the rest."""
    node = directory / "n1"
    (node / ARCHIVE_DIRECTORY).mkdir(parents=True)
    summed = list(_summed(data))
    middle = [one for one in summed if _tells_of(one, asked)]
    fillers = [one for one in summed if not _tells_of(one, asked)]
    count = size // (sum(one.file.size for one in fillers) // len(fillers)) // 2
    begin, end = middle[0].summary.first_us, middle[-1].summary.last_us
    before = _spread(islice(cycle(fillers), count), begin - HALF_A_DAY_US, HALF_A_DAY_US // count)
    behind = _spread(islice(cycle(fillers), count), end + 1, HALF_A_DAY_US // count)
    _place(node, chain(before, middle, behind), frozenset(one.file.name for one in middle))
    copytree(data / RAFT_DIRECTORY, node / RAFT_DIRECTORY)
    return directory


def _tells_of(one: SummedFile, asked: Container[str]) -> bool:
    return any(name is not None and name.name.rpartition("/")[2] in asked for _, name in one.summary.queues or ())


def _summed(data: Path) -> Iterator[SummedFile]:
    for file in log_files([str(data)]):
        opened = OsDisk(file.directory).open(file.name)
        yield SummedFile(file, summarise(opened))
        opened.close()


def _spread(files: Iterable[SummedFile], begin: int, each: int) -> Iterator[SummedFile]:
    for at, one in enumerate(files):
        first = begin + at * each
        yield one._replace(summary=replace(one.summary, first_us=first, last_us=first + each - 1))


def _place(node: Path, files: Iterable[SummedFile], read: Container[str]) -> None:
    """`read`: names of those that must be what they are called; the others are links."""
    disk = OsDisk(str(node))
    for number, one in enumerate(files, 1):
        name, source = log_file(number), Path(one.file.directory) / one.file.name
        if one.file.name in read:
            (node / archived(name)).write_bytes(copied_file(source.read_bytes(), number=number))
        else:
            os.link(source, node / archived(name))
        snapshot_file.save(disk, archived_summary(name), [one.summary.encode()])


def last_second(data: Path) -> int:
    """Of the node's work."""
    return max(one.summary.last_us for one in _summed(data)) // 1_000_000
