"""What came of commands: entries of the metadata log, carried out by the code that carries them out on nodes.

A catalog is empty before the first entry, and is known where a snapshot has it. From there on results are known until an entry
is missing, or cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from analytics.audit.command_look import LoggedCommand
from analytics.inputs import SnapshotFile
from broker.catalog.carrying_out import CommandOutcome, EntryFate, carry_out
from broker.catalog.catalog import Catalog
from broker.catalog.catalog_state import Sessions, decode_state, replace_catalog
from broker.catalog.commands.catalog_commands import UnknownVersion
from broker.catalog.commands.metadata_entry import METADATA_GROUP, decode_entry
from raft.store.snapshots import read_state
from storage.errors import StorageError
from storage.os_disk import OsDisk

REFUSED = "refused"


class CommandResult(NamedTuple):
    """Of one command. None: the logs that were read do not say it."""

    result: str | None = None  # done, refused; or repeated, missed, late: nobody carried it out here
    reason: str | None = None  # as who asked was told, of what was refused


class CatalogStart(NamedTuple):
    """A catalog as a snapshot has it."""

    term: int  # of the last entry that it stands on
    state: bytes


class FoldedCatalog:
    """What is declared, as of one entry."""

    def __init__(self, applied: int) -> None:
        self.applied = applied
        self._catalog = Catalog()
        self._sessions: Sessions = {}

    def stand_on(self, state: bytes) -> None:
        """Raises ValueError."""
        position, head, records = decode_state(state)
        replace_catalog(self._catalog, head, records)
        self._sessions = position.sessions

    def take(self, entry: LoggedCommand) -> CommandResult:
        """The next one. Raises UnknownVersion."""
        assert entry.place == self.applied + 1, f"entry {entry.place} for a catalog that stands on {self.applied}"
        self.applied = entry.place
        if entry.command is None:
            return CommandResult()
        return _result(carry_out(self._catalog, self._sessions, *decode_entry(entry.command)))


def _result(outcome: CommandOutcome) -> CommandResult:
    if outcome.error is not None:
        return CommandResult(REFUSED, outcome.error.text)
    return CommandResult(EntryFate(outcome.verdict).value)


def catalog_starts(snapshots: Iterable[SnapshotFile]) -> dict[int, CatalogStart]:
    """By index of the last entry that they stand on. What cannot be read, or was deleted meanwhile, is none."""
    found: dict[int, CatalogStart] = {}
    for one in snapshots:
        if one.group == METADATA_GROUP:
            try:
                meta, state = read_state(OsDisk(one.directory, read_only=True), one.name, one.group)
            except (StorageError, FileNotFoundError):
                continue
            found[meta.index] = CatalogStart(meta.term, state)
    return found


def results(entries: Iterable[LoggedCommand], starts: Mapping[int, CatalogStart]) -> dict[int, CommandResult]:
    """By place, of those that are known. `entries`: committed ones, in their order."""
    found: dict[int, CommandResult] = {}
    catalog: FoldedCatalog | None = None
    before: LoggedCommand | None = None
    for entry in entries:
        if catalog is None or catalog.applied != entry.place - 1:
            catalog = _catalog_before(entry, before, starts)
        if catalog is not None:
            try:
                found[entry.place] = catalog.take(entry)
            except UnknownVersion:
                catalog = None
        before = entry
    return found


def _catalog_before(
    entry: LoggedCommand, before: LoggedCommand | None, starts: Mapping[int, CatalogStart]
) -> FoldedCatalog | None:
    """As the entry meets it. `before`: the last entry that was read."""
    place = entry.place - 1
    catalog = FoldedCatalog(place)
    if place == 0:
        return catalog
    start = starts.get(place)
    if (
        start is None
        or start.term > entry.term
        or (before is not None and before.place == place and before.term != start.term)
    ):
        return None
    try:
        catalog.stand_on(start.state)
    except ValueError:  # of a later version
        return None
    return catalog
