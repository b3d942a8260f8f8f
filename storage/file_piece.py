"""Some bytes of a file that never change, to be sent from there or read when they are needed.

Who sends them knows nothing of disks: all that it is told is an OSError. What a failing disk means is for `on_failed`, which is
told before.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from storage.disk import Buffer, File
from storage.errors import StorageError


class FilePiece:
    """See the module. The file stays open as long as this refers to it, also when its name is gone."""

    __slots__ = ("_file", "_offset", "_on_failed", "_size")

    def __init__(self, file: File, offset: int, size: int, on_failed: Callable[[str], None]) -> None:
        self._file = file
        self._offset = offset
        self._size = size
        self._on_failed = on_failed

    def __len__(self) -> int:
        return self._size

    def read(self) -> Buffer:
        """All of them. Raises OSError."""
        with self._telling_of_failures():
            data = self._file.read_at(self._offset, self._size)
        if len(data) < self._size:
            raise _ends_early(self._size - len(data))
        return data

    def send_to(self, socket: int, start: int) -> int:
        """As many as the socket takes, from `start` on. Raises OSError; see File."""
        with self._telling_of_failures():
            sent = self._file.send_to(socket, self._offset + start, self._size - start)
        if sent == 0:
            raise _ends_early(self._size - start)
        return sent

    @contextmanager
    def _telling_of_failures(self) -> Iterator[None]:
        try:
            yield
        except StorageError as error:
            self._on_failed(str(error))
            raise OSError(errno.EIO, str(error)) from error


def _ends_early(size: int) -> OSError:
    return OSError(errno.EIO, f"the file ends {size} bytes too early")
