"""The log of a member on this node, as its queue reads it.

What the disk just does not give may be there all the same: no member is given up for that. As wherever the disk fails, the node
stops; a later life of it may read it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from raft.core.errors import Damaged
from raft.store.entry_files import EntryInFile
from raft.store.member_store import MemberStore
from raft.store.segments import unreadable
from storage.errors import Corrupt, StorageError
from storage.file_piece import FilePiece

T = TypeVar("T")


class StoredEntries:
    """See the module. Everything raises Damaged."""

    def __init__(self, store: MemberStore, fail: Callable[[str], None]) -> None:
        """`fail` stops the node, and says why."""
        self._store = store
        self._fail = fail

    def read(self, index: int) -> bytes:
        return self._guarded(index, lambda: self._store.read_entry(index))

    def in_file(self, index: int) -> LargeEntry | None:
        """An entry that is better sent from where it lies. None: it is to be read."""
        found = self._guarded(index, lambda: self._store.entry_in_file(index))
        return LargeEntry(self, found) if found is not None else None

    def check(self, found: EntryInFile) -> bytes | None:
        try:
            return self._guarded(found.entry, found.check)
        except Corrupt as error:
            raise unreadable(found.group, found.entry, error) from error

    def failed(self, why: str) -> None:
        """The disk did, while an entry was sent from its file."""
        self._fail(why)

    def _guarded(self, index: int, read: Callable[[], T]) -> T:
        try:
            return read()
        except Corrupt:
            raise
        except StorageError as error:
            self._fail(str(error))
            raise Damaged(f"entry {index} cannot be read, and its node stops: {error}") from error


class LargeEntry:
    """An entry that can be sent from its file."""

    __slots__ = ("_entries", "_found")

    def __init__(self, entries: StoredEntries, found: EntryInFile) -> None:
        self._entries = entries
        self._found = found

    @property
    def file_name(self) -> str:
        return self._found.name

    @property
    def size(self) -> int:
        return self._found.size

    def check(self) -> bytes | None:
        """Its first bytes, once all of it was read and is sound. None: it has to be read. Raises Damaged."""
        return self._entries.check(self._found)

    def piece(self, start: int) -> FilePiece:
        """From this byte on."""
        return self._found.piece(start, self._entries.failed)
