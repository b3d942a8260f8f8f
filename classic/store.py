"""The node's shared message store: large contents, one copy for any number of queues.

Files `.rdq` of about FILE_BYTES_MAX are records (storage/record.py), appended one behind the other:

    CLASSIC_STORED    a content; writer and index are the two parts of its id

A content goes when no queue refers to it any more. That only marks: a file without living bytes is deleted, and of one of which
more than half is garbage the rest is copied to the end of the store, synced, and only then is it deleted. Readers find a
content by its id, so they never wait for that. Which contents live is not written here; the queues' indexes say it, and after a
crash they are asked (`refer`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from classic.open_files import OpenFiles
from classic.stored_run import InStore
from storage.disk import Buffer
from storage.errors import Corrupt
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
    living: int = 0  # bytes of records that somebody refers to
    dirty: bool = False
    damaged: bool = False  # something that lives in it cannot be read: it is not compacted


class MessageStore:
    """One of the two stores; `directory` says which. The transient one is never synced, and emptied at start."""

    def __init__(self, files: OpenFiles, directory: str, file_bytes_max: int = FILE_BYTES_MAX) -> None:
        self.contents: dict[InStore, Stored] = {}
        self.files: dict[int, StoreFile] = {}
        self._files = files
        self._directory = directory
        self._file_bytes_max = file_bytes_max
        self._current = 0
        self._next_transient = 0

    # contents

    def put(self, content_id: InStore, content: Buffer, references: int) -> None:
        """Store a content. One that is here already (a flush that a crash ended) only gets its references."""
        known = self.contents.get(content_id)
        if known is not None:
            self._refer(known, references)
            return
        number, offset = self._append(content_id, content)
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
            self.files[stored.file].living -= HEADER_BYTES + stored.size
            del self.contents[content_id]

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
        current.dirty = True
        return self._current, offset

    def _begin(self) -> StoreFile:
        if not self.files:
            self._files.disk.make_dir(self._directory)
        self._current += 1
        self._files.create(self.name_of(self._current))
        current = self.files[self._current] = StoreFile()
        return current

    # files

    def name_of(self, number: int) -> str:
        return store_file(self._directory, number)

    @property
    def directory(self) -> str:
        return self._directory

    def dirty_files(self) -> list[str]:
        """Files that were written since they were asked for last, to be synced now."""
        dirty = [number for number, file in self.files.items() if file.dirty]
        for number in dirty:
            self.files[number].dirty = False
        return [self.name_of(number) for number in dirty]

    def dead_files(self) -> list[int]:
        """Files without a living byte, which may be deleted; the one being written is not among them."""
        return [number for number, file in self.files.items() if not file.living and number != self._current]

    def sparse_file(self) -> int | None:
        """A file of which more than half is garbage."""
        for number, file in self.files.items():
            if number != self._current and 0 < file.living * 2 < file.size and not file.damaged:
                return number
        return None

    def compact(self, number: int) -> None:
        """Copy what lives in a file to the end of the store. The file is dead then; it is to be deleted after a sync. Raises
        Corrupt: then the rest stays where it is."""
        for content_id, stored in list(self.contents.items()):
            if stored.file == number and stored.references:
                try:
                    content = self.read(content_id)
                except Corrupt:
                    self.files[number].damaged = True
                    raise
                stored.file, stored.offset = self._append(content_id, content)
                self.files[stored.file].living += HEADER_BYTES + stored.size
                self.files[number].living -= HEADER_BYTES + stored.size

    def delete(self, number: int) -> None:
        del self.files[number]
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
        self.files = {number: StoreFile(size) for number, size in sizes.items()}
        self.contents = contents
        for stored in contents.values():
            self.files[stored.file].living += HEADER_BYTES + stored.size
        self._current = max(sizes, default=0) + 1  # of another life: a new file is begun

    def scan(self, sizes: dict[int, int], damaged: Callable[[str, int, int, str], None]) -> None:
        """Find the contents in files of which these many bytes are durable. Nobody refers to them yet."""
        self._current = max(sizes, default=0) + 1
        for number, size in sizes.items():
            self.files[number] = StoreFile(size)
            self._scan_file(number, size, damaged)

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
        """After all references are known: what nobody refers to is garbage."""
        for content_id in [one for one, stored in self.contents.items() if not stored.references]:
            del self.contents[content_id]
