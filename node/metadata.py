"""The catalog of one node, kept in its metadata store: applied at once, durable before it is answered.

A command is applied in memory when it is submitted, and the records that it changed wait for the next commit. While one
commit is being fsynced in a thread, further commands gather; then they share the next one. So each answer costs one
fsync at most, and a thousand declares at once cost a few.

    key      one letter for the kind of record | BLAKE2b (16 bytes) of what names it    names are longer than keys may be
    value    the record as broker/catalog_commands.py writes it
    "ids"    u64: every queue id below it may have been given out

Queue ids go into files, and a file must never be taken for that of a later queue. An id is given out before its record is
durable, and records of transient queues never are; so ids are reserved in blocks, and a start begins with a new block.

A commit that finds no room on the disk is answered with that, and its changes go with the next one: memory is ahead of the
disk meanwhile, and whoever declares the same again is answered only when it is durable. After any other failure of the store
nothing is accepted any more.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator
from typing import Any

import msgspec

from broker.catalog import LOAD_ORDER, Catalog
from broker.catalog_commands import Command, Record, UnknownVersion, decode_record, encode_command, encode_record
from broker.errors import BrokerError, ResourceExhausted
from broker.metadata import OnApplied
from broker.namespace import identity_of
from broker.pending import Pending
from broker.records import (
    BindingRecord,
    ExchangeRecord,
    NodeRecord,
    ParameterRecord,
    PermissionRecord,
    PolicyRecord,
    QueueRecord,
    TopicPermissionRecord,
    UserRecord,
    VhostRecord,
)
from node.background import Background
from storage.errors import DiskFull, StorageError
from storage.lmdb_store import Store

IDS_KEY = b"ids"
ID_BLOCK = 65_536

_LETTERS: dict[type[Any], bytes] = {
    NodeRecord: b"N",
    VhostRecord: b"V",
    UserRecord: b"U",
    PermissionRecord: b"P",
    TopicPermissionRecord: b"T",
    ExchangeRecord: b"X",
    QueueRecord: b"Q",
    BindingRecord: b"B",
    PolicyRecord: b"O",
    ParameterRecord: b"R",
}
_NAMED_BY: dict[type[Any], tuple[str, ...]] = {
    NodeRecord: ("name",),
    VhostRecord: ("name",),
    UserRecord: ("name",),
    PermissionRecord: ("user", "vhost"),
    TopicPermissionRecord: ("user", "vhost", "exchange"),
    ExchangeRecord: ("vhost", "name"),
    QueueRecord: ("vhost", "name"),
    PolicyRecord: ("vhost", "operator", "name"),
    ParameterRecord: ("vhost", "component", "name"),
}


class CatalogDamaged(Exception):
    """Raised at start when a stored record cannot be read; nothing was changed."""


def names_of(record: Record) -> tuple[Any, ...]:
    """What names the record among those of its kind."""
    if isinstance(record, BindingRecord):
        return record.vhost, *identity_of(record)
    return tuple(getattr(record, field) for field in _NAMED_BY[type(record)])


def key_of(record: Record) -> bytes:
    named = msgspec.msgpack.encode(names_of(record))
    return _LETTERS[type(record)] + hashlib.blake2b(named, digest_size=16).digest()


def stored_of(store: Store, kind: type[Any]) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of all stored records of a kind. Raises StorageError."""
    return store.items(_LETTERS[kind])


def decoded(kind: type[Any], key: bytes, value: bytes) -> Record:
    """The record that is stored so. Raises CatalogDamaged."""
    try:
        record: Record = decode_record(kind, value)
    except (UnknownVersion, BrokerError) as error:
        raise CatalogDamaged(f"the {kind.__name__} under key {key.hex()} cannot be read: {error}") from error
    if key_of(record) != key:
        raise CatalogDamaged(f"the {kind.__name__} under key {key.hex()} belongs under {key_of(record).hex()}")
    return record


class LocalMetadata:
    """The metadata of a cluster of one node."""

    def __init__(self, catalog: Catalog, store: Store, background: Background) -> None:
        """Loads what is stored into the empty catalog. Raises CatalogDamaged."""
        assert catalog.version == 0, f"a catalog at version {catalog.version} is loaded into"
        self.catalog = catalog
        self.failure: str | None = None  # why nothing is accepted any more
        self.commits = 0
        self._store = store
        self._background = background
        self._subscribers: list[OnApplied] = []
        self._untold: deque[tuple[Command, Any]] = deque()
        self._telling = False
        self._changes: dict[bytes, bytes | None] = {}  # of the next commit
        self._waiting: list[tuple[Pending[Any], Any]] = []  # who is answered after it, with what
        self._committing = False
        self._load()
        self._ids_reserved = self._reserve_first_block()
        catalog.observer = self._observe

    # ------------------------------------------------------------------------- the port

    def submit(self, command: Command) -> Pending[Any]:
        if self.failure is not None:
            return Pending.failed(ResourceExhausted(self.failure))
        if self.catalog.next_queue_id >= self._ids_reserved:
            return Pending.failed(ResourceExhausted("too many queues are being declared at once: try again"))
        try:
            encode_command(command)  # what cannot be kept must not be applied, and a replicated log will want the bytes
            result = self.catalog.apply(command)
        except BrokerError as error:
            return Pending.failed(error)
        self._tell(command, result)
        # A command that changed nothing may still rest on one that is not durable yet, and then waits with it.
        if not self._changes and not self._waiting and not self._committing:
            return Pending.of(result)
        pending: Pending[Any] = Pending()
        self._waiting.append((pending, result))
        self._commit()
        return pending

    def subscribe(self, on_applied: OnApplied) -> None:
        self._subscribers.append(on_applied)

    def flushed(self) -> Pending[None]:
        """Answered when everything that was submitted before is durable."""
        pending: Pending[None] = Pending()
        if not self._committing:
            return Pending.of(None)
        self._waiting.append((pending, None))
        return pending

    def close(self) -> None:
        """Commits nothing more; wait for `flushed` first."""
        self.catalog.observer = None
        self._background.close()
        self._store.close()

    # ------------------------------------------------------------------------- at start

    def _load(self) -> None:
        for kind in LOAD_ORDER:
            try:
                records = [decoded(kind, key, value) for key, value in stored_of(self._store, kind)]
            except StorageError as error:
                raise CatalogDamaged(f"a {kind.__name__} cannot be read: {error}") from error
            # Keys are hashes; an order that means something makes starts alike, and lists come in the order of declaring.
            records.sort(key=lambda record: record.id if isinstance(record, QueueRecord) else names_of(record))
            for record in records:
                self.catalog.load(record)

    def _reserve_first_block(self) -> int:
        stored = self._store.get(IDS_KEY)
        given_out = int.from_bytes(stored, "big") if stored is not None else 1
        self.catalog.next_queue_id = max(self.catalog.next_queue_id, given_out)
        reserved = self.catalog.next_queue_id + ID_BLOCK
        self._store.commit([(IDS_KEY, reserved.to_bytes(8, "big"))])
        return reserved

    # ------------------------------------------------------------------------- applying

    def _observe(self, record: Record, present: bool) -> None:
        """Called by the catalog for every record that changes."""
        if self.catalog.is_stored(record):
            self._changes[key_of(record)] = encode_record(record) if present else None

    def _tell(self, command: Command, result: Any) -> None:
        """A subscriber may submit commands itself; all subscribers still hear of all of them in the same order."""
        self._untold.append((command, result))
        if self._telling:
            return
        self._telling = True
        try:
            while self._untold:
                told = self._untold.popleft()
                for on_applied in self._subscribers:
                    on_applied(*told)
        finally:
            self._telling = False

    # ------------------------------------------------------------------------- making it durable

    def _commit(self) -> None:
        if self._committing or not self._waiting:
            return
        changes, self._changes = self._changes, {}
        waiting, self._waiting = self._waiting, []
        reserved = self._ids_reserved
        if self.catalog.next_queue_id + ID_BLOCK // 2 > reserved:
            reserved = self.catalog.next_queue_id + ID_BLOCK
            changes[IDS_KEY] = reserved.to_bytes(8, "big")
        self._committing = True
        self._background.run(
            lambda: self._store.commit(list(changes.items())),
            lambda _, error: self._committed(changes, waiting, reserved, error),
        )

    def _committed(
        self,
        changes: dict[bytes, bytes | None],
        waiting: list[tuple[Pending[Any], Any]],
        reserved: int,
        error: Exception | None,
    ) -> None:
        self._committing = False
        self.commits += 1
        if isinstance(error, DiskFull):
            self._changes = {**changes, **self._changes}
            _refuse(waiting, f"what was declared cannot be kept now: {error}")
        elif error is not None:
            self.failure = f"the metadata store failed and the node must be restarted: {error}"
            _refuse(waiting + self._waiting, self.failure)
            self._waiting, self._changes = [], {}
            return
        else:
            self._ids_reserved = reserved
        self._commit()  # what has gathered goes to the disk while these are answered
        if error is None:
            for pending, result in waiting:
                pending.resolve(result)


def _refuse(waiting: list[tuple[Pending[Any], Any]], reason: str) -> None:
    for pending, _ in waiting:
        pending.fail(ResourceExhausted(reason))
