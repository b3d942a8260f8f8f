"""What a node says to the leader of a stream when its clients store offsets. Little endian:

    kind u8: 2 | count u32, per offset: again u8 | reference (size u8, UTF-8) | offset u64

`again` is 1 for what was said before, to this leader or another, with an unknown outcome.
"""

from __future__ import annotations

from collections.abc import Collection
from struct import Struct
from typing import NamedTuple

from raft.core.byte_reader import ByteReader
from raft.core.errors import BadBytes
from replicated.peer_letters import RefusedProposal
from storage.disk import Buffer

STORE = 2

_HEAD = Struct("<BI")
_OFFSET = Struct("<Q")


class Storing(NamedTuple):
    """One offset that is to be stored."""

    reference: str
    offset: int
    again: bool = False


def encode_storing(stored: Collection[Storing]) -> bytes:
    return b"".join([_HEAD.pack(STORE, len(stored)), *map(_encode, stored)])


def _encode(one: Storing) -> bytes:
    name = one.reference.encode()
    return bytes((one.again, len(name))) + name + _OFFSET.pack(one.offset)


def read_storing(data: Buffer) -> list[Storing]:
    """Raises BadBytes."""
    reader = ByteReader(data)
    kind, count = reader.fields(_HEAD)
    if kind != STORE:
        raise BadBytes(f"what stores offsets is of kind {kind}")
    found = [_read(reader) for _ in range(count)]
    reader.must_end()
    return found


def check_storing(letter: bytes, at: int) -> None:
    """What another node says is whole. Raises RefusedProposal."""
    try:
        read_storing(memoryview(letter)[at:])
    except BadBytes as error:
        raise RefusedProposal(f"what is to be stored: {error}") from error


def _read(reader: ByteReader) -> Storing:
    again = reader.flag()
    try:
        reference = reader.take(reader.u8()).decode()
    except UnicodeDecodeError as error:
        raise BadBytes(f"a reference before {reader.at} is not UTF-8: {error}") from error
    return Storing(reference, reader.fields(_OFFSET)[0], again)
