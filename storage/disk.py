"""The port Disk: the few operations on files that storing needs. Each docstring is the error contract.

Names are relative to the data directory, with `/` between parts, and come from `storage/names.py`.
Besides what is said at each operation, any of them may raise DiskFailed; those that open something (create, open, read_file,
list, make_dir, sync_dir) may raise NoDescriptors. Nothing is durable before `sync` (content and size of a file) and `sync_dir`
(that names exist, were changed, are gone) have returned: both, for a new file.
`storage/os_disk.py` is the real one; tests/sim/disk.py loses whatever this contract allows to be lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

Buffer = bytes | bytearray | memoryview


class SystemFile(NamedTuple):
    """What the operating system knows an open file by."""

    descriptor: int
    path: str


class File(Protocol):
    """An open file. It may be used by one writing and any number of reading threads."""

    def write_at(self, offset: int, parts: Sequence[Buffer]) -> None:
        """Write the parts one behind the other. A gap below `offset` reads as zeros.

        Raises DiskFull when there is no room; a part of the bytes may have been written then.
        Raises DiskFailed when the device fails; nothing is known about these bytes then.
        """

    def system_file(self) -> SystemFile | None:
        """For a thread that is to write and sync it with calls of its own, while this handle is open. If that finds no room,
        `write_at` is to be tried, which may make some. None where all calls must pass here, as with a simulated file."""

    def read_at(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only where the file ends. Sees every write that has returned, synced or not."""

    def read_ahead(self, offset: int, size: int) -> None:
        """These bytes are read next, probably: the system may fetch them meanwhile. Does not wait for the disk, fails never."""

    def uncache(self, offset: int, size: int) -> None:
        """These bytes, which are synced, are not read soon, probably: the system may drop them from memory, rather than what
        others read. Does not wait for the disk, fails never."""

    def send_to(self, socket: int, offset: int, size: int) -> int:
        """Give bytes of the file to a socket that does not block, by its descriptor, without reading them into this process.
        Returns how many it took; 0 where the file ends. Raises OSError as the system does: BlockingIOError when the socket
        takes none now, others when its peer is gone. Raises DiskFailed."""

    def sync(self) -> None:
        """Make content and size durable. Raises DiskFailed: the content since the last sync is unknown, and calling
        again proves nothing, since the system may have dropped the pages. Do not write to this file again."""

    def truncate(self, size: int) -> None:
        """Cut the file, or let it grow by zeros. Not durable before `sync`."""

    def size(self) -> int:
        """Bytes in the file now."""

    def close(self) -> None:
        """Forget the handle. Does not sync. Closing twice does no harm."""


class Disk(Protocol):
    """The data directory of one node."""

    def create(self, name: str, preallocate: int = 0) -> File:
        """A new file of `preallocate` zero bytes whose room is reserved.

        Raises FileExistsError when there is one, FileNotFoundError when its directory is missing.
        Raises DiskFull when the room cannot be reserved; the file is not there then.
        """

    def open(self, name: str) -> File:
        """An existing file, for reading and writing. Raises FileNotFoundError."""

    def read_file(self, name: str) -> bytes:
        """The whole of a small file. Raises FileNotFoundError."""

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, replacing what had it, at once for every reader. Raises FileNotFoundError. In another
        directory a crash may leave it both names, or none, until both are synced."""

    def link(self, old: str, new: str) -> bool:
        """Give a file a second name, perhaps in another directory: it is there as long as it has one. False where the file
        system cannot do that. Raises FileNotFoundError, FileExistsError, DiskFull."""

    def delete(self, name: str) -> None:
        """Remove a name. Open handles go on reading. Raises FileNotFoundError."""

    def sync_dir(self, name: str) -> None:
        """Make creations, renames and deletions in this directory durable. "" is the data directory itself."""

    def make_dir(self, name: str) -> None:
        """A directory, durably, with the directories above it. Nothing happens when it exists."""

    def begin_dir(self, name: str) -> None:
        """A directory in one that exists, with a name that is durable only after `sync_dir` of that one. For many at a time.
        Nothing happens when it exists."""

    def remove_dir(self, name: str) -> None:
        """Remove an empty directory. Raises FileNotFoundError; DiskFailed when it is not empty."""

    def list(self, name: str) -> list[str]:
        """Names in a directory, sorted, without the path. Empty when there is no such directory."""

    def exists(self, name: str) -> bool:
        """Whether there is a file or directory of this name."""

    def lacks_descriptors(self) -> bool:
        """Whether files could be opened only with the descriptors that are held in reserve. Whoever keeps files open between
        two uses closes them then, but for the one in use: others have no more than the reserve, either."""

    def free_bytes(self) -> int:
        """Bytes that can still be written."""


def size_of(disk: Disk, name: str) -> int:
    """Of a file that is there. Raises FileNotFoundError."""
    file = disk.open(name)
    try:
        return file.size()
    finally:
        file.close()
