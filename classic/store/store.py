"""The node's shared message store: large contents, one copy for any number of queues.

Files `.rdq` of about FILE_BYTES_MAX are records (storage/record.py), appended one behind the other:

    CLASSIC_STORED    a content; writer and index are the two parts of its id

A content goes when no queue refers to it any more. That only marks: a file without living bytes is deleted, and what still
lives in files that are mostly garbage is copied to a file of its own (classic/store/compaction.py). Readers find a content by
its id, so they never wait for that. Which contents live is not written here; the queues' indexes say it, and after a crash they
are asked (`refer`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from classic.store.open_files import OpenFiles
from classic.stored_run import InStore
from storage.disk import Buffer
from storage.names import STORE_SUFFIX, numbers_in, store_file
from storage.record import HEADER_BYTES, PAYLOAD_BYTES_MAX, VERSION, Kind, payload_length, scan, seal

FILE_BYTES_MAX = 16_777_216
SCAN_BYTES = 4_194_304


@dataclass(slots=True)
class Stored:
    """Where a content is, and how many runs in queues refer to it."""

    file: int
    offset: int  # of the record's payload
    size: int
    references: int


@dataclass(slots=True)
class StoreFile:
    size: int = 0
    synced: int = 0  # so many bytes are durable, and the name; synced <= size
    living: int = 0  # bytes of records that somebody refers to
    damaged: bool = False  # something that lives in it cannot be read: it is not compacted
    held: bool = False  # it is being compacted: it stays until that has ended
    ids: list[InStore] = field(default_factory=list)  # contents that were written to it; some are gone or elsewhere


class MessageStore:
    """One of the two stores; `directory` says which. The transient one is never synced, and emptied at start."""

    def __init__(self, files: OpenFiles, directory: str, file_bytes_max: int = FILE_BYTES_MAX) -> None:
        self.contents: dict[InStore, Stored] = {}
        self.files: dict[int, StoreFile] = {}
        self._files = files
        self._directory = directory
        self._file_bytes_max = file_bytes_max
        self._current = 0  # contents are appended to this file
        self._last = 0  # the highest number that a file was given
        self._shrunk: dict[int, None] = {}  # files that may be worth compacting or deleting
        self._next_transient = 0

    # contents

    def put(self, content_id: InStore, content: Buffer, references: int) -> None:
        """Store a content. One that is here already (a flush that a crash ended) only gets its references."""
        known = self.contents.get(content_id)
        if known is not None:
            self._refer(known, references)
            return
        number, offset = self._append(content_id, content)
        self.files[number].ids.append(content_id)
        stored = self.contents[content_id] = Stored(number, offset, len(content), 0)
        self._refer(stored, references)

    def spill(self, content: bytes) -> InStore:
        """Store a content that has no id yet: a transient one."""
        content_id = InStore(0, self._next_transient)
        self._next_transient += 1
        self.put(content_id, content, 1)
        return content_id

    def read(self, content_id: InStore) -> bytes:
        """Raises KeyError for an id that is not here, Corrupt."""
        stored = self.contents[content_id]
        return self._files.payload(self.name_of(stored.file), stored.offset, stored.size)

    def refer(self, content_id: InStore) -> bool:
        """One more run refers to it. False when it is not here."""
        stored = self.contents.get(content_id)
        if stored is not None:
            self._refer(stored, 1)
        return stored is not None

    def release(self, content_id: InStore) -> None:
        """One run fewer refers to it."""
        stored = self.contents.get(content_id)
        if stored is None:
            return
        assert stored.references > 0, f"{content_id} is released more often than it was referred to"
        stored.references -= 1
        if not stored.references:
            self._shrink(stored)
            del self.contents[content_id]

    def _shrink(self, stored: Stored) -> None:
        file = self.files[stored.file]
        file.living -= HEADER_BYTES + stored.size
        if file.living * 2 < file.size:
            self._shrunk[stored.file] = None

    def _refer(self, stored: Stored, references: int) -> None:
        if not stored.references and references:
            self.files[stored.file].living += HEADER_BYTES + stored.size
        stored.references += references

    def _append(self, content_id: InStore, content: Buffer) -> tuple[int, int]:
        current = self.files.get(self._current)
        if current is None or current.size >= self._file_bytes_max:
            current = self._begin()
        header = seal([content], Kind.CLASSIC_STORED, 0, 0, *content_id, VERSION)
        self._files.writes += 1
        self._files.get(self.name_of(self._current)).write_at(current.size, [header, content])
        offset = current.size + HEADER_BYTES
        current.size = offset + len(content)
        return self._current, offset

    def _begin(self) -> StoreFile:
        number = self.next_number()
        self._files.create(self.name_of(number))
        self._shrunk[self._current] = None  # it takes no more: if little of it lives, it may go from now on
        self._current = number
        current = self.files[number] = StoreFile()
        return current

    def next_number(self) -> int:
        """The number of a new file, which the caller makes. Raises DiskFull."""
        if not self.files:
            self._files.disk.make_dir(self._directory)
        self._last += 1
        return self._last

    # files

    def name_of(self, number: int) -> str:
        return store_file(self._directory, number)

    @property
    def directory(self) -> str:
        return self._directory

    @property
    def file_bytes_max(self) -> int:
        return self._file_bytes_max

    def unsynced(self) -> list[tuple[str, StoreFile]]:
        """Files with bytes that are not durable, by name."""
        return [(self.name_of(number), file) for number, file in self.files.items() if file.size > file.synced]

    def dead_files(self) -> list[int]:
        """Files without a living byte, which may be deleted; the one being written is not among them."""
        return [number for number in self._may_go() if not self.files[number].living]

    def sparse_files(self) -> list[int]:
        """Files of which more than half is garbage."""
        return [number for number in self._may_go() if self.files[number].living and not self.files[number].damaged]

    def _may_go(self) -> list[int]:
        return [
            number
            for number in self._shrunk
            if number != self._current
            and (file := self.files.get(number)) is not None
            and not file.held
            and (file.living * 2 < file.size or not file.living)
        ]

    def living_in(self, number: int) -> list[tuple[InStore, Stored]]:
        """What lives in a file that takes no more."""
        found = [(content_id, self.contents.get(content_id)) for content_id in self.files[number].ids]
        return [(content_id, stored) for content_id, stored in found if stored is not None and stored.file == number]

    def moved(self, content_id: InStore, source: int, target: int, offset: int) -> None:
        """A content has a copy in another file, which counts from now on; unless it went since it was copied."""
        stored = self.contents.get(content_id)
        if stored is None or stored.file != source:
            return
        self._shrink(stored)
        stored.file, stored.offset = target, offset
        self.files[target].living += HEADER_BYTES + stored.size

    def adopt(self, number: int, size: int, synced: int, ids: list[InStore]) -> None:
        """A file with copies of contents, which are told of by `moved` next."""
        self.files[number] = StoreFile(size, synced, ids=ids)
        self._shrunk[number] = None  # what was copied may be gone by now

    def delete(self, number: int) -> None:
        del self.files[number]
        self._shrunk.pop(number, None)
        self._files.delete(self.name_of(number))

    def empty(self) -> None:
        """Delete every file of this store that is on the disk, known or not."""
        for number in numbers_in(self._files.disk.list(self._directory), STORE_SUFFIX):
            self._files.delete(self.name_of(number))
        self.contents.clear()
        self.files.clear()

    # after a start

    def restore(self, sizes: dict[int, int], contents: dict[InStore, Stored]) -> None:
        """As a clean stop left it."""
        self._restore_files(sizes)
        self.contents = contents
        for content_id, stored in contents.items():
            self.files[stored.file].living += HEADER_BYTES + stored.size
            self.files[stored.file].ids.append(content_id)

    def _restore_files(self, sizes: dict[int, int]) -> None:
        self.files = {number: StoreFile(size, synced=size) for number, size in sizes.items()}
        self._shrunk = dict.fromkeys(sizes)
        self._last = max(sizes, default=0)
        self._current = 0  # those files are of another life: a new one is begun

    def scan(self, sizes: dict[int, int], damaged: Callable[[str, int, int, str], None]) -> None:
        """Find the contents in files of which these many bytes are durable. They have no references yet."""
        self._restore_files(sizes)
        for number, size in sizes.items():
            self._scan_file(number, size, damaged)
        for content_id, stored in self.contents.items():
            self.files[stored.file].ids.append(content_id)

    def _scan_file(self, number: int, size: int, damaged: Callable[[str, int, int, str], None]) -> None:
        name, at, wanted = self.name_of(number), 0, SCAN_BYTES
        file = self._files.get(name)
        size = min(size, file.size())  # a file that is too short was reported when its size was looked at
        while at < size:
            data = file.read_at(at, min(wanted, size - at))
            records, stop, _ = scan(data, 0, len(data), PAYLOAD_BYTES_MAX)
            for kind, _, _, writer, index, start, end in records:
                if kind == Kind.CLASSIC_STORED:
                    self.contents[InStore(writer, index)] = Stored(number, at + start, end - start, 0)
            at += stop
            if stop:
                wanted = SCAN_BYTES
                continue
            needed = HEADER_BYTES + payload_length(data) if len(data) >= HEADER_BYTES else 0
            if not len(data) < needed <= size - at:
                damaged(name, at, size - at, "no whole record begins here")
                return
            wanted = needed

    def forget_unreferenced(self) -> None:
        """After all references are known: contents without a reference are garbage."""
        for content_id in [one for one, stored in self.contents.items() if not stored.references]:
            del self.contents[content_id]
