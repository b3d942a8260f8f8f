"""A disk in memory that fulfils storage/disk.py, and loses all that the contract allows to be lost.

`crash(random)` is a power cut. What it may do, each drawn anew for every file and directory:

- content and size since the file's last `sync`: all lost, a prefix of the writes kept, any subset of their 512-byte blocks
  kept (the device reorders), one of these blocks torn in its middle, or the size kept with zeros or garbage as content;
- directory entries since the last `sync_dir`: any subset of the creations, renames and deletions. A rename happens whole or
  not at all; to another directory it is a creation and a deletion, of which a crash may leave both names or none. A file whose
  entry is lost is lost;
- all open handles die with the process that held them.

`kill()` is kill -9: handles die, the system keeps every write.

While running, a `Fault` can be put on any single call, or on all of a kind (see `Faults`): EIO; ENOSPC, of which a part of
the bytes may get through; an fsync that fails and drops the unwritten pages, so that the next one succeeds and means nothing;
an fsync that lies; no file descriptor for what opens something; `settle` is the system that writes it back after all.
`capacity` makes room run out by itself. `flip_bit` and `overwrite` damage what is at rest.

A directory is lost, with all that is in it, if nothing made its name durable: `begin_dir` made it and the one above was not
synced, or `make_dir` found no descriptor to sync its name with and was not called again. Nothing is reordered across `sync`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from enum import Enum
from random import Random

from storage.disk import Buffer
from storage.errors import DiskFailed, DiskFull, NoDescriptors

BLOCK = 512
ENDLESS = 1 << 40  # bytes; room on such a disk is not counted


class Fault(Enum):
    """What may happen to one call."""

    EIO = "the device fails"  # for sync: and the unwritten pages are dropped
    ENOSPC = "no room, nothing is written"
    ENOSPC_PARTIAL = "no room, a part is written"
    LIE = "sync says yes and does nothing"
    EMFILE = "no file descriptor is left"  # for calls that open something; others do not notice


@dataclass(slots=True)
class Call:
    """One operation, as a fault rule sees it."""

    number: int  # from 1
    operation: str  # create, open, write, read, sync, truncate, rename, delete, sync_dir, list, ...
    name: str


Faults = Callable[[Call], Fault | None]
OPENING = frozenset(("create", "open", "list", "sync_dir", "make_dir"))  # operations that need a file descriptor


def no_faults(call: Call) -> Fault | None:
    return None


def fault_at(number: int, fault: Fault) -> Faults:
    """This fault at exactly the nth call."""
    return lambda call: fault if call.number == number else None


def fault_on(operation: str, fault: Fault) -> Faults:
    """This fault at every call of one operation."""
    return lambda call: fault if call.operation == operation else None


@dataclass(slots=True)
class _Inode:
    """One file's content, whatever its name is now."""

    durable: bytearray = field(default_factory=bytearray)
    current: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)  # (offset, bytes) or (size, None): truncate

    def copy(self) -> _Inode:
        return _Inode(bytearray(self.current), bytearray(self.current))

    def write(self, offset: int, data: bytes) -> None:
        _write(self.current, offset, data)
        self.pending.append((offset, data))

    def truncate(self, size: int) -> None:
        _truncate(self.current, size)
        self.pending.append((size, None))

    def sync(self) -> None:
        self.durable = bytearray(self.current)
        self.pending.clear()

    def drop_pages(self) -> None:
        """After a failed fsync: readers may see either content, and the system believes that all is written. We take
        the worst for a broker that would go on: the old content."""
        self.current = bytearray(self.durable)
        self.pending.clear()

    def crash(self, random: Random) -> None:
        if self.pending:
            way = random.choice((_lose_all, _keep_prefix, _keep_blocks, _keep_blocks, _grow_only))
            self.durable = way(self, random)
        self.current = bytearray(self.durable)
        self.pending.clear()


def _write(content: bytearray, offset: int, data: bytes) -> None:
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def _truncate(content: bytearray, size: int) -> None:
    if size < len(content):
        del content[size:]
    else:
        content.extend(bytes(size - len(content)))


def _apply(content: bytearray, operation: tuple[int, bytes | None]) -> None:
    at, data = operation
    if data is None:
        _truncate(content, at)
    else:
        _write(content, at, data)


def _lose_all(inode: _Inode, random: Random) -> bytearray:
    return bytearray(inode.durable)


def _keep_prefix(inode: _Inode, random: Random) -> bytearray:
    content = bytearray(inode.durable)
    count = random.randrange(len(inode.pending) + 1)
    for operation in inode.pending[:count]:
        _apply(content, operation)
    if count < len(inode.pending):
        at, data = inode.pending[count]
        if data:
            _write(content, at, data[: random.randrange(len(data))])
    return content


def _keep_blocks(inode: _Inode, random: Random) -> bytearray:
    content = bytearray(inode.durable)
    for at, data in inode.pending:
        if data is None:
            if random.random() < 0.5:
                _truncate(content, at)
            continue
        position = 0
        while position < len(data):
            length = min(BLOCK - (at + position) % BLOCK, len(data) - position)
            fate = random.random()
            if fate < 0.1:
                _write(content, at + position, data[position : position + random.randrange(length + 1)])
            elif fate < 0.6:
                _write(content, at + position, data[position : position + length])
            position += length
    return content


def _grow_only(inode: _Inode, random: Random) -> bytearray:
    content = bytearray(inode.durable)
    grown = len(inode.current) - len(content)
    if grown > 0:
        content.extend(bytes(grown) if random.random() < 0.5 else random.randbytes(grown))
    return content


class SimFile:
    """A handle. It dies with the process that opened it."""

    def __init__(self, disk: SimDisk, inode: _Inode, name: str) -> None:
        self._disk = disk
        self._inode = inode
        self._name = name
        self._life = disk.life
        self._closed = False

    def _call(self, operation: str) -> Fault | None:
        assert self._life == self._disk.life, f"{self._name} is used by a process that is dead"
        assert not self._closed, f"{self._name} is used after close"
        return self._disk.call(operation, self._name)

    def write_at(self, offset: int, parts: Sequence[Buffer]) -> None:
        fault = self._call("write")
        data = b"".join(parts)
        if fault is Fault.EIO:
            self._inode.write(offset, data[: len(data) // 3])
            raise DiskFailed(f"cannot write {self._name}: simulated EIO")
        room = self._disk.room_for(len(data), max(0, offset + len(data) - len(self._inode.current)))
        if fault is Fault.ENOSPC:
            room = 0
        elif fault is Fault.ENOSPC_PARTIAL:
            room = len(data) // 2
        if room < len(data):
            self._inode.write(offset, data[:room])
            raise DiskFull(f"cannot write {self._name}: simulated ENOSPC")
        self._inode.write(offset, data)

    def system_file(self) -> None:
        """No system knows it."""

    def read_at(self, offset: int, size: int) -> bytes:
        if self._call("read") is not None:
            raise DiskFailed(f"cannot read {self._name}: simulated EIO")
        return bytes(self._inode.current[offset : offset + size])

    def read_ahead(self, offset: int, size: int) -> None:
        """All that is there is in memory."""

    def uncache(self, offset: int, size: int) -> None:
        """And stays there."""

    def send_to(self, socket: int, offset: int, size: int) -> int:
        return os.write(socket, self.read_at(offset, size))

    def sync(self) -> None:
        fault = self._call("sync")
        if fault is Fault.LIE:
            return
        if fault is not None:
            self._inode.drop_pages()
            raise DiskFailed(f"cannot fsync {self._name}: simulated {fault.name}")
        self._inode.sync()
        self._disk.synced(self._name)

    def truncate(self, size: int) -> None:
        if self._call("truncate") is not None:
            raise DiskFailed(f"cannot truncate {self._name}: simulated EIO")
        self._inode.truncate(size)

    def size(self) -> int:
        return len(self._inode.current)

    def close(self) -> None:
        self._closed = True


@dataclass(slots=True)
class _Directory:
    """Names now, and on the disk; and what happened in between: (old name or "", new name or "", the file)."""

    current: dict[str, _Inode] = field(default_factory=dict)
    durable: dict[str, _Inode] = field(default_factory=dict)
    pending: list[tuple[str, str, _Inode]] = field(default_factory=list)

    def change(self, old: str, new: str, inode: _Inode) -> None:
        _change(self.current, old, new, inode)
        self.pending.append((old, new, inode))

    def sync(self) -> None:
        self.durable = dict(self.current)
        self.pending.clear()

    def crash(self, random: Random) -> None:
        for old, new, inode in self.pending:
            if random.random() < 0.5:
                _change(self.durable, old, new, inode)
        self.current = dict(self.durable)
        self.pending.clear()


def _change(names: dict[str, _Inode], old: str, new: str, inode: _Inode) -> None:
    if old and names.get(old) is inode:
        del names[old]
    if new:
        names[new] = inode


class SimDisk:
    """The data directory of one simulated node. `faults` may be replaced at any time."""

    def __init__(self, capacity: int = ENDLESS) -> None:
        self.capacity = capacity
        self.faults: Faults = no_faults
        self.links = True  # whether this file system knows a second name of a file
        self.calls = 0
        self.life = 0  # of the process; handles of an earlier one are dead
        self.on_sync: Callable[[str], None] | None = None
        self.on_delete: Callable[[str], None] | None = None
        self.on_full: Callable[[], None] | None = None  # room ran out by itself
        self._directories: dict[str, _Directory] = {"": _Directory()}
        self._unsynced: set[str] = set()  # directories whose names a power cut may take
        self._lacks_descriptors = False  # as of the last call that needs one

    # The world's side.

    def crash(self, random: Random) -> None:
        """A power cut."""
        self.life += 1
        inodes = {id(inode): inode for inode in self._all_inodes()}
        for inode in inodes.values():
            inode.crash(random)
        for directory in self._directories.values():
            directory.crash(random)
        for path in sorted(self._unsynced):
            if random.random() < 0.5:
                for lost in [one for one in self._directories if f"{one}/".startswith(f"{path}/")]:
                    del self._directories[lost]
        self._unsynced.clear()

    def kill(self) -> None:
        """The process dies, the machine goes on."""
        self.life += 1

    def settle(self) -> None:
        """The system writes everything back, as it may at any time."""
        for inode in self._all_inodes():
            inode.sync()
        for directory in self._directories.values():
            directory.sync()
        self._unsynced.clear()

    def files(self) -> list[str]:
        """The names of all files that a reader finds now, without counting as a call."""
        return sorted(
            f"{path}/{name}" if path else name
            for path, directory in self._directories.items()
            for name in directory.current
        )

    def flip_bit(self, name: str, bit: int) -> None:
        """Bit rot: one bit of a file at rest, counted from its begin."""
        inode = self._inode(name)
        inode.current[bit // 8] ^= 1 << (bit % 8)
        inode.durable = bytearray(inode.current)

    def overwrite(self, name: str, content: bytes) -> None:
        """The file is found with this content, durably, whoever wrote it."""
        directory, base = self._split(name)
        inode = directory.current.get(base) or _Inode()
        inode.current, inode.durable = bytearray(content), bytearray(content)
        inode.pending.clear()
        directory.current[base] = directory.durable[base] = inode

    def content(self, name: str) -> bytes:
        """What a reader finds now, without counting as a call."""
        return bytes(self._inode(name).current)

    def copy(self) -> SimDisk:
        """Another disk with what readers find here now, all of it durable."""
        twin = SimDisk(self.capacity)
        for path, directory in self._directories.items():
            names = {
                name: _Inode(bytearray(inode.current), bytearray(inode.current))
                for name, inode in directory.current.items()
            }
            twin._directories[path] = _Directory(dict(names), dict(names))
        return twin

    def twin(self) -> SimDisk:
        """Another disk in the same state, with what is not durable yet, and without faults."""
        twin = SimDisk(self.capacity)
        twin._directories = deepcopy(self._directories)
        twin._unsynced = set(self._unsynced)
        return twin

    def call(self, operation: str, name: str) -> Fault | None:
        self.calls += 1
        fault = None if self.faults is no_faults else self.faults(Call(self.calls, operation, name))
        if operation in OPENING:
            self._lacks_descriptors = fault is Fault.EMFILE
        if fault is Fault.EMFILE:
            if operation in OPENING:
                raise NoDescriptors(f"cannot {operation} {name}: simulated EMFILE")
            return None
        return fault

    def synced(self, name: str) -> None:
        if self.on_sync is not None:
            self.on_sync(name)

    def room_for(self, size: int, growth: int) -> int:
        """How many of `size` bytes fit when the file would grow by `growth`."""
        if self.capacity == ENDLESS:
            return size
        free = self.free()
        if growth <= free:
            return size
        self.ran_out()
        return max(0, size - (growth - free))

    def ran_out(self) -> None:
        if self.on_full is not None:
            self.on_full()

    def free(self) -> int:
        return self.capacity - sum(len(inode.current) for inode in self._all_inodes())

    # The port.

    def create(self, name: str, preallocate: int = 0) -> SimFile:
        fault = self.call("create", name)
        directory, base = self._split(name)
        if base in directory.current:
            raise FileExistsError(name)
        if fault is Fault.EIO:
            raise DiskFailed(f"cannot create {name}: simulated EIO")
        if fault is None and self.capacity != ENDLESS and self.free() < preallocate:
            self.ran_out()
            fault = Fault.ENOSPC
        if fault is not None:
            raise DiskFull(f"cannot create {name}: simulated ENOSPC")
        inode = _Inode()
        directory.change("", base, inode)
        if preallocate:
            inode.truncate(preallocate)
        return SimFile(self, inode, name)

    def open(self, name: str) -> SimFile:
        self._may_fail("open", name)
        return SimFile(self, self._inode(name), name)

    def read_file(self, name: str) -> bytes:
        file = self.open(name)
        return file.read_at(0, file.size())

    def rename(self, old: str, new: str) -> None:
        self._may_fail("rename", old)
        directory, base = self._split(old)
        target, target_base = self._split(new)
        inode = self._inode(old)
        if directory is target:
            directory.change(base, target_base, inode)
            return
        target.change("", target_base, inode)
        directory.change(base, "", inode)

    def link(self, old: str, new: str) -> bool:
        self._may_fail("link", new)
        directory, base = self._split(new)
        if base in directory.current:
            raise FileExistsError(new)
        inode = self._inode(old)
        if self.links:
            directory.change("", base, inode)
        return self.links

    def delete(self, name: str) -> None:
        self._may_fail("delete", name)
        directory, base = self._split(name)
        inode = self._inode(name)
        if self.on_delete is not None:
            self.on_delete(name)
        directory.change(base, "", inode)

    def sync_dir(self, name: str) -> None:
        fault = self.call("sync_dir", name)
        if fault is Fault.LIE:
            return
        if fault is not None:
            raise DiskFailed(f"cannot fsync {name}: simulated {fault.name}")
        self._directory(name).sync()
        self._unsynced = {path for path in self._unsynced if path.rpartition("/")[0] != name}

    def make_dir(self, name: str) -> None:
        parts = name.split("/")
        paths = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
        try:
            self._may_fail("make_dir", name)
        except NoDescriptors:  # it is syncing that needs one
            made = next((path for path in paths if path not in self._directories), None)
            if made is not None:
                self._directories[made] = _Directory()
                self._unsynced.add(made)
            raise
        for path in paths:
            self._directories.setdefault(path, _Directory())
        self._unsynced.difference_update(paths)

    def begin_dir(self, name: str) -> None:
        self._may_fail("begin_dir", name)
        self._directory(name.rpartition("/")[0])
        if name not in self._directories:
            self._directories[name] = _Directory()
            self._unsynced.add(name)

    def remove_dir(self, name: str) -> None:
        self._may_fail("remove_dir", name)
        if self._directory(name).current or any(path.startswith(name + "/") for path in self._directories):
            raise DiskFailed(f"cannot remove {name}: it is not empty")
        del self._directories[name]
        self._unsynced.discard(name)

    def list(self, name: str) -> list[str]:
        self._may_fail("list", name)
        if name not in self._directories:
            return []
        prefix = f"{name}/" if name else ""
        below = (path.removeprefix(prefix) for path in self._directories if path.startswith(prefix) and path != name)
        return sorted([*self._directories[name].current, *(path for path in below if path and "/" not in path)])

    def exists(self, name: str) -> bool:
        directory, _, base = name.rpartition("/")
        return name in self._directories or (
            directory in self._directories and base in self._directories[directory].current
        )

    def lacks_descriptors(self) -> bool:
        """Whether the last call that needed one found none."""
        return self._lacks_descriptors

    def free_bytes(self) -> int:
        self._may_fail("free_bytes", "")
        return self.free()

    def _may_fail(self, operation: str, name: str) -> None:
        fault = self.call(operation, name)
        if fault in (Fault.ENOSPC, Fault.ENOSPC_PARTIAL) and operation in ("rename", "link", "make_dir", "begin_dir"):
            raise DiskFull(f"cannot {operation} {name}: simulated ENOSPC")
        if fault is Fault.EIO:
            raise DiskFailed(f"cannot {operation} {name}: simulated EIO")

    def _all_inodes(self) -> Collection[_Inode]:
        found: dict[int, _Inode] = {}
        for directory in self._directories.values():
            for names in (directory.current, directory.durable):
                found.update((id(inode), inode) for inode in names.values())
            found.update((id(inode), inode) for _, _, inode in directory.pending)
        return found.values()

    def _directory(self, name: str) -> _Directory:
        if name not in self._directories:
            raise FileNotFoundError(name)
        return self._directories[name]

    def _split(self, name: str) -> tuple[_Directory, str]:
        directory, _, base = name.rpartition("/")
        return self._directory(directory), base

    def _inode(self, name: str) -> _Inode:
        directory, base = self._split(name)
        if base not in directory.current:
            raise FileNotFoundError(name)
        return directory.current[base]
