"""The real Disk: files below one directory of the operating system. The contract is in storage/disk.py.

Files are 0600 and directories 0700: messages are private to the broker. Syscalls here release the interpreter lock, so other
threads can wait for the device while the event loop goes on.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from storage.disk import Buffer, File, SystemFile
from storage.errors import DirectoryInUse, DiskFailed, DiskFull, NoDescriptors, StorageError
from storage.spare_descriptors import NONE_LEFT, SPARE_COUNT, SpareDescriptors

LINKS_REFUSED = frozenset((errno.EPERM, errno.EMLINK, errno.EXDEV, errno.EOPNOTSUPP, errno.ENOSYS))
WROTE_NOTHING = "the system wrote nothing and gave no reason"
PARTS_PER_CALL_MAX = 1024  # IOV_MAX of Linux: more buffers than this in one call are refused


@contextmanager
def _as_disk_errors(what: str, name: str) -> Iterator[None]:
    """Turn errors of the system into those of the contract; a missing or existing file stays Python's own error."""
    try:
        yield
    except (FileNotFoundError, FileExistsError):
        raise
    except OSError as error:
        raise disk_error(error, what, name) from error


def disk_error(error: OSError, what: str, name: str) -> StorageError:
    """The error of the contract for one of the system's."""
    text = f"cannot {what} {name}: {error.strerror or error}"
    if error.errno in NONE_LEFT:
        return NoDescriptors(text)  # whatever it was, it needed one before it did anything
    if error.errno in (errno.ENOSPC, errno.EDQUOT) and what != "fsync":
        return DiskFull(text)
    return DiskFailed(text)  # fsync too: where room is found late, written pages are dropped for want of it


def write_parts(descriptor: int, offset: int, parts: Sequence[Buffer]) -> None:
    """Write all of them one behind the other. Raises OSError; a part of the bytes may have been written then."""
    if len(parts) <= PARTS_PER_CALL_MAX:
        _write_group(descriptor, offset, parts)
        return
    for first in range(0, len(parts), PARTS_PER_CALL_MAX):
        offset += _write_group(descriptor, offset, parts[first : first + PARTS_PER_CALL_MAX])


def _write_group(descriptor: int, offset: int, parts: Sequence[Buffer]) -> int:
    wanted = sum(map(len, parts))
    written = os.pwritev(descriptor, parts, offset)
    if written == wanted:
        return wanted
    # A short write is rare (a full disk, a signal, 2 GiB): go on with the rest as one buffer, so the next call
    # either continues or says what is wrong.
    rest = memoryview(b"".join(parts))
    while written < wanted:
        count = os.pwrite(descriptor, rest[written:], offset + written)
        if count == 0:
            raise OSError(WROTE_NOTHING)
        written += count
    return wanted


class OsFile:
    """One open file descriptor."""

    def __init__(self, descriptor: int, path: str, spare: SpareDescriptors) -> None:
        self._descriptor = descriptor
        self._path = path
        self._spare = spare

    def write_at(self, offset: int, parts: Sequence[Buffer]) -> None:
        try:
            write_parts(self._descriptor, offset, parts)
        except OSError as error:  # here and in `sync` without `_as_disk_errors`: each commit passes here
            raise disk_error(error, "write", self._path) from error

    def system_file(self) -> SystemFile:
        return SystemFile(self._descriptor, self._path)

    def read_at(self, offset: int, size: int) -> bytes:
        with _as_disk_errors("read", self._path):
            data = os.pread(self._descriptor, size, offset)
            if len(data) == size or not data:
                return data
            pieces = [data]
            got = len(data)
            while got < size and (data := os.pread(self._descriptor, size - got, offset + got)):
                pieces.append(data)
                got += len(data)
            return b"".join(pieces)

    def read_ahead(self, offset: int, size: int) -> None:
        with suppress(OSError, AttributeError):  # where the system does not know of it
            os.posix_fadvise(self._descriptor, offset, size, os.POSIX_FADV_WILLNEED)

    def uncache(self, offset: int, size: int) -> None:
        with suppress(OSError, AttributeError):
            os.posix_fadvise(self._descriptor, offset, size, os.POSIX_FADV_DONTNEED)

    def send_to(self, socket: int, offset: int, size: int) -> int:
        try:
            return os.sendfile(socket, self._descriptor, offset, size)
        except OSError as error:
            if error.errno == errno.EIO:  # all others are the socket's
                raise disk_error(error, "read", self._path) from error
            raise

    def sync(self) -> None:
        try:
            os.fdatasync(self._descriptor)
        except OSError as error:
            raise disk_error(error, "fsync", self._path) from error

    def truncate(self, size: int) -> None:
        with _as_disk_errors("truncate", self._path):
            os.ftruncate(self._descriptor, size)

    def size(self) -> int:
        with _as_disk_errors("stat", self._path):
            return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            with _as_disk_errors("close", self._path):
                os.close(descriptor)
            self._spare.refill()

    def __del__(self) -> None:
        with suppress(OSError, DiskFailed):
            self.close()


class OsDisk:
    """The files below `root`, which is made when it is missing."""

    def __init__(self, root: str, read_only: bool = False) -> None:
        """`read_only` is for looking at files that belong to somebody else: nothing is made, and no file can be written."""
        self.root = os.path.abspath(root)
        self._lock_descriptor = -1
        self._synced_directories: set[str] = set()  # whose names this process knows to be durable
        self._open_flags = os.O_CLOEXEC | (os.O_RDONLY if read_only else os.O_RDWR)
        self._spare = SpareDescriptors(0 if read_only else SPARE_COUNT)
        if read_only:
            return
        with _as_disk_errors("create", self.root):
            os.makedirs(self.root, mode=0o700, exist_ok=True)

    def path(self, name: str) -> str:
        """Where the operating system finds this file, for libraries that open files themselves (LMDB)."""
        return os.path.join(self.root, name) if name else self.root

    def lock(self, name: str) -> None:
        """Hold the data directory for this process until it ends. Raises DirectoryInUse."""
        with _as_disk_errors("open", self.path(name)):
            self._lock_descriptor = os.open(self.path(name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock_descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._lock_descriptor)
            self._lock_descriptor = -1
            raise DirectoryInUse(f"the data directory {self.root} is in use by another process") from error

    def lock_to_look(self, name: str) -> None:
        """Keep nodes away from a directory while its files are read; several may look at once. Nothing is made, so a
        directory that no node has used is not locked. Raises DirectoryInUse."""
        try:
            with _as_disk_errors("open", self.path(name)):
                self._lock_descriptor = os.open(self.path(name), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            fcntl.flock(self._lock_descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self.unlock()
            raise DirectoryInUse(f"the data directory {self.root} is in use by another process") from error

    def unlock(self) -> None:
        """Let go of the data directory."""
        if self._lock_descriptor >= 0:
            os.close(self._lock_descriptor)
            self._lock_descriptor = -1
        self._spare.close()

    def create(self, name: str, preallocate: int = 0) -> File:
        path = self.path(name)
        with _as_disk_errors("create", path):
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            descriptor = self._spare.opened(lambda: os.open(path, flags, 0o600))
        file = OsFile(descriptor, path, self._spare)
        if preallocate:
            try:
                with _as_disk_errors(f"reserve {preallocate} bytes for", path):
                    os.posix_fallocate(descriptor, 0, preallocate)
            except BaseException:
                file.close()
                with suppress(OSError):
                    os.unlink(path)
                raise
        return file

    def open(self, name: str) -> File:
        path = self.path(name)
        with _as_disk_errors("open", path):
            return OsFile(self._spare.opened(lambda: os.open(path, self._open_flags)), path, self._spare)

    def read_file(self, name: str) -> bytes:
        file = self.open(name)
        try:
            return file.read_at(0, file.size())
        finally:
            file.close()

    def rename(self, old: str, new: str) -> None:
        with _as_disk_errors("rename", self.path(old)):
            os.replace(self.path(old), self.path(new))

    def link(self, old: str, new: str) -> bool:
        try:
            os.link(self.path(old), self.path(new))
        except (FileNotFoundError, FileExistsError):
            raise
        except OSError as error:
            if error.errno in LINKS_REFUSED:
                return False
            raise disk_error(error, "link", self.path(new)) from error
        return True

    def delete(self, name: str) -> None:
        with _as_disk_errors("delete", self.path(name)):
            os.unlink(self.path(name))

    def sync_dir(self, name: str) -> None:
        path = self.path(name)
        with _as_disk_errors("fsync", path):
            descriptor = self._spare.opened(lambda: os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
                self._spare.refill()

    def make_dir(self, name: str) -> None:
        above = ""
        for part in name.split("/"):
            here = f"{above}/{part}" if above else part
            if here not in self._synced_directories:
                self._make_one(here, above)
            above = here

    def _make_one(self, name: str, above: str) -> None:
        """A directory that exists is no sign of a synced name: its creator may have failed, or ended, before that."""
        self.begin_dir(name)
        self.sync_dir(above)
        self._synced_directories.add(name)

    def begin_dir(self, name: str) -> None:
        with _as_disk_errors("create", self.path(name)), suppress(FileExistsError):
            os.mkdir(self.path(name), 0o700)

    def remove_dir(self, name: str) -> None:
        with _as_disk_errors("remove", self.path(name)):
            os.rmdir(self.path(name))
        self._synced_directories.discard(name)

    def list(self, name: str) -> list[str]:
        try:
            with _as_disk_errors("list", self.path(name)):
                return sorted(self._spare.opened(lambda: os.listdir(self.path(name))))
        except FileNotFoundError:
            return []
        finally:
            self._spare.refill()

    def exists(self, name: str) -> bool:
        return os.path.exists(self.path(name))

    def lacks_descriptors(self) -> bool:
        return self._spare.lacking

    def free_bytes(self) -> int:
        with _as_disk_errors("ask the free space of", self.root):
            state = os.statvfs(self.root)
            return state.f_bavail * state.f_frsize
