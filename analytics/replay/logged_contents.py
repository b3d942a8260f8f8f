"""Where the contents of runs lie in the files of a log, and each message of a run."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from analytics.file_window import reader_of
from analytics.inputs import LogFile
from analytics.queue_events import packed_groups
from analytics.replay.chosen_runs import ChosenRun
from native.columns import Table, numbers
from native.content import singles, skip
from native.log_columns import publishes
from native.log_tables import PUBLISHES
from replicated.local_members import QUEUE_GROUPS
from storage.errors import StorageError
from storage.names import archived
from storage.os_disk import OsDisk

_AT = {one.name: place for place, one in enumerate(PUBLISHES)}
_WANTED = ("queue", "pos", "off", "content_at", "stored_bytes")


class StoredContent(NamedTuple):
    """A run's content."""

    file: LogFile
    offset: int
    size: int


def locate(
    files: Sequence[LogFile], queue: int, runs: Collection[tuple[int, int]]
) -> dict[tuple[int, int], StoredContent]:
    """By place. What a later leader has written to the same place lies further on in the log, and is what counts."""
    found: dict[tuple[int, int], StoredContent] = {}
    groups = packed_groups([queue] if queue >= QUEUE_GROUPS else ())
    for file in files:
        with suppress(FileNotFoundError):  # its node has deleted it meanwhile
            reader, _ = reader_of(file, tail=False)
            for piece in reader.pieces():
                made = publishes(piece.buffer, piece.base, piece.records, groups)
                for number, pos, off, offset, size in zip(*_columns(made), strict=True):
                    if number == queue and (pos, off) in runs:
                        found[pos, off] = StoredContent(file, offset, size)
    return found


def _columns(made: Table) -> list[memoryview[int]]:
    return [numbers(PUBLISHES[_AT[name]], made[1][_AT[name]]) for name in _WANTED]


class ContentReader:
    """Reads one file at a time."""

    def __init__(self) -> None:
        self._at: tuple[int, int] | None = (
            None  # the run whose content is held, for its parts come one behind the other
        )
        self._content = b""

    def messages(self, run: ChosenRun, stored: StoredContent | None) -> Iterator[bytes]:
        """Each of a run as a content of its own; none where the file is gone, or has no such content any more."""
        content = self._whole(run, stored)
        if content:
            start = skip(content, 0, run.first)
            yield from singles(content, start, run.messages)

    def _whole(self, run: ChosenRun, stored: StoredContent | None) -> bytes:
        if stored is None:
            return b""
        if self._at != run.run:
            self._at, self._content = run.run, _read(stored)
        return self._content


def _read(stored: StoredContent) -> bytes:
    """A node archives files while they are read here. Empty: it has deleted this one."""
    disk = OsDisk(stored.file.directory, read_only=True)
    for name in (stored.file.name, archived(stored.file.name)):
        with suppress(FileNotFoundError, StorageError):
            file = disk.open(name)
            try:
                found = bytes(file.read_at(stored.offset, stored.size))
            finally:
                file.close()
            return found if len(found) == stored.size else b""
    return b""
