"""How far a reader of logs that are being written has come: a position in each node's log, and what to read next.

    position     (log id, file, byte): all records before it were read. (N + 1, 0) is the end of file N, whatever its size
    log end      up to where a node's log is known to be durable: nothing before it changes any more, so what lies between two
                 positions is the same whenever, and however often, it is read
    range        a part of one file between two positions

Positions are plain values that outlive the process (a checkpoint of Spark has them as JSON). What a node has deleted before it
was read is a range that is `lost`: it is told, never passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from analytics.coverage import DELETED
from analytics.inputs import LogFile
from native.log_columns import FilePlace
from storage.disk import File
from storage.history.column_reader import ColumnReader, last_mark, log_of
from storage.os_disk import OsDisk
from storage.record import CLEAN_END

FORMAT_VERSION = 1


class NodePosition(NamedTuple):
    """See the module."""

    log: str  # hex; a data directory that begins anew has another one
    file: int
    base: int


Positions = Mapping[str, NodePosition]  # by node


class LogRange(NamedTuple):
    """What is to be read of one file, or what is lost."""

    node: str
    directory: str
    log: str  # hex
    number: int
    start: int
    end: int | None  # None: all that the file has
    lost: str | None = None  # why there is nothing to read


class NodeLog(NamedTuple):
    """One node's log as it is now."""

    node: str
    directory: str
    files: Sequence[LogFile]  # ascending
    end: NodePosition

    def bytes_of(self, number: int, start: int) -> int:
        """How much there is to read of a file from `start` on."""
        stop = self.end.base if number == self.end.file else sum(one.size for one in self.files if one.number == number)
        return max(0, stop - start)

    def up_to(self, end: NodePosition) -> NodeLog:
        """As it was when it ended there; as it is, where it is another log by now."""
        return self._replace(end=end) if end.log == self.end.log else self


def as_offset(positions: Positions) -> dict[str, Any]:
    """As a checkpoint has them."""
    return {"version": FORMAT_VERSION, "nodes": {node: at._asdict() for node, at in sorted(positions.items())}}


def positions_of(offset: Mapping[str, Any]) -> dict[str, NodePosition]:
    """Raises ValueError for one of another version."""
    if offset.get("version") != FORMAT_VERSION:
        raise ValueError(
            f"the checkpoint has offsets of version {offset.get('version')}, and {FORMAT_VERSION} is known"
        )
    return {node: NodePosition(**at) for node, at in offset["nodes"].items()}


class LogEnds:
    """Where logs end, asked again and again: of a file that grows, only what came since is read."""

    def __init__(self) -> None:
        self._tails: dict[str, _DurableTail] = {}  # by node

    def look(self, files: Sequence[LogFile]) -> list[NodeLog]:
        """Of each node that has begun a log. `files`: those of log_files."""
        found = []
        for node, some in groupby(files, attrgetter("node")):
            of_node = list(some)
            last = of_node[-1]
            if last.is_last:
                tail = self._tails.setdefault(node, _DurableTail())
                end = _end_before_gap(of_node) if last.is_behind_gap else tail.look(last)
                found += [NodeLog(node, last.directory, of_node, end)] if end.log else []
        return found


def _end_before_gap(files: Sequence[LogFile]) -> NodePosition:
    """So that all before is read, and what is missing is lost."""
    logs = (log_of(OsDisk(one.directory, read_only=True), one.name).log_id.hex() for one in reversed(files[:-1]))
    return NodePosition(next(filter(None, logs), ""), files[-1].number, 0)


class _DurableTail:
    """The file that a node writes to."""

    def __init__(self) -> None:
        self._at = NodePosition("", 0, 0)
        self._place: FilePlace | None = None

    def look(self, file: LogFile) -> NodePosition:
        with suppress(FileNotFoundError):  # it is full, and being moved: the next look has the one behind it
            self._look(file)
        return self._at

    def _look(self, file: LogFile) -> None:
        disk = OsDisk(file.directory, read_only=True)
        log = log_of(disk, file.name).log_id.hex()
        if self._place is None or (self._at.log, self._at.file) != (log, file.number):
            self._at, self._place = NodePosition(log, file.number, 0), None
        reader = _GrowingFile(disk, file.name, self._place)
        for piece in reader.pieces():
            mark = last_mark(piece)
            if mark is not None and mark.durable_file == file.number:
                self._at = self._at._replace(base=max(self._at.base, mark.durable_offset))
        self._place = reader.place


class _GrowingFile(ColumnReader):
    """Zeros are where the node goes on writing: nothing behind them is looked for, each time again."""

    def _pass_over(self, file: File, size: int, reason: int) -> bool:
        return reason != CLEAN_END and super()._pass_over(file, size, reason)


def ends_of(logs: Sequence[NodeLog]) -> dict[str, NodePosition]:
    return {log.node: log.end for log in logs}


def admitted(
    start: Positions, logs: Sequence[NodeLog], *, files_max: int | None = None, bytes_max: int | None = None
) -> dict[str, NodePosition]:
    """How far the next step goes from `start`: file by file, of each node in its turn, until the limit is reached. One file is
    always taken, for a limit below the size of a file would stop the reader for ever."""
    reached = dict(start)
    files = size = 0
    steps = {log.node: _steps(start.get(log.node), log) for log in logs}
    while steps:
        for node in list(steps):
            step = next(steps[node], None)
            if step is None:
                del steps[node]
                continue
            files, size = files + 1, size + step.size
            is_over = (files_max is not None and files > files_max) or (bytes_max is not None and size > bytes_max)
            if is_over and files > 1:
                return reached
            reached[node] = step.to
    return reached


class _Step(NamedTuple):
    to: NodePosition
    size: int


def _steps(start: NodePosition | None, log: NodeLog) -> Iterator[_Step]:
    """From a position to the end of the log, a file at a time."""
    end = log.end
    at = start if start is not None and start.log == end.log else NodePosition(end.log, log.files[0].number, 0)
    if start is None or start.log == end.log:
        numbers = [file.number for file in log.files if at.file <= file.number < end.file]
    else:  # what is left of the log of before is lost, and said so by the first range
        numbers = [file.number for file in log.files if file.number < end.file]
    for number in numbers:
        yield _Step(NodePosition(end.log, number + 1, 0), log.bytes_of(number, at.base if number == at.file else 0))
    base = at.base if at.file == end.file else 0
    is_lost = (numbers[-1] + 1 if numbers else at.file) < end.file  # what was just before
    if at.file <= end.file and (base < end.base or is_lost):
        yield _Step(end, end.base - base)


def ranges(start: Positions, end: Positions, logs: Sequence[NodeLog]) -> list[LogRange]:
    """What lies between two positions, node by node in the order of the log."""
    by_node = {log.node: log for log in logs}
    found: list[LogRange] = []
    for node, to in end.items():
        log, at = by_node.get(node), start.get(node)
        if at == to:
            continue
        if log is None or log.end.log != to.log:
            found.append(lost(node, to.file, "the log of this node is not there any more"))
            continue
        if at is not None and at.log != to.log:
            found.append(lost(node, at.file, "the node has begun another log, and what this one had beyond is gone"))
            at = None
        found += _of_node(at, to, log)
    return found


def _of_node(at: NodePosition | None, to: NodePosition, log: NodeLog) -> Iterator[LogRange]:
    there = {file.number for file in log.files}
    first = at if at is not None else NodePosition(to.log, min(there), 0)
    for number in range(first.file, to.file + 1):
        start, stop = first.base if number == first.file else 0, to.base if number == to.file else None
        if start == stop:
            continue
        if number in there:
            yield LogRange(log.node, log.directory, to.log, number, start, stop)
        else:
            yield lost(log.node, number, DELETED)


def lost(node: str, number: int, why: str) -> LogRange:
    return LogRange(node, "", "", number, 0, 0, why)
