"""A record of a group's entries, in the node's log or in a segment, taken apart."""

from __future__ import annotations

from raft.core import packs
from raft.core.errors import BadBytes
from raft.core.messages import Entry
from storage.disk import Buffer
from storage.errors import Corrupt
from storage.record import Kind, Record


def entries_of(name: str, group: int, record: Record, data: Buffer) -> list[Entry]:
    """The entries of a RAFT_ENTRIES record. Raises Corrupt when it is none, or another group's."""
    kind, flags, term, writer, index, start, end = record
    if kind != Kind.RAFT_ENTRIES or writer != group:
        raise Corrupt(name, 0, end - start, f"a record of kind {kind} and writer {writer} is none of group {group}")
    try:
        return packs.decode(index, term, flags, memoryview(data)[start:end])
    except BadBytes as error:
        raise Corrupt(name, 0, end - start, str(error)) from error
