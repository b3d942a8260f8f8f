"""The catalog as the machine of the metadata group: the same entries in the same order give the same catalog on every node.

What an entry looks like is in broker/catalog/metadata_entry.py.

A node that does not know what became of a command sends it again. So the machine remembers, for each node, the last command
that it has carried out: what has a number up to there was done before (REPEATED), and what does not follow it is not done yet
(MISSED): whoever sent it begins anew behind the last one. So each is carried out once, in the order in which it was submitted,
whatever happens on the way. An entry of a process that is over, as a later one has sent something, is not carried out (LATE).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from broker.catalog.catalog import Catalog
from broker.catalog.catalog_commands import Command, Record
from broker.catalog.metadata_entry import Origin, decode_entry, version_of
from broker.errors import BrokerError, InternalError
from broker.records import CatalogHead
from node.catalog.catalog_state import CatalogState, decode_state, replace_catalog
from node.catalog.catalog_store import Position
from raft.core.messages import Entry
from storage.disk import Buffer

MACHINE_VERSION = 1


class EntryFate(Enum):
    """What became of an entry."""

    DONE = "done"  # or refused: `Outcome.error` says so
    REPEATED = "repeated"
    MISSED = "missed"
    LATE = "late"
    SKIPPED = "skipped"  # a snapshot brought what all up to this one of the same process did: nobody here has seen how


@dataclass(slots=True, frozen=True)
class CommandOutcome:
    """One entry and what became of it."""

    origin: Origin
    verdict: EntryFate
    command: Command | None = None
    result: Any = None
    error: BrokerError | None = None


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
                outcome = self._outcome(*decode_entry(entry.data))
                self.position.applied = entry.index
                outcomes.append(outcome)
                verdicts.append(outcome.verdict)
        finally:
            if outcomes:
                self.watcher.applied(outcomes)
        return verdicts

    def _outcome(self, origin: Origin, command: Command) -> CommandOutcome:
        verdict = self._verdict(origin)
        if verdict is not EntryFate.DONE:
            return CommandOutcome(origin, verdict)
        self.position.sessions[origin.node] = origin.incarnation, origin.number
        try:
            return CommandOutcome(origin, verdict, command, self.catalog.apply(command))
        except BrokerError as error:
            return CommandOutcome(origin, verdict, command, error=error)
        except Exception as error:  # a mistake of ours, the same on every node: one command must not end them all
            return CommandOutcome(origin, verdict, command, error=InternalError(f"{type(command).__name__}: {error!r}"))

    def _verdict(self, origin: Origin) -> EntryFate:
        incarnation, last = self.position.sessions.get(origin.node, (0, 0))
        if origin.incarnation < incarnation:
            return EntryFate.LATE
        if origin.incarnation > incarnation:
            last = 0
        if origin.number <= last:
            return EntryFate.REPEATED
        return EntryFate.DONE if origin.previous == last else EntryFate.MISSED

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
