"""Of all files that were read one trail of commands: which copy of an entry counts, and who gave it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import NamedTuple

from analytics.audit.command_look import FileCommands, LoggedCommand
from analytics.audit.command_results import CatalogStart, CommandResult, results
from analytics.file_window import owners
from broker.operations.entry_words import EntryWords, object_of, words_of
from storage.history.name_records import ActorRow


class AuditRow(NamedTuple):
    """One command. None: the logs that were read do not say it."""

    entry: int
    what: str
    committed: bool | None
    at: str | None = None  # ISO, UTC, by the clock of the node that took it
    node: str | None = None  # that took it from its client: as its directory is called, else by its number
    user: str | None = None  # None also for what the node itself wants
    address: str | None = None
    connection: str | None = None  # as its client calls it
    product: str | None = None
    command: str | None = None
    object: str | None = None
    result: str | None = None
    reason: str | None = None


AUDIT_COLUMNS = [
    ("entry", "bigint"), ("at", "string"), ("node", "string"), ("user", "string"), ("address", "string"),
    ("connection", "string"), ("product", "string"), ("command", "string"), ("object", "string"), ("what", "string"),
    ("committed", "boolean"), ("result", "string"), ("reason", "string"),
]  # fmt: skip
IsWanted = Callable[[AuditRow], bool]
NO_STARTS: Mapping[int, CatalogStart] = {}
NOT_KNOWN = CommandResult()


class AuditTrail(NamedTuple):
    """The commands in their order, and which entries between the first and the last nobody has."""

    rows: list[AuditRow]
    missing: list[tuple[int, int]]  # first and last


def trail(
    seen: Sequence[FileCommands],
    is_wanted: IsWanted = lambda row: True,
    starts: Mapping[int, CatalogStart] = NO_STARTS,
) -> AuditTrail:
    kept = _that_count(entry for one in seen for entry in one.entries)
    committed = max((one.committed for one in seen), default=0)
    who, known = _WhoIsWho(seen), results((one for one in kept if one.place <= committed), starts)
    told = (
        _row(one, words_of(one.command), who, committed)._replace(**known.get(one.place, NOT_KNOWN)._asdict())
        for one in kept
        if one.command is not None
    )
    return AuditTrail([row for row in told if is_wanted(row)], _gaps([one.place for one in kept]))


def _that_count(entries: Iterable[LoggedCommand]) -> list[LoggedCommand]:
    """By index. A later term's first entry replaces whatever an earlier term has from there on."""
    by_term: dict[int, dict[int, LoggedCommand]] = {}
    for one in entries:
        by_term.setdefault(one.term, {})[one.place] = one
    kept: list[LoggedCommand] = []
    below = None  # where the later terms begin
    for term in sorted(by_term, reverse=True):
        own = by_term[term]
        kept += [one for index, one in own.items() if below is None or index < below]
        below = min(own) if below is None else min(below, *own)
    return sorted(kept)


def _gaps(indexes: Sequence[int]) -> list[tuple[int, int]]:
    return [(before + 1, after - 1) for before, after in pairwise(indexes) if after > before + 1]


class _WhoIsWho:
    """Whom a node's log calls what."""

    def __init__(self, seen: Sequence[FileCommands]) -> None:
        self._names = {one.node: one.file.node for one in seen if one.node is not None}
        self._actors: dict[tuple[str, int], dict[int, ActorRow]] = {}  # by node and incarnation
        for one in seen:
            for (incarnation, number), row in one.actors.items():
                self._actors.setdefault((one.file.node, incarnation), {})[number] = row

    def node(self, number: int) -> str:
        return self._names.get(number, f"node {number}")

    def connection(self, node: int, incarnation: int, actor: int) -> ActorRow | None:
        """The one that an actor is, or belongs to. None: the logs that were read do not name it."""
        actors = self._actors.get((self._names.get(node, ""), incarnation), {})
        return next((row for row in owners(actors, actor) if row.user), None)


def _row(entry: LoggedCommand, words: EntryWords, who: _WhoIsWho, committed: int) -> AuditRow:
    row = AuditRow(entry.place, words.what, True if entry.place <= committed else None)
    origin, said = words.origin, words.said
    if origin is None:
        return row
    row = row._replace(
        node=who.node(origin.node), command=type(words.command).__name__, object=object_of(words.command)
    )
    if said is None:
        return row
    at = datetime.fromtimestamp(said.time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    client = who.connection(origin.node, origin.incarnation, said.actor)
    if client is None:
        return row._replace(at=at)
    return row._replace(
        at=at, user=client.user, address=client.address, connection=client.connection_name, product=client.product
    )
