"""The catalog as a disk node keeps it: one row of its metadata store for each record, and one that says up to where.

    key      one letter for the kind of record | BLAKE2b (16 bytes) of what names it    names are longer than keys may be
    value    the record as broker/catalog/commands/catalog_commands.py writes it
    "head"   the head of a catalog's state, as broker/catalog/catalog_state.py writes it
    "in memory"   nothing: this was a RAM node last, and there is nothing else here until it has a catalog as a disk node

`applied` is the index of the last entry of the metadata log that these rows stand on. It is written in the same transaction as
the records that the entry changed, so a start has whole entries, however it was ended. Entries up to there change nothing
when the log is replayed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from broker import records
from broker.catalog.catalog import LOAD_ORDER, Catalog
from broker.catalog.catalog_state import LETTERS, CatalogDamaged, Position, decode_head
from broker.catalog.commands.catalog_commands import Record, UnknownVersion, decode_record
from broker.catalog.parts.namespace import identity_of
from storage.errors import StorageError
from storage.lmdb_store import Change, Store

HEAD_KEY = b"head"
IN_MEMORY_KEY = b"in memory"

_NAMED_BY: dict[type[Any], tuple[str, ...]] = {
    records.NodeRecord: ("name",),
    records.VhostRecord: ("name",),
    records.UserRecord: ("name",),
    records.PermissionRecord: ("user", "vhost"),
    records.TopicPermissionRecord: ("user", "vhost", "exchange"),
    records.ExchangeRecord: ("vhost", "name"),
    records.QueueRecord: ("vhost", "name"),
    records.PolicyRecord: ("vhost", "operator", "name"),
    records.ParameterRecord: ("vhost", "component", "name"),
    records.ClaimBeatRecord: ("node",),
    records.ClaimRecord: ("kind", "vhost", "name"),
}


def names_of(record: Record) -> tuple[Any, ...]:
    """What names the record among those of its kind."""
    if isinstance(record, records.BindingRecord):
        return record.vhost, *identity_of(record)
    return tuple(getattr(record, field) for field in _NAMED_BY[type(record)])


def key_of(record: Record) -> bytes:
    named = msgspec.msgpack.encode(names_of(record))
    return LETTERS[type(record)] + hashlib.blake2b(named, digest_size=16).digest()


def stored_of(store: Store, kind: type[Any]) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of all stored records of a kind. Raises StorageError."""
    return store.items(LETTERS[kind])


def decoded(kind: type[Any], key: bytes, value: bytes) -> Record:
    """The record that is stored so. Raises CatalogDamaged."""
    try:
        record: Record = decode_record(kind, value)
    except UnknownVersion as error:
        raise CatalogDamaged(f"the {kind.__name__} under key {key.hex()} cannot be read: {error}") from error
    if key_of(record) != key:
        raise CatalogDamaged(f"the {kind.__name__} under key {key.hex()} belongs under {key_of(record).hex()}")
    return record


def load(store: Store, catalog: Catalog) -> Position:
    """Put what is stored into the empty catalog. Raises CatalogDamaged."""
    assert catalog.version == 0, f"a catalog at version {catalog.version} is loaded into"
    position = Position()
    try:
        stored = store.get(HEAD_KEY)
        if stored is not None:
            position, head = decode_head(stored)
            catalog.load_head(head)
        for kind in LOAD_ORDER:
            found = [decoded(kind, key, value) for key, value in stored_of(store, kind)]
            # Keys are hashes; an order that means something makes starts alike, and lists come in the order of declaring.
            found.sort(key=lambda record: record.id if isinstance(record, records.QueueRecord) else names_of(record))
            for record in found:
                catalog.load(record)
    except StorageError as error:
        raise CatalogDamaged(f"the catalog cannot be read: {error}") from error
    return position


def replacement(store: Store, rows: dict[bytes, bytes]) -> Sequence[Change]:
    """The changes that make these rows all that is stored."""
    gone: list[Change] = [(key, None) for key, _ in store.items() if key not in rows]
    return [*gone, *rows.items()]


class NothingKept:
    """The store of a RAM node: it holds the catalog in memory, and asks for it again at each start."""

    def get(self, key: bytes) -> bytes | None:
        return None

    def items(self, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        return iter(())

    def commit(self, changes: Sequence[Change]) -> None:
        """Nothing is kept."""

    def close(self) -> None:
        """Nothing to let go of."""
