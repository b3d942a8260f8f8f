"""Chunks as clients of the stream protocol are sent them: from memory, or, where they are large, from the file they lie in.

The record of a chunk that is sent from its file was checked before, once for all readers: what is known of it then is kept, for
HEADS_MAX chunks of all streams of the node. None of the data is, so reading what is old takes no memory, however many read it.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from raft.core.errors import BadBytes
from replicated.stored_entries import LargeEntry
from storage.disk import Buffer
from storage.file_piece import FilePiece
from stream.chunks.chunk import CHUNK_HEADER_BYTES, ChunkHeader
from stream.chunks.entries import ChunkEntry, decode, read_prefix

HEADS_MAX = 4_096  # some 400 bytes each; of chunks that are at least 128 KiB


class SentChunk(NamedTuple):
    """A chunk on its way to a client."""

    header: ChunkHeader
    chunk: Buffer | FilePiece  # header and data, as the client gets them
    chunk_filter: bytes  # stream/chunks/bloom.py


class _Head(NamedTuple):
    """What is known of an entry with a chunk whose record is sound."""

    file_name: str
    begins: int  # where the chunk does in the entry
    header: ChunkHeader
    chunk_filter: bytes


class ChunksInFiles:
    """See the module. One for all streams of a node."""

    def __init__(self) -> None:
        self._heads: OrderedDict[tuple[int, int], _Head] = OrderedDict()  # by group and index; the latest used last

    def chunk_in(self, entry: LargeEntry, group: int, index: int) -> SentChunk | None:
        """None: it is to be read. Raises Damaged."""
        head = self._heads.get((group, index))
        if head is not None and head.file_name == entry.file_name:
            self._heads.move_to_end((group, index))
        else:
            head = self._checked(entry)
            if head is None:
                return None
            self._keep(group, index, head)
        return SentChunk(head.header, entry.piece(head.begins), head.chunk_filter)

    def forget(self, group: int) -> None:
        for key in [key for key in self._heads if key[0] == group]:
            del self._heads[key]

    def _keep(self, group: int, index: int, head: _Head) -> None:
        self._heads[group, index] = head
        if len(self._heads) > HEADS_MAX:
            self._heads.popitem(last=False)

    @staticmethod
    def _checked(entry: LargeEntry) -> _Head | None:
        """None: it is no chunk, or reading it will tell what is wrong with it."""
        first = entry.check()
        try:
            head = decode(first[: read_prefix(first)[2]]) if first is not None else None
        except (
            BadBytes
        ):  # perhaps only because the names of thousands of publishers did not fit into what was read first
            return None
        if not isinstance(head, ChunkEntry) or first is None:
            return None
        header, begins = head.header, read_prefix(first)[2] - CHUNK_HEADER_BYTES
        fits = begins + header.size == entry.size
        return _Head(entry.file_name, begins, header, bytes(head.chunk_filter)) if fits else None
