"""An export of a node's log as a directory, which `leveret-analytics` reads as it reads a data directory.

    archive/ log/ raft/   the files, under the names that they have on the node
    export.json           whose log it is, whether contents of messages are in it, and of each file whether it is complete

A file that comes is written where it belongs, so what was interrupted goes on where it was: how much is there already is
what the file has, and its checksum tells the node whether that is right. A file of `log/` that the node has archived or
deleted meanwhile is moved to `archive/`: what a start of the node would read is what lies in `log/`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

from leveret.ctl.terminal.exits import ConfigError
from leveret.errors import ConnectionLost
from leveret.node_log import LogBegin, LogEnd, LogPart, LogUnread, WantedLogFile
from leveret.records import LogFile, LogListing

MANIFEST = "export.json"
BESIDE = f"{MANIFEST}.tmp"  # until it has its name
FORMAT = 1
INCLUDED, WITHHELD = "included", "withheld"
PIECE_BYTES = 1 << 20
# What a node may have us write: nothing else becomes the name of a file here.
LOG_NAME = re.compile(r"(?:archive|log)/\d{20}\.log")
SNAPSHOT_NAME = re.compile(r"(?:archive|raft)/\d{20}-\d{20}\.snap")
NODE_NAME = re.compile(r"[\w@.:-]+")


@contextmanager
def usable(path: Path) -> Iterator[None]:
    """What the disk does not do is no bug. Raises ConfigError."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{error.filename or path} cannot be used: {error.strerror}") from error


def place_of(directory: Path, node: str) -> Path:
    """Raises ConfigError."""
    if not NODE_NAME.fullmatch(node) or node.strip(".") == "":
        raise ConfigError(f"the node calls itself {node!r}, which is no name for a directory")
    return directory / node


@contextmanager
def held(directory: Path, node: str) -> Iterator[None]:
    """This part of an export, which is made: what another command writes there meanwhile this one would cut off. Raises
    ConfigError."""
    try:
        import fcntl
    except ImportError:  # not a Unix: nothing to hold it by
        yield
        return
    path = place_of(directory, node)
    with usable(path):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        number = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(number)
        raise ConfigError(f"another export to {path} is under way") from error
    try:
        yield
    finally:
        os.close(number)


class ExportDirectory:
    """One node's part of an export: DIRECTORY/NODE. Raises ConfigError where it cannot be written, or is of another log."""

    def __init__(self, directory: Path, listing: LogListing, *, without_bodies: bool) -> None:
        self.path = place_of(directory, listing.node)
        self._gone: dict[str, str] = {}  # file: how much of it; nothing brings it back
        self._left_out: dict[str, str] = {}  # file: why not this time
        self.received_bytes = 0
        self._bodies = WITHHELD if without_bodies else INCLUDED
        self._listing = listing
        self._name = ""  # of the file that comes
        self._file: BinaryIO | None = None
        self._digest = sha256()
        self._digests: dict[str, Any] = {}  # of the files that were asked for, as far as they were there
        with usable(self.path):
            self._files = self._begin()
            self._follow_moves()
        self.save()  # from here on it is an export, whatever interrupts it

    @property
    def unread(self) -> dict[str, str]:
        """Files that are not here as a whole, and why."""
        return self._gone | self._left_out

    @property
    def failed(self) -> dict[str, str]:
        """Files that the node has and could not read, and why: not those of which it may not give the contents."""
        is_withheld = self._bodies == WITHHELD
        return {
            name: why for name, why in self._left_out.items() if not (is_withheld and SNAPSHOT_NAME.fullmatch(name))
        }

    @property
    def totals(self) -> tuple[int, int]:
        """Files and their bytes."""
        return len(self._files), sum(one["bytes"] for one in self._files.values())

    def wanted(self, files: Iterable[LogFile]) -> list[WantedLogFile]:
        """What of these is not complete here."""
        found = []
        for file in files:
            if not (LOG_NAME.fullmatch(file.name) or SNAPSHOT_NAME.fullmatch(file.name)) or self._is_complete(
                file.name
            ):
                continue
            with usable(self.path):
                digest, size = self._there(file.name)
            self._digests[_base(file.name)] = digest
            found.append(WantedLogFile(file.name, size, digest.digest() if size else b""))
        return found

    def take(self, part: LogPart) -> None:
        """What comes next. Raises ConnectionLost where it is not what the node sent."""
        with usable(self.path):
            match part:
                case LogBegin():
                    self._begin_file(part)
                case LogEnd():
                    self._end_file(part)
                case LogUnread():
                    self._give_up(part)
                case _:
                    assert self._file is not None, "bytes of no file"
                    self._file.write(part)
                    self._digest.update(part)
                    self.received_bytes += len(part)

    def close(self) -> None:
        """What is there stays; the next run goes on behind it."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def save(self) -> None:
        """Say in the manifest what there is."""
        said = {
            "format": FORMAT,
            "node": self._listing.node,
            "log_id": self._listing.log_id,
            "bodies": self._bodies,
            "gaps": [[gap.first, gap.last] for gap in self._listing.gaps],
            "gone": self._gone,
            "left_out": self._left_out,
            "files": self._files,
        }
        beside = self.path / BESIDE
        with usable(beside):
            with beside.open("w") as file:
                json.dump(said, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self.path / MANIFEST)

    # what is there

    def _begin(self) -> dict[str, dict[str, Any]]:
        """What the manifest says of files; none if there is none."""
        manifest = self.path / MANIFEST
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not manifest.exists():
            if any(one.name != BESIDE for one in self.path.iterdir()):
                raise ConfigError(f"{self.path} has files and is no export: give another directory")
            return {}
        try:
            return self._known(json.loads(manifest.read_text()))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(f"{manifest} is no manifest of an export: give another directory") from error

    def _known(self, said: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """The files of the manifest that are here."""
        if said.get("format") != FORMAT:
            raise ConfigError(f"{self.path} is an export of format {said.get('format')}: give another directory")
        if said["log_id"] != self._listing.log_id:
            raise ConfigError(f"{self.path} is of a node of the same name with another log: give another directory")
        if said["bodies"] != self._bodies:
            raise ConfigError(
                f"in {self.path} contents of messages are {said['bodies']}: "
                f"{'leave out' if said['bodies'] == INCLUDED else 'give'} --no-bodies, or give another directory"
            )
        self._gone = dict(said["gone"])
        files: dict[str, dict[str, Any]] = said["files"]
        return {name: one for name, one in files.items() if (self.path / name).is_file()}

    def _follow_moves(self) -> None:
        """Files of `log/` that the node does not have there any more."""
        there = {file.name for file in self._listing.files}
        for name in [name for name in self._files if name.startswith("log/") and name not in there]:
            archived = f"archive/{_base(name)}"
            self._move(name, archived)
            if self._files[archived]["open"] and archived not in there:
                self._gone[archived] = "deleted by the node before the rest of it came"
        for path in (self.path / "log").glob("*.log"):  # that came in part, and are in no manifest
            if f"log/{path.name}" not in there:
                self._move(f"log/{path.name}", f"archive/{path.name}")

    def _move(self, name: str, to: str) -> None:
        target = self.path / to
        target.parent.mkdir(mode=0o700, exist_ok=True)
        (self.path / name).replace(target)
        if name in self._files:
            self._files[to] = self._files.pop(name)

    def _is_complete(self, name: str) -> bool:
        known = self._files.get(name)
        return known is not None and not known["open"] and (self.path / name).stat().st_size == known["bytes"]

    def _there(self, name: str) -> tuple[Any, int]:
        """Of what is there of a file: its checksum, and how much it is."""
        digest, size = sha256(), 0
        with suppress(FileNotFoundError), (self.path / name).open("rb") as file:
            while piece := file.read(PIECE_BYTES):
                digest.update(piece)
                size += len(piece)
        return digest, size

    # a file that comes

    def _begin_file(self, begin: LogBegin) -> None:
        self.close()
        if not (LOG_NAME.fullmatch(begin.name) or SNAPSHOT_NAME.fullmatch(begin.name)):
            raise ConfigError(f"the node sends a file {begin.name!r}, which has no place in an export")
        path = self.path / begin.name
        path.parent.mkdir(mode=0o700, exist_ok=True)
        for other in ("log", "raft"):  # it was archived since it was asked for
            before = self.path / other / path.name
            if before != path and before.exists():
                self._move(f"{other}/{path.name}", begin.name)
        self._name = begin.name
        known = self._digests.get(path.name)
        self._digest = known.copy() if begin.offset and known is not None else sha256()
        path.touch(mode=0o600)
        self._file = path.open("r+b")
        self._file.truncate(begin.offset)
        self._file.seek(begin.offset)

    def _end_file(self, end: LogEnd) -> None:
        assert self._file is not None, "the end of no file"
        self._file.flush()
        os.fsync(self._file.fileno())
        size = self._file.tell()
        if (size, self._digest.digest()) != (end.size, end.sha256):
            self._file.truncate(0)
            self.close()
            raise ConnectionLost(f"{self._name} came damaged: its checksum is not that of the node")
        self.close()
        self._files[self._name] = {"bytes": size, "sha256": end.sha256.hex(), "open": end.open}
        self._gone.pop(self._name, None)
        if LOG_NAME.fullmatch(self._name):  # large; of snapshots there may be thousands, and they come at once
            self.save()

    def _give_up(self, unread: LogUnread) -> None:
        """What came of a file is not kept: it would look like one with a damaged end."""
        self.close()
        if unread.gone:
            self._gone[unread.name] = "deleted by the node before it came"
        else:
            self._left_out[unread.name] = unread.reason
        for name in (unread.name, f"archive/{_base(unread.name)}"):
            if name not in self._files and LOG_NAME.fullmatch(name):
                (self.path / name).unlink(missing_ok=True)


def _base(name: str) -> str:
    return name.rpartition("/")[2]
