"""Which files there are to read, and of which node.

A path is a data directory, a copy or export of one, or a directory with one of them for each node. Within, `archive/` and
`log/` have files of the log, and `archive/` and `raft/` snapshots of groups; a file that is in both is one file that is
being moved.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from socket import gethostname
from typing import NamedTuple

from storage.disk import File
from storage.history.column_reader import log_of
from storage.names import (
    ARCHIVE_DIRECTORY,
    KEPT_SUFFIX,
    LOG_DIRECTORY,
    LOG_SUFFIX,
    RAFT_DIRECTORY,
    SEGMENT_SUFFIX,
    SNAPSHOT_SUFFIX,
    archived,
    group_file_of,
    number_of,
)
from storage.os_disk import OsDisk

WITH_LOGS = (ARCHIVE_DIRECTORY, LOG_DIRECTORY)
EXPORT_MANIFEST = "export.json"  # of leveretctl: client/leveret/ctl/terminal/export_directory.py
EXPORT_FORMAT = 1
_ZEROS = bytes(1 << 20)


class NodeDisk(OsDisk):
    """The files of a node, for reading. A running one moves files of its log to the archive: they are opened where they are
    now."""

    def __init__(self, directory: str) -> None:
        super().__init__(directory, read_only=True)

    def open(self, name: str) -> File:
        try:
            return super().open(name)
        except FileNotFoundError:
            if not name.startswith(LOG_DIRECTORY):
                raise
            return super().open(archived(name))


class LogFile(NamedTuple):
    """One file of one node's log, or of a segment of a replicated log."""

    node: str  # the name of its directory
    directory: str
    name: str  # below the directory
    number: int  # of segments another one than of files of the log
    size: int
    is_last: bool  # of the node: its end may be unfinished, and a node may be writing to it
    is_behind_gap: bool = False  # nothing is written in it: it is told of since files before it are missing


class SnapshotFile(NamedTuple):
    """What a node's member of a group was at one place of its log."""

    node: str
    directory: str
    name: str  # below the directory
    group: int
    number: int
    size: int


class NodeExport(NamedTuple):
    """What `leveretctl wal export` has left out of a data directory, beside the files of queues."""

    bodies_withheld: bool


def export_of(directory: str) -> NodeExport | None:
    """None: it is a data directory, or a copy of one. Raises ValueError."""
    path = Path(directory) / EXPORT_MANIFEST
    try:
        said = json.loads(path.read_text())
        made_as, bodies = said["format"], said["bodies"]
    except FileNotFoundError:
        return None
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is no manifest of an export") from error
    if made_as != EXPORT_FORMAT:
        raise ValueError(f"{path} has format {made_as}, and {EXPORT_FORMAT} is known")
    return NodeExport(bodies != "included")


@contextmanager
def unless_deleted(file: LogFile) -> Iterator[None]:
    """For reading it: a file that its node has deleted meanwhile has nothing more to say. Raises NotADirectoryError where its
    directory is missing, as on a worker that does not see it."""
    try:
        yield
    except FileNotFoundError:
        if not Path(file.directory).is_dir():
            raise NotADirectoryError(f"there is no {file.directory} on {gethostname()}") from None


@contextmanager
def while_there(file: LogFile) -> Iterator[None]:
    """For rows that cannot say what is missing. Raises ValueError where the node has deleted the file meanwhile."""
    with unless_deleted(file):
        yield
        return
    raise ValueError(f"{file.node} deleted file {file.number} of its log while that was to be read: ask again")


def log_files(paths: Iterable[str]) -> list[LogFile]:
    """All files below these paths that were begun, node by node in the order of the log, and one that was not, where it says
    that files before it are missing. Raises FileNotFoundError for a path that is not there, and ValueError where nothing of
    ours lies, or two nodes have one name."""
    found: dict[str, list[LogFile]] = {}
    for directory in _distinct_directories(paths):
        if directory.name in found:
            raise ValueError(
                f"two nodes are called {directory.name!r}: {directory} is the second; rename its directory"
            )
        found[directory.name] = _files_of(directory)
    return [file for files in found.values() for file in files]


def check_copies(files: Iterable[LogFile]) -> None:
    """What is counted in two copies of one node's data would count twice. Raises ValueError. `files`: those of log_files."""
    nodes: dict[bytes, str] = {}
    for node, own in groupby(files, attrgetter("node")):
        log = _log_id(list(own))
        if log and (other := nodes.setdefault(log, node)) != node:
            raise ValueError(f"{other!r} and {node!r} are copies of one log: name one of them")


def _log_id(files: Sequence[LogFile]) -> bytes:
    """Empty: the newest file that could say it does not."""
    for file in reversed(files):
        with suppress(FileNotFoundError):
            if log_id := log_of(NodeDisk(file.directory), file.name).log_id:
                return log_id
    return b""


def _distinct_directories(paths: Iterable[str]) -> list[Path]:
    """Data directories below these paths. One that is named twice, also by a link, is one node's all the same."""
    found: dict[Path, Path] = {}
    for path in paths:
        for directory in node_directories(Path(path)):
            found.setdefault(directory.resolve(), directory)
    return list(found.values())


def without_bodies(files: Iterable[LogFile]) -> tuple[str, ...]:
    """The nodes whose export was made without the contents of messages."""
    directories = {(file.node, file.directory) for file in files}
    exports = {node: export_of(directory) for node, directory in directories}
    return tuple(sorted(node for node, export in exports.items() if export is not None and export.bodies_withheld))


def snapshot_files(paths: Iterable[str]) -> list[SnapshotFile]:
    """All snapshots below these paths, node by node. Raises as `log_files`."""
    return [found for directory in _distinct_directories(paths) for found in snapshots_of(directory)]


def segment_files(directory: Path, group: int) -> list[LogFile]:
    """What a node has moved out of its log of this group's entries, ascending. A file of the log that was kept belongs to a
    segment: without that nobody would look into it."""
    found: list[LogFile] = []
    for segment in sorted((directory / RAFT_DIRECTORY).glob(f"*{SEGMENT_SUFFIX}")):
        of_group, number = group_file_of(segment.name, SEGMENT_SUFFIX) or (None, 0)
        for path in (segment, segment.with_suffix(KEPT_SUFFIX)) if of_group == group else ():
            with suppress(FileNotFoundError):  # there is none, or a running node has newer ones by now
                name, size = str(path.relative_to(directory)), path.stat().st_size
                found.append(LogFile(directory.name, str(directory), name, number, size, is_last=False))
    return found


def segment_group(file: LogFile) -> int | None:
    """The group whose segment this is; None: it is a file of the log."""
    places = (group_file_of(file.name, suffix) for suffix in (SEGMENT_SUFFIX, KEPT_SUFFIX))
    return next((place[0] for place in places if place is not None), None)


def node_directories(path: Path) -> list[Path]:
    """The data directories that a path names."""
    path = path.resolve(strict=True)
    if has_logs(path):
        return [path]
    below = sorted(one for one in path.iterdir() if one.is_dir() and has_logs(one)) if path.is_dir() else []
    if not below:
        raise ValueError(
            f"{path} has no log: neither it nor a directory in it has {' or '.join(WITH_LOGS)} with files of a node"
        )
    return below


def has_logs(directory: Path) -> bool:
    """Whether it is a data directory."""
    return any(_numbered(directory / name) for name in WITH_LOGS)


def _numbered(directory: Path) -> Sequence[Path]:
    if not directory.is_dir():
        return ()
    return [one for one in directory.iterdir() if number_of(one.name, LOG_SUFFIX) is not None]


def _files_of(directory: Path) -> list[LogFile]:
    """A running node moves files to its archive, and deletes them. Who looks into `log` first misses none that moves. It makes
    each file under the number behind the last one, and a start deletes those that were made and not begun: so where a number
    is left out before one of these, a file was begun that is missing."""
    by_number: dict[int, Path] = {}
    for name in (LOG_DIRECTORY, ARCHIVE_DIRECTORY):
        for path in _numbered(directory / name):
            number = number_of(path.name, LOG_SUFFIX)
            assert number is not None, f"{path} is no file of a log"
            by_number[number] = path
    begun = (number for number, path in sorted(by_number.items(), reverse=True) if _has_begun(path))
    only_empty = min(by_number, default=0)  # one says that the node is here, where all that was copied of it is empty
    last = next(begun, only_empty)
    prepared = min((number for number in by_number if number > last), default=last + 1)
    end = prepared if prepared > last + 1 else last
    found = []
    for number, path in sorted(by_number.items()):
        if number <= end and (place := _where(path)) is not None:
            name, size = str(place.relative_to(directory)), place.stat().st_size
            found.append(LogFile(directory.name, str(directory), name, number, size, number == end, number > last))
    return found


def _where(path: Path) -> Path | None:
    """A file that was in `log` may be in the archive by now. None: it is deleted."""
    moved = path.parents[1] / ARCHIVE_DIRECTORY / path.name
    return next((one for one in (path, moved) if one.exists()), None)


def snapshots_of(directory: Path) -> list[SnapshotFile]:
    found: dict[tuple[int, int], SnapshotFile] = {}
    for below in (ARCHIVE_DIRECTORY, RAFT_DIRECTORY):
        for path in sorted((directory / below).glob(f"*{SNAPSHOT_SUFFIX}")):
            place = group_file_of(path.name, SNAPSHOT_SUFFIX)
            with suppress(FileNotFoundError):  # a running node has newer ones by now
                if place is not None:
                    name, size = str(path.relative_to(directory)), path.stat().st_size
                    found[place] = SnapshotFile(directory.name, str(directory), name, *place, size)
    return list(found.values())


def _has_begun(path: Path) -> bool:
    """Whether anything was written to it: a node makes its next file of zeros before it needs one. Where only its
    begin is zeros something was, and is damaged."""
    place = _where(path)
    if place is None:
        return False
    with place.open("rb") as file:
        return any(not _ZEROS.startswith(piece) for piece in iter(partial(file.read, len(_ZEROS)), b""))


def files_of_tasks(files: Sequence[LogFile], bytes_max: int) -> list[list[LogFile]]:
    """Neighbouring files of one node together, as much as one task is to read."""
    tasks: list[list[LogFile]] = []
    size = 0
    for file in files:
        if not tasks or tasks[-1][-1].node != file.node or size + file.size > bytes_max:
            tasks.append([])
            size = 0
        tasks[-1].append(file)
        size += file.size
    return tasks


def evened(tasks: Sequence[list[LogFile]], cores: int) -> list[list[LogFile]]:
    """The last ones, as many as there are cores, in parts of one file: so no core works on for long when others have ended."""
    whole = max(0, len(tasks) - cores)
    return [*tasks[:whole], *([file] for task in tasks[whole:] for file in task)]
