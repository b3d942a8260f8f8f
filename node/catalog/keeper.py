"""Keeps what the catalog's entries changed: many of them in one transaction, in the background.

While one transaction is on its way to the disk, what is applied gathers for the next one. Who waits for an entry is told when
the transaction with it is durable. When the disk has no room, nobody is told, and the same is tried again at each `tick`.
After any other failure nothing is kept any more, and nobody told; the node must stop, for it cannot follow what is declared.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from broker.catalog.carrying_out import CommandOutcome
from broker.catalog.commands.catalog_commands import Record, encode_record
from node.background import Background
from node.catalog.catalog_store import HEAD_KEY, key_of, replacement
from storage.errors import Exhausted
from storage.lmdb_store import Change, Store

logger = logging.getLogger("leveret")


@dataclass(slots=True)
class _Batch:
    """What goes with one transaction."""

    outcomes: list[CommandOutcome] = field(default_factory=list)
    changes: dict[bytes, bytes | None] = field(default_factory=dict)
    whole: Sequence[Record] | None = None  # before the changes: these are all records that there are
    head: bytes = b""

    def follow(self, before: _Batch) -> None:
        """Take up what was to be kept before this, and was not."""
        self.outcomes = before.outcomes + self.outcomes
        if self.whole is None:
            self.whole = before.whole
            self.changes = {**before.changes, **self.changes}
        self.head = self.head or before.head


class Keeper:
    """See the module. `on_kept` is told of outcomes in the order of their entries, `on_failed` why nothing is kept any more."""

    def __init__(
        self,
        store: Store,
        background: Background,
        on_kept: Callable[[Sequence[CommandOutcome]], None],
        on_failed: Callable[[str], None],
    ) -> None:
        self.commits = 0
        self.full: str | None = None  # why nothing can be kept at the moment
        self.failure: str | None = None  # why nothing is kept any more
        self.on_idle: list[Callable[[], None]] = []
        self._store = store
        self._background = background
        self._on_kept = on_kept
        self._on_failed = on_failed
        self._gathered = _Batch()
        self._committing = False

    @property
    def idle(self) -> bool:
        return not self._committing

    def note(self, record: Record, present: bool) -> None:
        """The catalog's observer: the change goes with the entries that are told next."""
        self._gathered.changes[key_of(record)] = encode_record(record) if present else None

    def keep(self, outcomes: Sequence[CommandOutcome], head: bytes) -> None:
        """These entries, with the changes noted before."""
        self._gathered.outcomes += outcomes
        self._gathered.head = head
        self._commit()

    def keep_whole(self, records: Sequence[Record], outcomes: Sequence[CommandOutcome], head: bytes) -> None:
        """The catalog is another one."""
        self._gathered.whole, self._gathered.changes = records, {}
        self.keep(outcomes, head)

    def tick(self) -> None:
        if self.full is not None:
            self._commit()

    def close(self) -> None:
        """What was not kept is in the log, and kept at the next start."""
        self._background.close()
        self._store.close()

    def _commit(self) -> None:
        if self._committing or not self._gathered.head or self.failure is not None:
            return
        batch, self._gathered = self._gathered, _Batch()
        self._committing = True
        self._background.run(lambda: self._store.commit(self._rows(batch)), lambda _, error: self._done(batch, error))

    def _rows(self, batch: _Batch) -> Sequence[Change]:
        """In the background."""
        rows: list[Change] = []
        if batch.whole is not None:
            rows += replacement(self._store, {key_of(record): encode_record(record) for record in batch.whole})
        rows += batch.changes.items()
        rows.append((HEAD_KEY, batch.head))
        return rows

    def _done(self, batch: _Batch, error: Exception | None) -> None:
        self._committing = False
        if error is None:
            self.commits += 1
            self._note_room(None)
            self._commit()  # what has gathered goes to the disk while these are told
            self._on_kept(batch.outcomes)
        else:
            self._gathered.follow(batch)
            if isinstance(error, Exhausted):
                self._note_room(f"what was declared cannot be kept now: {error}")
            else:
                self.failure = f"the metadata store failed and the node must be restarted: {error}"
                self._on_failed(self.failure)
        if not self._committing:
            waiting, self.on_idle = self.on_idle, []
            for call in waiting:
                call()

    def _note_room(self, full: str | None) -> None:
        """An operator reads in the log why who declares waits, or is refused, and when that is over."""
        if full is not None and self.full is None:
            logger.warning("%s. Who declares waits or is refused until it can", full)
        elif full is None and self.full is not None:
            logger.warning("what was declared is kept again")
        self.full = full
