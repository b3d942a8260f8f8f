"""The catalog as the machine of the metadata group: the same entries in the same order give the same catalog on every node.

What an entry looks like is in broker/catalog/commands/metadata_entry.py, what becomes of it in broker/catalog/carrying_out.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.catalog.carrying_out import CommandOutcome, EntryFate, carry_out
from broker.catalog.catalog import Catalog
from broker.catalog.catalog_state import CatalogState, Position, decode_state, replace_catalog
from broker.catalog.commands.catalog_commands import Record
from broker.catalog.commands.metadata_entry import decode_entry, version_of
from broker.records import CatalogHead
from raft.core.messages import Entry
from storage.disk import Buffer

MACHINE_VERSION = 1


class CatalogWatcher:
    """Who is told what the machine does. Does nothing itself."""

    def met(self, version: int) -> None:
        """An entry of this version is in the log, perhaps in the catalog already."""

    def applied(self, outcomes: Sequence[CommandOutcome]) -> None:
        """These entries were applied."""

    def replaced(self, before: Sequence[Record]) -> None:
        """A snapshot took the place of the catalog that held these records."""


class CatalogMachine:
    """Fulfils raft.machine.Machine. Entries and snapshots up to `position.applied` change nothing: they are in the catalog."""

    def __init__(self, catalog: Catalog, position: Position, watcher: CatalogWatcher | None = None) -> None:
        self.version = MACHINE_VERSION
        self.catalog = catalog
        self.position = position
        self.watcher = watcher or CatalogWatcher()

    def apply(self, entries: Sequence[Entry]) -> Sequence[EntryFate | None]:
        """None for what the catalog stood on already. Raises UnknownVersion at an entry of a later version: without it, the
        catalog would not be that of the others any more. What stands before it has been done."""
        verdicts: list[EntryFate | None] = []
        outcomes: list[CommandOutcome] = []
        try:
            for entry in entries:
                self.watcher.met(version_of(entry.data))
                if entry.index <= self.position.applied:
                    verdicts.append(None)
                    continue
                outcome = carry_out(self.catalog, self.position.sessions, *decode_entry(entry.data))
                self.position.applied = entry.index
                outcomes.append(outcome)
                verdicts.append(outcome.verdict)
        finally:
            if outcomes:
                self.watcher.applied(outcomes)
        return verdicts

    def snapshot(self) -> Sequence[Buffer]:
        return CatalogState(self.catalog, self.position)

    def restore(self, state: bytes, version: int) -> None:
        if version != MACHINE_VERSION:
            raise ValueError(f"version {version} of the catalog's rules, and {MACHINE_VERSION} is known")
        self.stand_on(*decode_state(state))

    def stand_on(self, position: Position, head: CatalogHead, records: Sequence[Record]) -> None:
        """Take over a catalog, unless this one knows of more already."""
        if position.applied <= self.position.applied:
            return
        before = list(self.catalog.records())
        replace_catalog(self.catalog, head, records)
        self.position = position
        self.watcher.replaced(before)

    @property
    def held_bytes(self) -> int:
        return 0

    def live_entries(self) -> None:
        """None: a catalog refers to no entries."""
