"""What has been converted, and how a step takes effect as a whole or not at all.

`_steps.jsonl` has a line for each step: the files that it read and up to where, and what it moves to which place. A step
makes its files in a directory with its number, `_step-3`, has them fsynced, and writes its line, which is also fsynced: from
then on it has happened. Then it moves them. Whoever opens the directory moves what a crash has left there, or takes it away if
no line speaks of it.

Tasks of a step run on workers that may be lost, or seem to be: then another one does the task again, and both may be writing.
So each attempt writes to a directory of its own within the step's, and the line names what those have made whose result has
come.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple
from uuid import uuid4

from analytics.coverage import DamagedBytes, MissingFiles, missing_between
from analytics.inputs import has_logs

STEPS = "_steps.jsonl"
TABLES = ("raw", "lives", "events")  # directories that only steps make
MAKING = "_step-"


class ConvertedFile(NamedTuple):
    """How much of one file of a node's log has been read. The rest is read from there on."""

    node: str
    log_id: str  # hex; a data directory that begins anew has another one
    file: int
    base: int  # behind the last record
    commit: int
    time: int
    is_whole: bool  # nothing more will come
    others: list[int]  # groups that are no quorum queues, as this file has said
    streams: Sequence[
        int
    ] = ()  # those among them that are streams; lines from before there were rows of these have none


class ConversionStep(NamedTuple):
    """One line."""

    files: list[ConvertedFile]
    snapshots: list[tuple[str, int, int]]  # node, group and number of those that were read
    moves: list[tuple[str, str]]  # what lies in the directory of the step, and the place that it takes
    rows: dict[str, int]  # that it wrote, by table
    batch: int | None = None  # of the stream of Spark that it is a batch of


REST_DELETED = "the node deleted the rest of this file before it was converted"


def rests_missing_in(converted: Iterable[ConvertedFile]) -> list[DamagedBytes]:
    """Of files that were read while they were written, and not again when they were whole, though others behind them were."""
    files = list(converted)
    lasts: dict[tuple[str, str], int] = {}
    for one in files:
        lasts[one.node, one.log_id] = max(one.file, lasts.get((one.node, one.log_id), 0))
    return [
        DamagedBytes(one.node, one.file, one.base, 0, False, REST_DELETED)
        for one in files
        if not one.is_whole and one.file < lasts[one.node, one.log_id]
    ]


def missing_in(converted: Iterable[ConvertedFile]) -> tuple[MissingFiles, ...]:
    """Files that were gone before they were converted. A node that began anew has another log, with numbers of its own."""
    logs: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for one in converted:
        logs.setdefault((one.node, one.log_id), []).append((one.node, one.file))
    return tuple(gap for log in sorted(logs) for gap in missing_between(logs[log]))


def begin_attempt(making: str) -> Path:
    """A directory that no other attempt at the same task writes to."""
    directory = Path(making, uuid4().hex)
    directory.mkdir()
    return directory


def place_of(made: str) -> str:
    """Where something goes that an attempt has made, below the directory of the step."""
    return made.partition("/")[2]


class ConversionLog:
    """Of one directory, which is made. Held by one process at a time. Raises ValueError."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        if has_logs(directory):
            raise ValueError(f"{directory} is a node's data directory: give another one")
        directory.mkdir(parents=True, exist_ok=True)
        self._lines = (directory / STEPS).open("a+b")
        try:
            fcntl.flock(self._lines, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._lines.close()
            raise ValueError(f"another process is converting to {directory}") from error
        self.steps = self._load()
        if self.steps:
            self._move(self.steps[-1])
        elif any((directory / table).exists() for table in TABLES):
            self._lines.close()
            raise ValueError(
                f"{directory} has tables and no {STEPS}, which says what they are of: give another directory"
            )
        self._clear()

    def __enter__(self) -> ConversionLog:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._lines.close()

    def converted(self) -> dict[tuple[str, str, int], ConvertedFile]:
        """By node, log and number, up to where files have been read."""
        return {(one.node, one.log_id, one.file): one for step in self.steps for one in step.files}

    def snapshots(self) -> set[tuple[str, int, int]]:
        return {(node, group, number) for step in self.steps for node, group, number in step.snapshots}

    def last_batch(self) -> int:
        """Of a stream that is followed to this directory; -1: none was taken."""
        return max((step.batch for step in self.steps if step.batch is not None), default=-1)

    def begin(self) -> Path:
        """An empty directory for what the next step makes."""
        self._clear()
        making = self._making(len(self.steps) + 1)
        making.mkdir(exist_ok=True)
        return making

    def commit(self, step: ConversionStep) -> None:
        _fsync_all(self._making(len(self.steps) + 1))
        line = {**step._asdict(), "files": [one._asdict() for one in step.files]}
        self._lines.write(json.dumps(line).encode() + b"\n")
        self._lines.flush()
        os.fsync(self._lines.fileno())
        _fsync(self.directory)
        self.steps.append(step)
        self._move(step)
        self._clear()

    def _making(self, number: int) -> Path:
        return self.directory / f"{MAKING}{number}"

    def _clear(self) -> None:
        """What a lost worker is still writing to goes the next time."""
        for one in self.directory.glob(f"{MAKING}*"):
            shutil.rmtree(one, ignore_errors=True)

    def _load(self) -> list[ConversionStep]:
        self._lines.seek(0)
        raw = self._lines.read()
        whole = raw.rfind(b"\n") + 1
        self._lines.truncate(whole)  # a line that a crash has cut off has not happened
        return [self._step(number, line) for number, line in enumerate(raw[:whole].splitlines(), 1)]

    def _step(self, number: int, line: bytes) -> ConversionStep:
        try:
            step = ConversionStep(**json.loads(line))
            return step._replace(
                files=[ConvertedFile(**one) for one in step.files],  # type: ignore[arg-type]  # as JSON has it
                snapshots=[(node, group, number) for node, group, number in step.snapshots],
            )
        except (TypeError, ValueError) as error:
            raise ValueError(f"line {number} of {self.directory / STEPS} is none of ours: {error}") from error

    def _move(self, step: ConversionStep) -> None:
        """The last step's files. What has been moved already is no longer where it was made."""
        making = self._making(len(self.steps))
        for made, place in step.moves:
            source, target = making / made, self.directory / place
            if not source.exists():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            if target.is_dir():
                shutil.rmtree(target)
            source.replace(target)
            _fsync(target.parent)


def _fsync_all(directory: Path) -> None:
    for path in _all_below(directory):
        _fsync(path)


def _all_below(directory: Path) -> Iterable[Path]:
    return [directory, *directory.rglob("*")]


def _fsync(path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
