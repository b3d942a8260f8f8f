"""Of all files that were read one trail of commands: which copy of an entry counts, and who gave it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import NamedTuple

from analytics.audit.command_look import FileCommands, LoggedCommand
from analytics.audit.command_results import CatalogStart, CommandResult, results
from analytics.file_window import OWNERS_MAX, owners
from analytics.named_actors import connection_of
from broker.catalog.commands.metadata_entry import Origin
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
    unknown: str | None = None  # why it is not known who that was; None: it is, or it was nobody's client


AUDIT_COLUMNS = [
    ("entry", "bigint"), ("at", "string"), ("node", "string"), ("user", "string"), ("address", "string"),
    ("connection", "string"), ("product", "string"), ("command", "string"), ("object", "string"), ("what", "string"),
    ("committed", "boolean"), ("result", "string"), ("reason", "string"), ("unknown", "string"),
]  # fmt: skip
IsWanted = Callable[[AuditRow], bool]
NO_STARTS: Mapping[int, CatalogStart] = {}
NOT_KNOWN = CommandResult()


class AuditTrail(NamedTuple):
    """The commands in their order, and which entries behind the first that was read nobody has."""

    rows: list[AuditRow]
    missing: list[tuple[int, int]]  # first and last
    before: int = 0  # so many entries are before the first that was read
    since: str | None = None  # ISO, UTC: when the first was given that says so

    def begins_before(self, time: str | None) -> bool:
        """Whether all that was given since then was read; None: since ever."""
        is_early = time is not None and self.since is not None and self.since < time
        return not self.before or is_early


def trail(
    seen: Sequence[FileCommands],
    is_wanted: IsWanted = lambda row: True,
    starts: Mapping[int, CatalogStart] = NO_STARTS,
) -> AuditTrail:
    kept = _that_count(entry for one in seen for entry in one.entries)
    committed = max((one.committed for one in seen), default=0)
    who, known = _WhoIsWho(seen), results((one for one in kept if one.place <= committed), starts)
    rows = [
        _row(one, words_of(one.command), who, committed)._replace(**known.get(one.place, NOT_KNOWN)._asdict())
        for one in kept
        if one.command is not None
    ]
    places = [one.place for one in kept]
    before = min(places, default=committed + 1) - 1
    since = next((row.at for row in rows if row.at is not None), None)
    return AuditTrail([row for row in rows if is_wanted(row)], _gaps(places, committed), before, since)


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


def _gaps(indexes: Sequence[int], committed: int) -> list[tuple[int, int]]:
    """Also at the end, where a node says that there are more."""
    end = [committed + 1] if indexes and committed > indexes[-1] else []
    return [(before + 1, after - 1) for before, after in pairwise([*indexes, *end]) if after > before + 1]


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

    def owners(self, node: int, incarnation: int, actor: int) -> list[ActorRow]:
        """An actor, and to whom it belongs, as far as the logs that were read name them."""
        return owners(self._actors.get((self._names.get(node, ""), incarnation), {}), actor)


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
    row = row._replace(at=datetime.fromtimestamp(said.time_ms / 1000, UTC).isoformat(timespec="milliseconds"))
    found = who.owners(origin.node, origin.incarnation, said.actor)
    client = connection_of(found)
    if client is None:
        return row._replace(unknown=_unnamed(said.actor, origin, found))
    return row._replace(
        user=client.user, address=client.address, connection=client.connection_name, product=client.product
    )


def _unnamed(actor: int, origin: Origin, found: Sequence[ActorRow]) -> str | None:
    """None: all are named, and none of them is a client."""
    if found:
        actor = found[-1].parent if len(found) < OWNERS_MAX else 0
    if not actor:
        return None
    return f"no file that was read names actor {actor} of process {origin.incarnation}"
