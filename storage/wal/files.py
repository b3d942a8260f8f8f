"""The log's files: written and fsynced, made before they are needed, deleted or archived when they were released. All of this
blocks.

    file     being made     `_new_file`: slice by slice, ahead of its use, or at once by the commit that needs it
             ready          up to `ready`: the file and its name are durable, a commit may be written to it
             released       `_undeleted`: the facts are to say that it does not count any more, then it is deleted; where
                          there is an archive, it has its name there before

`wal/writer.py` says which thread calls what. After an error that is not a shortage (`Exhausted`) the log is `broken`: nothing
is written, made or deleted any more, as what the disk holds is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from storage.disk import Buffer, Disk, File
from storage.errors import DiskFailed, DiskFull, Exhausted, NoDescriptors, StorageError
from storage.names import LOG_DIRECTORY, log_file
from storage.wal.facts import LogFacts
from storage.wal.log_core import Commit
from storage.wal.new_file import NewLogFile


class LogKeeper(Protocol):
    """Who keeps released files for readers: storage/archive/archive.py."""

    def wrote(self, number: int, start: int, end: int, buffers: Sequence[Buffer]) -> None:
        """These whole records are durable there in this file."""

    def keep(self, number: int) -> None:
        """This file is deleted next. Raises NoDescriptors and DiskFailed."""


class WalFiles:
    """See the module."""

    def __init__(
        self, disk: Disk, file_bytes_max: int, monotonic: Callable[[], float], keeper: LogKeeper | None = None
    ) -> None:
        self._disk = disk
        self._keeper = keeper
        self._file_bytes_max = file_bytes_max
        self._monotonic = monotonic
        self._open: dict[int, File] = {}
        self._new_file: NewLogFile | None = None
        self._left_behind: int | None = None  # the number of one that was given up, and may be there
        self._undeleted: set[int] = set()
        self.ready = 0  # the highest file that can be written to
        self.shortage: Exhausted | None = None  # for which the next file could not be reserved
        self.delete_again = False  # some of the released files could not be deleted for now
        self.broken = False  # never reset

    def open(self, number: int) -> File:
        file = self._open.get(number)
        if file is None:
            file = self._open[number] = self._disk.open(log_file(number))
        return file

    def write(self, commit: Commit) -> float:
        """Write and fsync a commit, and return how many seconds that took. Raises NoDescriptors, before a byte was written: it
        may be tried again. After any other StorageError the log is broken."""
        if self.broken:
            raise DiskFailed("an earlier operation on the log failed")
        try:
            return self._write(commit)
        except NoDescriptors:
            raise
        except StorageError:
            self.broken = True
            raise
        except (FileExistsError, FileNotFoundError) as error:
            self.broken = True
            raise DiskFailed(f"the log's directory was changed by somebody else: {error}") from error

    def outcome_of(self, commit: Commit) -> float | StorageError:
        """`write` it: what that returned, or what it raised."""
        try:
            return self.write(commit)
        except StorageError as error:
            return error

    def _write(self, commit: Commit) -> float:
        if commit.begins_file and self.ready < commit.file_number:
            self._finish_new_file(commit.file_number)
        file = self.open(commit.file_number)
        began = self._monotonic()
        file.write_at(commit.start, commit.buffers)
        file.sync()
        return self._monotonic() - began

    def tell(self, commit: Commit) -> None:
        """It is durable."""
        if self._keeper is not None:
            self._keeper.wrote(commit.file_number, commit.start, commit.end, commit.buffers)

    def prepare(self, number: int, *, zeros: bool = True) -> bool:
        """The next slice of a file that is not needed yet; all of it, if it is to be without zeros. Returns whether there are
        more. A shortage is no error: it is tried again, at the latest by the commit that needs the file. Raises other
        StorageErrors."""
        if self.broken or self.ready >= number:
            return False
        try:
            new = self._new(number)
            more = zeros and new.fill()
            if not more:
                self._finish_new_file(number)
        except Exhausted as error:
            self.abandon_new_file()
            self.shortage = error
            return False
        except StorageError:
            self.abandon_new_file()
            raise
        self.shortage = None
        return more

    def _finish_new_file(self, number: int) -> None:
        """As far as it was prepared; itself and its name durable before anything is promised by it."""
        try:
            self._open[number] = self._new(number, reserve=False).finish()
        except StorageError:
            self.abandon_new_file()
            raise
        self._new_file = None
        self.ready = number

    def _new(self, number: int, reserve: bool = True) -> NewLogFile:
        """The file that is being made. Without `reserve` it may be one without room of its own, if there is none to be had."""
        if self._new_file is None:
            try:
                self._new_file = self._begin(number, self._file_bytes_max)
            except DiskFull as error:
                if reserve:
                    raise
                self._new_file = self._begin(number, 0)
                self.shortage = error
        assert self._new_file.number == number, f"file {number} is needed, but {self._new_file.number} is being made"
        return self._new_file

    def _begin(self, number: int, reserved_bytes: int) -> NewLogFile:
        self._delete_left_behind()
        try:
            return NewLogFile(self._disk, number, reserved_bytes)
        except StorageError:
            self._left_behind = number
            raise

    def abandon_new_file(self) -> None:
        """Leave nothing behind, as far as the disk still lets us; the next attempt insists on it."""
        if self._new_file is not None:
            self._new_file.close()
            self._left_behind = self._new_file.number
            self._new_file = None
            with suppress(StorageError):
                self._delete_left_behind()

    def _delete_left_behind(self) -> None:
        if self._left_behind is not None:
            with suppress(FileNotFoundError):
                self._disk.delete(log_file(self._left_behind))
            self._left_behind = None

    def delete(self, facts: LogFacts, released: range) -> None:
        """These files, and those that could not be deleted before. First the facts say durably that they do not count any more,
        so that none is ever missed. A shortage is no error: see `delete_again`. Raises other StorageErrors."""
        self._undeleted.update(released)
        if self.broken or not self._undeleted:
            return
        try:
            facts.save(self._disk)
            for number in sorted(self._undeleted):
                if self._keeper is not None:
                    self._keeper.keep(number)
                with suppress(FileNotFoundError):
                    self._disk.delete(log_file(number))
            self._disk.sync_dir(LOG_DIRECTORY)
            self._undeleted.clear()
        except Exhausted:
            self.delete_again = True

    def forget(self, number: int) -> None:
        """The file has no reader or writer any more."""
        self._open.pop(
            number, None
        )  # a piece of it may still be on its way to a client: it is closed with the last of them

    def close(self) -> None:
        for file in self._open.values():
            file.close()
        self._open.clear()
