"""The driver of the archive: takes files in, writes their summaries, and deletes the oldest. All but `wrote` blocks.

    keep           a released file of the log gets its name in the archive, durably, before the log's name goes: whatever a
                   crash leaves, the file has a name, or two; the next start finishes what was begun (storage/wal/replay.py)
    wrote          what a file of the log holds is counted as it is written, by the loop (file_tallies.py)
    keep_snapshot  a snapshot that was replaced, one of each group and hour. Its name becomes durable with the next file's
    tidy           beside the loop, now and then: summaries, then the limits
    give_room      the oldest go until there is room: by whoever finds the disk full, in whatever thread

What is there is what the directory lists, so all of these may run at the same time: a file that another one has deleted
meanwhile is gone, as was wanted. An archive that cannot be kept ends nothing: without a name there the file is deleted. Whether
the disk has failed is found out by the log's own calls.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from storage import names, snapshot_file
from storage.archive.archive_window import HOUR_MS, ArchivedFile, ArchiveLimits, oldest_first, to_delete
from storage.archive.file_tallies import FileTallies
from storage.archive.summary import Summary, summarise
from storage.disk import Buffer, Disk, File
from storage.errors import Corrupt, DiskFailed, DiskFull, NoDescriptors
from storage.names import ARCHIVE_DIRECTORY, LOG_SUFFIX, SNAPSHOT_SUFFIX, SUMMARY_SUFFIX

KEPT_SUFFIXES = (LOG_SUFFIX, SNAPSHOT_SUFFIX)

logger = logging.getLogger("leveret")


@dataclass(frozen=True, slots=True)
class ArchiveFigures:
    """As of the last look."""

    size: int = 0
    files: int = 0
    oldest_s: float = 0.0  # how long ago is the last that the oldest file tells of


class Archive:
    """See the module."""

    def __init__(self, disk: Disk, limits: ArchiveLimits, wall_ms: Callable[[], int]) -> None:
        self.limits = limits
        self.figures = ArchiveFigures()
        self._disk = disk
        self._wall_ms = wall_ms
        self._tallies = FileTallies()
        self._known: dict[str, ArchivedFile] = {}  # `tidy` alone uses it: what it has read of summaries and sizes
        self._order: tuple[str, ...] = ()  # of those that `tidy` left, the oldest first
        self._snapshot_at: dict[int, int] = {}  # group: when one of its snapshots was kept last

    def wrote(self, number: int, start: int, end: int, buffers: Sequence[Buffer]) -> None:
        """These whole records are durable there in a file of the log."""
        self._tallies.wrote(number, start, end, buffers)

    def keep(self, number: int) -> None:
        """A file of the log, which is deleted there next. Raises NoDescriptors: try again."""
        name = names.log_file(number)
        try:
            self._disk.make_dir(ARCHIVE_DIRECTORY)
            self._give_second_name(name)
            self._disk.sync_dir(ARCHIVE_DIRECTORY)
        except FileNotFoundError:
            pass  # an attempt before this one was cut off behind it
        except (DiskFull, DiskFailed) as error:  # such as that the archive is on another file system
            logger.warning("%s is not archived: %s", name, error)

    def _give_second_name(self, name: str) -> None:
        with suppress(FileExistsError):
            if not self._disk.link(name, names.archived(name)):
                self._disk.rename(name, names.archived(name))

    def keep_snapshot(self, group: int, name: str) -> None:
        """A snapshot of this group, which is deleted next. Raises StorageError, FileNotFoundError."""
        now_ms = self._wall_ms()
        if 0 <= now_ms - self._snapshot_at.get(group, -HOUR_MS) < HOUR_MS:
            return
        self._disk.make_dir(ARCHIVE_DIRECTORY)
        self._give_second_name(name)
        self._snapshot_at[group] = now_ms

    def give_room(self, wanted_bytes: int = 0) -> bool:
        """Delete the oldest until so much is free, and what the limits ask for, but one at least. Returns whether any was
        deleted. Raises DiskFailed."""
        wanted_bytes = max(wanted_bytes, self.limits.free_min_bytes)
        gave = False
        for name in self._listed_oldest_first():
            if gave and self._disk.free_bytes() >= wanted_bytes:
                break
            self._delete(name)
            with suppress(NoDescriptors):
                self._disk.sync_dir(ARCHIVE_DIRECTORY)  # room is free once the deletion is durable
            gave = True
        return gave

    def _listed_oldest_first(self) -> list[str]:
        present = set(self._kept_names())
        known = [name for name in self._order if name in present]
        return known + sorted(present.difference(known))

    def _kept_names(self) -> Iterator[str]:
        return (name for name in self._disk.list(ARCHIVE_DIRECTORY) if name.endswith(KEPT_SUFFIXES))

    def tidy(self) -> None:
        """Raises StorageError."""
        listed = self._disk.list(ARCHIVE_DIRECTORY)
        self._known = {name: known for name, known in self._known.items() if name in listed}
        for name in listed:
            if name.endswith(KEPT_SUFFIXES) and name not in self._known:
                with suppress(FileNotFoundError):  # it had to give way meanwhile
                    self._known[name] = self._look_at(name)
        files = oldest_first(self._known.values())
        gone = to_delete(files, self.limits, self._wall_ms(), self._disk.free_bytes())
        for file in gone:
            self._delete(file.name)
            del self._known[file.name]
        self._delete_lone_summaries(listed)
        if gone:
            self._disk.sync_dir(ARCHIVE_DIRECTORY)
        self._say(files[len(gone) :])

    def _say(self, files: list[ArchivedFile]) -> None:
        self._order = tuple(file.name for file in files)
        oldest_ms = self._wall_ms() - files[0].time_ms if files else 0
        self.figures = ArchiveFigures(sum(file.size for file in files), len(files), max(0, oldest_ms) / 1000)

    def _look_at(self, name: str) -> ArchivedFile:
        """Its summary, which is written if there is none. Raises FileNotFoundError."""
        path = names.archived(name)
        file = self._disk.open(path)
        try:
            summary = self._stored_summary(name)
            if summary is None:
                summary = self._summary_of(name, file)
                if summary.whole and summary.end < file.size():  # zeros, allocated ahead
                    file.truncate(summary.end)
                    file.sync()
                with suppress(DiskFull):
                    snapshot_file.save(self._disk, names.archived_summary(name), [summary.encode()])
            return ArchivedFile(summary.last_us // 1000 or self._wall_ms(), name, file.size())
        finally:
            file.close()

    def _stored_summary(self, name: str) -> Summary | None:
        beside = names.archived_summary(name)
        try:
            return Summary.decode(beside, snapshot_file.load(self._disk, beside))
        except (FileNotFoundError, Corrupt):
            return None

    def _summary_of(self, name: str, file: File) -> Summary:
        if not name.endswith(LOG_SUFFIX):
            return self._snapshot_summary(file.size())
        number = names.number_of(name, LOG_SUFFIX)
        counted = None if number is None else self._tallies.take(number, file.size())
        return counted or summarise(file)

    def _snapshot_summary(self, size: int) -> Summary:
        now_us = self._wall_ms() * 1000
        return Summary(True, now_us, now_us, size, 0)

    def _delete(self, name: str) -> None:
        for path in (names.archived_summary(name), names.archived(name)):
            with suppress(FileNotFoundError):
                self._disk.delete(path)

    def _delete_lone_summaries(self, listed: list[str]) -> None:
        """Of files that were deleted when a crash came, or by another thread; and what a crash left of one being written."""
        whose = {names.archived_summary(name) for name in self._known}
        for name in listed:
            path = names.archived(name)
            is_summary = name.endswith(SUMMARY_SUFFIX) and path not in whose
            if is_summary or name.endswith(SUMMARY_SUFFIX + names.TEMPORARY_SUFFIX):
                with suppress(FileNotFoundError):
                    self._disk.delete(path)
