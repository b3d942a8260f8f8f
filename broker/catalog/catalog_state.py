"""A whole catalog as bytes: the snapshot of the metadata group, and what a RAM node asks a disk node for.

    offset  size  field
         0     1  version  1
         1     4  size     of the head
         5        the head: msgpack array: applied, the catalog's head as a record, sessions as a map of
                  node -> [incarnation, number]
                  records
    record
         0     1  the letter of its kind
         1     4  size
         5        the record, as broker/catalog/commands/catalog_commands.py writes it

What a record refers to comes before it. `applied` is the index of the last entry of the metadata log that all of this stands
on.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import msgspec

from broker import records as declared
from broker.catalog.catalog import Catalog
from broker.catalog.commands.catalog_commands import Record, UnknownVersion, decode_record, encode_record
from broker.records import CatalogHead

VERSION = 1
RECORDS_PER_PART = 1_000

LETTERS: dict[type[Any], bytes] = {
    declared.NodeRecord: b"N",
    declared.VhostRecord: b"V",
    declared.UserRecord: b"U",
    declared.PermissionRecord: b"P",
    declared.TopicPermissionRecord: b"T",
    declared.ExchangeRecord: b"X",
    declared.QueueRecord: b"Q",
    declared.BindingRecord: b"B",
    declared.PolicyRecord: b"O",
    declared.ParameterRecord: b"R",
    declared.ClaimBeatRecord: b"A",
    declared.ClaimRecord: b"C",
}
_HEAD = struct.Struct("<BI")
_RECORD = struct.Struct("<cI")
_KIND_OF = {letter: kind for kind, letter in LETTERS.items()}

# By node: the incarnation that submitted last, and the number of its last command that was applied.
Sessions = dict[int, tuple[int, int]]


class CatalogDamaged(Exception):
    """Raised at start when what is stored cannot be read; nothing was changed."""


@dataclass(slots=True)
class Position:
    """What a catalog stands on."""

    applied: int = 0  # index of the last entry that it knows of; all before it are in it
    sessions: Sessions = field(default_factory=dict)


class CatalogState(Sequence[bytes]):
    """The catalog as it was when this was made. Records are encoded when a part is asked for, which may be in another thread:
    a large catalog takes a while to encode, and none to remember."""

    def __init__(self, catalog: Catalog, position: Position) -> None:
        head = encode_head(position, catalog.head)
        self._head = _HEAD.pack(VERSION, len(head)) + head
        self._records = list(catalog.records())

    def __len__(self) -> int:
        return 1 + (len(self._records) + RECORDS_PER_PART - 1) // RECORDS_PER_PART

    @overload
    def __getitem__(self, at: int) -> bytes: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[bytes]: ...

    def __getitem__(self, at: int | slice) -> bytes | Sequence[bytes]:
        if isinstance(at, slice):
            return [self[one] for one in range(*at.indices(len(self)))]
        if not 0 <= at < len(self):
            raise IndexError(at)
        if at == 0:
            return self._head
        return b"".join(map(_encoded, self._records[(at - 1) * RECORDS_PER_PART :][:RECORDS_PER_PART]))


def encode_head(position: Position, head: CatalogHead) -> bytes:
    return msgspec.msgpack.encode((position.applied, encode_record(head), position.sessions))


def decode_head(value: bytes) -> tuple[Position, CatalogHead]:
    """Raises CatalogDamaged."""
    try:
        applied, head, sessions = msgspec.msgpack.decode(value, type=tuple[int, bytes, Sessions])
        return Position(applied, sessions), decode_record(CatalogHead, head)
    except (msgspec.DecodeError, UnknownVersion) as error:
        raise CatalogDamaged(f"the head of the catalog cannot be read: {error}") from error


def _encoded(record: Record) -> bytes:
    data = encode_record(record)
    return _RECORD.pack(LETTERS[type(record)], len(data)) + data


def decode_state(state: bytes) -> tuple[Position, CatalogHead, list[Record]]:
    """Raises ValueError when these bytes are no catalog of this version."""
    try:
        version, size = _HEAD.unpack_from(state)
        if version != VERSION:
            raise ValueError(f"version {version} of a catalog's state, and {VERSION} is known")
        position, head = decode_head(state[_HEAD.size : _HEAD.size + size])
        return position, head, [decode_record(*one) for one in _rows(state, _HEAD.size + size)]
    except (CatalogDamaged, UnknownVersion, struct.error) as error:
        raise ValueError(f"this is no state of a catalog: {error}") from error


def _rows(state: bytes, at: int) -> Iterator[tuple[type[Any], bytes]]:
    while at < len(state):
        letter, size = _RECORD.unpack_from(state, at)
        at += _RECORD.size
        if letter not in _KIND_OF or at + size > len(state):
            raise ValueError(
                f"a record of kind {letter!r} and {size} bytes at {at}, and the state ends at {len(state)}"
            )
        yield _KIND_OF[letter], state[at : at + size]
        at += size


def replace_catalog(catalog: Catalog, head: CatalogHead, records: Sequence[Record]) -> None:
    """The catalog is this one from now on. Nobody is told."""
    observer, catalog.observer = catalog.observer, None
    try:
        catalog.clear()
        catalog.load_head(head)
        for record in records:
            catalog.load(record)
    finally:
        catalog.observer = observer
