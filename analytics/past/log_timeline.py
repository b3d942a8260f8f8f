"""The files of all nodes' logs before and after a moment, and which queues they tell of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby, islice
from typing import NamedTuple

from analytics.coverage import MissingFiles, iso_time, missing_between
from analytics.file_window import FileWindow
from analytics.inputs import LogFile
from analytics.past.file_contents import DatedFile, FileContents, contents_of, dated, read_contents
from analytics.past.open_end import open_since
from analytics.queue_events import QueueName
from analytics.workers import Workers


class NodeFiles(NamedTuple):
    """Of one node, in the order of its log."""

    early: list[DatedFile]  # up to the last that begins before the moment
    late: list[DatedFile]


class LogTimeline:
    """See the module. Files are read for their queues once they are asked for, and only those that no summary tells of."""

    def __init__(self, workers: Workers, files: Sequence[LogFile], moment: int, *, tail: bool) -> None:
        """`moment`: µs."""
        self._workers = workers
        self._tail = tail
        self._moment = moment
        found = [dated(file) for file in files]
        self._nodes = [divided(list(those), moment) for _, those in groupby(found, lambda one: one.file.node)]
        self._contents: dict[LogFile, FileContents] = {}

    def names(self) -> dict[int, QueueName]:
        """Of all queues that tell something before the moment, and of those that summaries name later."""
        early = [one for node in self._nodes for one in node.early]
        summed = [one for node in self._nodes for one in node.late if one.summary is not None]
        contents = self._look([*early, *summed, *self._first_late()])
        names = names_of(contents)
        known = names.keys() | {number for one in contents for number in one.others}
        self._read_again([one.file for one in contents if not one.queues.keys() <= known])
        return names_of(self._contents.values())

    def _first_late(self) -> Iterator[DatedFile]:
        """Before the moment a node may have written nothing that is still there."""
        return (node.late[0] for node in self._nodes if node.late)

    def _read_again(self, files: list[LogFile]) -> None:
        """Old builds do not name a queue in each file, and a summary has not all that a file says of names."""
        for one in self._workers.each(partial(read_contents, tail=self._tail), files):
            self._contents[one.file] = one

    def _look(self, files: Iterable[DatedFile]) -> list[FileContents]:
        wanted = list(files)
        unknown = [one for one in wanted if one.file not in self._contents]
        for found in self._workers.each(partial(contents_of, tail=self._tail), unknown):
            self._contents[found.file] = found
        return [self._contents[one.file] for one in wanted]

    def telling_of(self, queue: int, later: int, *, maybe: bool = False) -> list[FileContents]:
        """Files that tell of it: all before the moment, and of each node so many that begin later. `maybe`: also those of
        which bytes are damaged that may have told of it."""
        return [
            one
            for node in self._nodes
            for one in (
                *self._those_of(node.early, queue, maybe=maybe),
                *islice(self._those_of(node.late, queue, maybe=False), later),
            )
        ]

    def _those_of(self, files: Iterable[DatedFile], queue: int, *, maybe: bool) -> Iterator[FileContents]:
        return (
            one for file in files for one in self._look([file]) if queue in one.queues or (maybe and _is_damaged(one))
        )

    def last_begun(self, node: str) -> int:
        """The number of the newest of its files that begins before the moment, whatever that tells of; 0: there is none."""
        return max(
            (one.file.number for those in self._nodes for one in those.early if one.file.node == node), default=0
        )

    def missing(self, node: str, since: int) -> tuple[MissingFiles, ...]:
        """Files of its log that may tell of before the moment and are not there, behind this one."""
        own = self._of(node)
        numbers = [one.file.number for one in (*own.early, *own.late[:1])]
        return missing_between((node, number) for number in numbers if number >= since)

    def damaged(self, node: str, since: int) -> str | None:
        """A file of its log that may tell of before the moment, behind this one, and cannot be read as a whole: it may tell of
        any queue, whatever is left of it."""
        early = [one.file for one in self._of(node).early]
        return _damaged(self._contents[file] for file in early if file.number > since and file in self._contents)

    def cut_short(self, queue: int) -> str | None:
        """Why the end of what nodes' logs have of it before the moment may be missing: each file behind the last that tells of
        it may have told of it. A log that does not end in order is no matter where that of another node does."""
        lasts = {one.file.node: one.file.number for one in self.telling_of(queue, 0)}
        lost = (self.lost_behind(node, last) for node, last in lasts.items())
        ends = [self.open_end(node) for node in lasts]
        return next(filter(None, lost), None) or (ends[0] if ends and all(ends) else None)

    def open_end(self, node: str) -> str | None:
        """Why its log may have said more of before the moment than what is known to be durable."""
        own = self._of(node)
        last = own.early[-1].file if own.early and not own.late else None
        since = None if last is None or self._tail or not last.is_last else open_since(last)
        if since is None or since >= self._moment:
            return None
        begin = f"behind {iso_time(since)}" if since else "at its end"
        return f"the log of {node} does not end in order: not all that it has {begin} is known to be durable (--tail)"

    def _of(self, node: str) -> NodeFiles:
        return next(those for those in self._nodes for one in (*those.early, *those.late) if one.file.node == node)

    def lost_behind(self, node: str, since: int) -> str | None:
        """Why not all that a node's log had behind this file and before the moment is known."""
        missing = next((one.sentence() for one in self.missing(node, since)), None)
        return missing or self.damaged(node, since)

    def lost_within(self, node: str, first: int, last: int, read: Iterable[FileWindow]) -> str | None:
        """Which of these files of its log is missing or damaged. `read`: what else was seen of files."""
        own = self._of(node)
        numbers = [one.file.number for one in (*own.early, *own.late) if first <= one.file.number <= last]
        missing = missing_between((node, number) for number in numbers)
        if missing:
            return missing[0].sentence()
        seen = (*self._contents.values(), *read)
        return _damaged(one for one in seen if one.file.node == node and one.file.number in numbers)

    def late_begins(self) -> list[str]:
        """Nodes of whose logs nothing of before the moment is there, though there was something."""
        return [node.late[0].file.node for node in self._nodes if not node.early and node.late[0].file.number > 1]


def _damaged(looked: Iterable[FileWindow]) -> str | None:
    """Which is the first of these that is, in a sentence."""
    hurt = (one.file for one in looked if _is_damaged(one))
    return next((f"file {file.number} of the log of {file.node} is damaged" for file in hurt), None)


def _is_damaged(one: FileWindow) -> bool:
    return any(not lost.torn for lost in one.damage)


def names_of(contents: Iterable[FileContents]) -> dict[int, QueueName]:
    return {number: name for one in contents for number, name in one.names.items()}


def divided(files: list[DatedFile], moment: int) -> NodeFiles:
    """Clocks may be set back: a file behind one that begins later may begin earlier."""
    early = [at for at, one in enumerate(files) if one.begin is None or one.begin < moment]
    end = max(early, default=-1) + 1
    return NodeFiles(files[:end], files[end:])
