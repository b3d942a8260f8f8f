"""What an import of definitions would do, found before anything is done.

    read    every entry, in the order in which they can be applied
    try     in a draft of the catalog: what would be refused is a fault, as what cannot be read is
    plan    what is left to be applied, and what became of each entry

Each of the three goes in steps. Where there is a fault, all are told with their places, and nothing is applied.

RabbitMQ exports bindings of exclusive queues and internal exchanges, and not those themselves; queues with reserved names
are in its exports, and not declared here. A binding that lacks one of these is left out with a remark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from broker.catalog.catalog import Catalog
from broker.catalog.catalog_draft import CatalogDraft
from broker.catalog.commands import catalog_commands as commands
from broker.catalog.commands.catalog_commands import Command, encode_command
from broker.catalog.definitions.definition_effects import KEPT, MADE, OVERWRITTEN, SKIPPED, DefinitionEffect, effect_of
from broker.catalog.definitions.definitions_reader import DefinitionsReader, DefinitionWish, Remark
from broker.catalog.definitions.definitions_text import Document, collect
from broker.catalog.mirrored_queues import as_replicated, stays_alone
from broker.catalog.proposed_queue import proposed_queue
from broker.errors import BrokerError, NotFound, PreconditionFailed
from broker.names import is_reserved
from broker.records import ParameterRecord, QueueRecord, UserRecord

FAULTS_SAID = 10
EFFECTS_TOLD = 10_000  # of one document; the rest is counted
PRODUCT = "Leveret"  # `product_name` of what is exported here
IN_CLEAR = "to be hashed"
CLEAR_PASSWORDS_MAX = 1_000  # each takes a core for 25 ms


@dataclass(slots=True)
class ImportReport:
    """What became of a document, or would. Entries that are there already, as they should be, are counted only."""

    counts: Counter[str] = field(default_factory=Counter)  # by effect
    effects: list[DefinitionEffect] = field(default_factory=list)

    @property
    def changes(self) -> int:
        return self.counts[MADE] + self.counts[OVERWRITTEN]

    @property
    def remarks(self) -> list[DefinitionEffect]:
        return [one for one in self.effects if one.effect == SKIPPED]

    def add(self, effect: DefinitionEffect) -> None:
        self.counts[effect.effect] += 1
        if (effect.effect != KEPT or effect.text) and len(self.effects) < EFFECTS_TOLD:
            self.effects.append(effect)


@dataclass(slots=True, frozen=True)
class ImportChecks:
    """What the catalog does not know: each entry is checked by these, too."""

    kind: Callable[[QueueRecord], None]  # raises BrokerError for a queue that this node cannot have
    parameter: Callable[[ParameterRecord], str | None]  # why nothing can come of it
    users: Callable[[Iterable[UserRecord]], None]  # as they would be afterwards; raises PreconditionFailed


class ImportPlan:
    """Of one document; `steps` has to be gone through."""

    def __init__(
        self,
        catalog: Catalog,
        reader: DefinitionsReader,
        checks: ImportChecks,
        raw: bytes,
        vhost: str | None,
    ) -> None:
        self._catalog = catalog
        self._reader = reader
        self._checks = checks
        self._raw = raw
        self._vhost = vhost
        self._is_rabbitmqs = False
        self._faults: list[str] = []
        self.wanted: list[DefinitionWish] = []
        self.report = ImportReport()

    def steps(self) -> Iterator[None]:
        """Raises PreconditionFailed with what is wrong."""
        document: Document = {}
        yield from collect(self._raw, document)
        self._is_rabbitmqs = "rabbit_version" in document and document.get("product_name") != PRODUCT
        yield from self._read(document)
        document.clear()  # the garbage collector would walk over it once more
        draft = CatalogDraft(self._catalog)
        yield from draft.take([one.command for one in self.wanted])
        yield from self._try_in(draft)
        self._check_users(draft)
        self._raise_faults()

    def _read(self, document: Document) -> Iterator[None]:
        for found in self._reader.read(document, self._vhost):
            if isinstance(found, DefinitionWish):
                self.wanted.append(found)
            else:
                self._note(found)
            yield
        passwords = sum(one.password is not None for one in self.wanted)
        if passwords > CLEAR_PASSWORDS_MAX:
            self._faults.append(
                f"{passwords} passwords are given in clear, and at most {CLEAR_PASSWORDS_MAX} are hashed"
            )

    def _note(self, remark: Remark) -> None:
        if remark.is_fault:
            self._faults.append(remark.text)
        else:
            self.report.add(DefinitionEffect(remark.where, "", SKIPPED, remark.text))

    def _try_in(self, draft: CatalogDraft) -> Iterator[None]:
        """Leaves what changes something."""
        wanted, self.wanted = self.wanted, []
        for one in wanted:
            try:
                meant = self._as_meant(draft, one)
                effect = self._tried(draft, meant)
            except BrokerError as error:
                if isinstance(error, NotFound) and (missing := self._undeclared_end(draft, one.command)):
                    self._note(Remark(one.where, f"{missing} is not declared: a binding of it is left out"))
                else:
                    self._faults.append(f"{one.where}: {error.text}")
            else:
                self.report.add(effect)
                if effect.effect != KEPT or one.password is not None:
                    self.wanted.append(meant)
            yield

    def _undeclared_end(self, draft: Catalog, command: Command) -> str | None:
        """Of a binding that can be left out: what is not there, as exports lack it."""
        if isinstance(command, commands.Bind) and command.record.vhost in draft.vhosts:
            record = command.record
            for kind, name in (("exchange", record.source), (record.destination_kind, record.destination)):
                is_there = draft.exchange if kind == "exchange" else draft.queue
                if is_there(record.vhost, name) is None:
                    return f"{kind} '{name}'" if self._is_rabbitmqs or is_reserved(name) else None
        return None

    def _check_users(self, draft: Catalog) -> None:
        """Passwords in clear are hashed later."""
        users = dict(draft.users)
        for one in self.wanted:
            if isinstance(one.command, commands.PutUser):
                record = one.command.record
                users[record.name] = record if one.password is None else replace(record, password_hash=IN_CLEAR)
        try:
            self._checks.users(users.values())
        except PreconditionFailed as error:
            self._faults.append(f"users: {error.text}")

    def _as_meant(self, draft: CatalogDraft, one: DefinitionWish) -> DefinitionWish:
        """A queue that is to be mirrored is declared as one that is replicated, or what stands in the way is told."""
        command = one.command
        if not isinstance(command, commands.DeclareQueue):
            return one
        draft.namespace(command.vhost)
        meant = as_replicated(draft, command)
        if meant is command and (notice := stays_alone(draft, command)):
            self.report.add(DefinitionEffect(one.where, "", SKIPPED, f"queue '{command.name}': {notice}"))
        return replace(one, command=meant)

    def _tried(self, draft: CatalogDraft, one: DefinitionWish) -> DefinitionEffect:
        command = one.command
        encode_command(command)
        if isinstance(command, commands.DeclareQueue):
            self._checks.kind(proposed_queue(command, draft.vhosts))
        effect = effect_of(draft, one.where, command)
        if isinstance(command, commands.SetParameter) and (why := self._checks.parameter(command.record)):
            self._note(Remark(one.where, f"{effect.what} is kept, and nothing comes of it: {why}"))
        if effect.effect != KEPT:
            draft.apply(command)
        elif one.password is not None:
            return replace(effect, text="whether the password is another one is found when this is imported")
        return effect

    def _raise_faults(self) -> None:
        if self._faults:
            more = len(self._faults) - FAULTS_SAID
            said = self._faults[:FAULTS_SAID] + ([f"and {more} more"] if more > 0 else [])
            raise PreconditionFailed("; ".join(said))
