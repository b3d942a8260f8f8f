"""What the machines of a broker are compared with: queues with their ledgers, catalogs with the catalog that the log gives."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from broker.catalog.carrying_out import CommandOutcome, EntryFate
from broker.catalog.catalog import Catalog
from broker.catalog.catalog_state import Position, decode_state, encode_head
from broker.catalog.commands.catalog_commands import encode_record
from broker.records import BindingRecord
from node.catalog.catalog_store import key_of
from node.catalog.metadata_machine import CatalogMachine, CatalogWatcher
from node.foundation import Parts
from quorum.fifo.effects import Effect
from quorum.fifo.results import Result
from quorum.member import QueueMember
from raft.core.live_entries import LiveEntries
from raft.core.messages import Entry
from raft.machine import Machine
from storage.disk import Buffer
from stream.group.member import StreamMember
from tests.raft_node.register import ReadEntry
from tests.sim.brokers import invariants
from tests.sim.brokers.invariants import About
from tests.sim.brokers.ledger import Ledger, UnboundedMachine
from tests.sim.brokers.stream_book import StreamBook, digest_of, figures_of
from tests.unit.quorum.dumb_queue import events

if TYPE_CHECKING:
    from tests.sim.brokers.process import BrokerProcess


def watched_machine(process: BrokerProcess, group: int, machine: Machine) -> Machine:
    if isinstance(machine, QueueMember):
        ledger = process.site.world.watch.book(group).reference
        assert isinstance(ledger, Ledger), f"group {group} is compared with {ledger}"
        machine.machine = ComparedMachine(ledger)
        return WatchedMember(process, group, machine)
    if isinstance(machine, StreamMember):
        book = process.site.world.watch.book(group).reference
        assert isinstance(book, StreamBook), f"group {group} is compared with {book}"
        return WatchedStream(process, group, machine, book)
    assert isinstance(machine, CatalogMachine), f"group {group} has {machine}"
    return WatchedCatalog(process, group, machine)


class ComparedMachine(UnboundedMachine):
    """Compares what each entry results in with what the twin says."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self._ledger = ledger

    def apply(self, entries: Sequence[Entry]) -> Sequence[list[Result]]:
        results = super().apply(entries)
        for entry, result in zip(entries, results, strict=True):
            invariants.results_are_the_twins(self._ledger.about, entry.index, result, self._ledger.results[entry.index])
        return results

    def take_effects(self) -> list[Effect]:
        effects = super().take_effects()
        ledger, index = self._ledger, self.state.applied
        invariants.effects_are_the_twins(ledger.about, index, events(effects), ledger.events[index])
        figures = self.figures()
        found = (figures.ready, figures.unacknowledged, figures.delayed, figures.dead, self._active())
        invariants.figures_are_the_twins(ledger.about, index, found, ledger.figures[index])
        return effects

    def _active(self) -> Any:
        active = self.state.consumers.active
        return active.key if active is not None and self.state.rules.single_active else None


class Watched:
    """A machine whose member is looked at before it applies something, so that everybody knows what is committed."""

    def __init__(self, process: BrokerProcess, group: int, inner: Any) -> None:
        self.inner = inner
        self._process = process
        self._group = group

    @property
    def version(self) -> int:
        return int(self.inner.version)

    @version.setter
    def version(self, version: int) -> None:
        self.inner.version = version

    def snapshot(self) -> Sequence[Buffer]:
        state: Sequence[Buffer] = self.inner.snapshot()
        return state

    def restore(self, state: bytes, version: int) -> None:
        self.inner.restore(state, version)

    @property
    def held_bytes(self) -> int:
        held: int = self.inner.held_bytes
        return held

    def live_entries(self) -> LiveEntries | None:
        live: LiveEntries | None = self.inner.live_entries()
        return live


class WatchedMember(Watched):
    """Of a queue."""

    def apply(self, entries: Sequence[Entry]) -> Sequence[Any]:
        watch = self._process.site.world.watch
        watch.look_at(self._process, self._group)
        results: Sequence[Any] = self.inner.apply(entries)
        watch.applied(self._process, self._group, entries, self.inner.machine.state_digest())
        return results


class WatchedStream(Watched):
    """Of a stream."""

    inner: StreamMember

    def __init__(self, process: BrokerProcess, group: int, inner: StreamMember, book: StreamBook) -> None:
        super().__init__(process, group, inner)
        self._book = book

    def apply(self, entries: Sequence[Entry]) -> Sequence[Any]:
        watch, book, machine = self._process.site.world.watch, self._book, self.inner.machine
        watch.look_at(self._process, self._group)
        before = machine.state.first_offset
        results = self.inner.apply(entries)
        for entry, result in zip(entries, results, strict=True):
            invariants.results_are_the_twins(book.about, entry.index, result, [book.results[entry.index]])
        state, index = machine.state, entries[-1].index
        invariants.first_offset_never_falls(book.about, self._process.number, before, state.first_offset)
        last_ids = {name: position.last_id for name, position in state.publishers.items()}
        stored = {name: one.offset for name, one in state.stored.items()}
        found = figures_of(state.first_offset, state.next_offset, state.segments, last_ids, stored)
        invariants.figures_are_the_twins(book.about, index, found, book.figures[index])
        watch.applied(self._process, self._group, entries, digest_of(machine))
        return results

    def live_entries(self) -> LiveEntries | None:
        live, state = self.inner.live_entries(), self.inner.machine.state
        here = [one for one in self._book.chunks if one.index <= state.applied and one.end > state.first_offset]
        missing = [one.index for one in here if one.index not in live]
        invariants.messages_of_a_stream_are_kept(self._book.about, self._process.number, missing)
        return live


class WatchedCatalog(Watched):
    """Of the metadata group."""

    def apply(self, entries: Sequence[Entry]) -> Sequence[Any]:
        watch = self._process.site.world.watch
        watch.look_at(self._process, self._group)
        results: Sequence[Any] = self.inner.apply(entries)
        if self.inner.position.applied == entries[-1].index:  # else it stands on later ones, from its store
            watch.applied(self._process, self._group, entries, catalog_digest(self.inner.catalog, self.inner.position))
        return results


def loose_bindings(catalog: Catalog) -> list[str]:
    """Those that lead from or to what is not declared."""
    bindings = [one for one in catalog.records() if isinstance(one, BindingRecord)]
    return [
        f"{one.source} -> {one.destination}"
        for one in bindings
        if catalog.exchange(one.vhost, one.source) is None
        or (one.destination_kind == "queue" and catalog.queue(one.vhost, one.destination) is None)
    ]


def catalog_digest(catalog: Catalog, position: Position) -> str:
    """The order of records is nobody's business."""
    return _digest(encode_head(_in_order(position), catalog.head), catalog.records())


def _in_order(position: Position) -> Position:
    return Position(0, dict(sorted(position.sessions.items())))


def _digest(head: bytes, records: Iterable[Any]) -> str:
    rows = sorted([key_of(record) + encode_record(record) for record in records])
    return hashlib.blake2b(b"".join([head, *rows]), digest_size=16).hexdigest()


class CatalogReference(CatalogWatcher):
    """What the log of the metadata group gives. Fulfils tests.sim.references.Reference. It is told `outcomes`, too."""

    def __init__(self, about: About, followers: Sequence[Any] = ()) -> None:
        self._about = about
        self._newest: dict[tuple[int, int], int] = {}  # by process: the number of its last command that was carried out
        self.machine = CatalogMachine(Parts().catalog(), Position(), self)
        self.outcomes: dict[
            tuple[int, int, int], tuple[int, CommandOutcome]
        ] = {}  # by who submitted it: entry, and what became of it
        self._followers = followers

    def applied(self, outcomes: Sequence[CommandOutcome]) -> None:
        for outcome in outcomes:
            origin = outcome.origin
            if outcome.verdict is EntryFate.DONE:
                self._look(outcome)
                self.outcomes[origin.node, origin.incarnation, origin.number] = (self.machine.position.applied, outcome)
                for follow in self._followers:
                    follow(outcome)

    def _look(self, outcome: CommandOutcome) -> None:
        node, incarnation, number, _ = outcome.origin
        what = f"{type(outcome.command).__name__} of node {node}"
        is_known = (node, incarnation, number) in self.outcomes
        invariants.commands_are_carried_out_once(self._about, what, is_known)
        invariants.commands_keep_their_order(self._about, what, self._newest.get((node, incarnation), 0), number)
        self._newest[node, incarnation] = number

    def apply(self, entry: Entry) -> str | None:
        self.machine.apply([entry])
        invariants.bindings_have_both_ends(self._about, loose_bindings(self.machine.catalog))
        return self.digest()

    def digest(self) -> str | None:
        return catalog_digest(self.machine.catalog, self.machine.position)

    def stands_on(self, index: int, state: Sequence[Buffer]) -> int:
        return max(index, decode_state(b"".join(map(bytes, state)))[0].applied)

    def of_snapshot(self, version: int, state: Sequence[Buffer]) -> str:
        position, head, records = decode_state(b"".join(map(bytes, state)))
        return _digest(encode_head(_in_order(position), head), records)

    def replayed(self, snapshot: tuple[bytes, int] | None, entries: Sequence[Entry], read_entry: ReadEntry) -> str:
        machine = CatalogMachine(Parts().catalog(), Position())
        if snapshot is not None:
            machine.restore(*snapshot)
        machine.apply(entries)
        return catalog_digest(machine.catalog, machine.position)
