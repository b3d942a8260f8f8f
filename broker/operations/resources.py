"""Exchanges, queues and bindings: to look at, and to delete for who has no session. Clients declare them (topology.py)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from broker import names
from broker.actors import submitter
from broker.catalog import permissions
from broker.catalog.catalog import check_exclusive_access
from broker.catalog.commands import catalog_commands as commands
from broker.catalog.mirrored_queues import MirroringTold, told_of
from broker.catalog.permissions import ResourceKind
from broker.catalog.policy import EffectiveArguments
from broker.client_connection import Connection
from broker.errors import NotFound
from broker.operations.operator import MANAGEMENT, Operator
from broker.pending import Pending
from broker.queues.queue_deletion import delete_queue
from broker.queues.queue_type import QueueStatistics
from broker.records import BindingRecord, ExchangeRecord, QueueRecord

if TYPE_CHECKING:
    from broker.broker import Broker


@dataclass(slots=True, frozen=True)
class QueueView:
    """A queue as it is declared, and how it is."""

    record: QueueRecord
    policy: str | None
    operator_policy: str | None
    figures: QueueStatistics | None  # None: it is being opened or deleted
    effective: EffectiveArguments = field(default_factory=EffectiveArguments)
    mirroring: MirroringTold | None = None  # what became of the wish to have it mirrored
    others: tuple[str, ...] = ()  # nodes that have it, too, if it is mirrored
    owner: Connection | None = None  # of an exclusive queue, where it is of this node


class Resources:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._catalog = broker.catalog
        # Has queues show how they are of which this node has no part, and returns the nodes that were asked in vain.
        # None: all.
        self.look_elsewhere: Callable[[Iterable[QueueRecord] | None], Awaitable[Sequence[str]]] | None = None

    @property
    def version(self) -> int:
        """Of what is declared: it grows with every change."""
        return self._catalog.version

    # lists: of one vhost, or of all that they may see

    def exchanges(self, who: Operator, vhost: str | None) -> Iterator[ExchangeRecord]:
        return iter([record for name in self._vhosts(who, vhost) for record in self._catalog.exchanges(name)])

    def default_exchanges(self, who: Operator, vhost: str | None) -> Iterator[ExchangeRecord]:
        """What each vhost has by itself, and nobody declares."""
        return map(default_exchange, self._vhosts(who, vhost))

    def exchange(self, who: Operator, vhost: str, name: str) -> ExchangeRecord:
        """Raises NotFound."""
        self._vhosts(who, vhost)
        record = self._catalog.exchange(vhost, name) if name else default_exchange(vhost)
        if record is None:
            raise names.not_found("exchange", name, vhost)
        return record

    def exchanges_seen(self, who: Operator, names: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
        """Of these, by vhost and name, those in vhosts that they may see."""
        who.require_tag(MANAGEMENT)
        return ((vhost, name) for vhost, name in names if who.may_see(self._catalog, vhost))

    def default_bindings(self, who: Operator, vhost: str | None) -> Iterator[BindingRecord]:
        """What the default exchange has by itself: each queue, by its name."""
        return (default_binding(record.vhost, record.name) for record in self.queue_records(who, vhost))

    def policy_of_exchange(self, record: ExchangeRecord) -> str | None:
        policy = self._catalog.policy_of_exchange(record)
        return policy.name if policy is not None else None

    def bindings(
        self,
        who: Operator,
        vhost: str | None,
        *,
        source: str | None = None,
        queue: str | None = None,
        exchange: str | None = None,
    ) -> Iterator[BindingRecord]:
        """Perhaps only those from one exchange, or to one queue or exchange."""
        vhosts = self._vhosts(who, vhost)
        to = ("queue", queue) if queue is not None else ("exchange", exchange) if exchange is not None else None
        return iter([record for name in vhosts for record in self._bindings(name, source, to)])

    def _bindings(self, vhost: str, source: str | None, to: tuple[str, str] | None) -> list[BindingRecord]:
        if to is not None:
            found = self._catalog.bindings_of_destination(vhost, *to)
        elif source is not None:
            found = self._catalog.bindings_of_source(vhost, source)
        else:
            found = self._catalog.bindings(vhost)
        return [record for record in found if source in (None, record.source)]

    def queue_records(self, who: Operator, vhost: str | None) -> Iterator[QueueRecord]:
        """Those that there are now, also where they are gone through in slices. Without what classic queues are being converted
        to: copies, which would count twice."""
        found = [list(self._catalog.queues(name)) for name in self._vhosts(who, vhost)]
        return (record for records in found for record in records if not names.is_becoming(record.name))

    def queues(self, who: Operator, vhost: str | None) -> Iterator[QueueView]:
        """Without those that are deleted while others are looked at."""
        records = self.queue_records(who, vhost)
        return (self.view(record) for record in records if self._catalog.queue_of_id(record.id) is not None)

    def views(self, who: Operator, names: Iterable[tuple[str, str]]) -> Iterator[QueueView]:
        """Of these, by vhost and name, those that there are and that they may see."""
        who.require_tag(MANAGEMENT)
        for vhost, name in names:
            record = self._catalog.queue(vhost, name) if who.may_see(self._catalog, vhost) else None
            if record is not None:
                yield self.view(record)

    def count_exchanges(self, who: Operator) -> int:
        return sum(map(self._catalog.count_exchanges, self._vhosts(who, None)))

    def count_queues(self, who: Operator) -> int:
        return sum(map(self._catalog.count_queues, self._vhosts(who, None)))

    def is_declared(self, record: QueueRecord) -> bool:
        """Still, and no other queue of that name."""
        return self._catalog.queue_of_id(record.id) is not None

    def record(self, vhost: str, name: str) -> QueueRecord:
        """Raises NotFound."""
        record = self._catalog.queue(vhost, name)
        if record is None:
            raise names.not_found("queue", name, vhost)
        return record

    def _vhosts(self, who: Operator, vhost: str | None) -> list[str]:
        who.require_tag(MANAGEMENT)
        return who.vhosts(self._catalog, vhost)

    # one

    def exchange_exists(self, who: Operator, vhost: str, name: str) -> bool:
        self._vhosts(who, vhost)
        return self._catalog.exchange(vhost, name) is not None

    def queue_exists(self, who: Operator, vhost: str, name: str) -> bool:
        """Also one that is being opened."""
        self._vhosts(who, vhost)
        return self._catalog.queue(vhost, name) is not None

    def queue(self, who: Operator, vhost: str, name: str) -> QueueView:
        """Raises NotFound also for one that is being opened: its figures are what is asked for."""
        self._vhosts(who, vhost)
        queue = self._broker.queue(vhost, name)
        return self.view(queue.record, queue.statistics())

    def view(self, record: QueueRecord, figures: QueueStatistics | None = None) -> QueueView:
        effective = self._catalog.effective(record)
        figures = figures or self._figures(record.vhost, record.name)
        mirroring = told_of(self._catalog, record, effective)
        others = self._others(figures) if mirroring is not None and figures is not None else ()
        owner = self._broker.owner(record) if record.exclusive else None
        return QueueView(
            record, effective.policy, effective.operator_policy, figures, effective, mirroring, others, owner
        )

    def _others(self, figures: QueueStatistics) -> tuple[str, ...]:
        """Names of the nodes with a member that does not lead."""
        leader, members = figures.details.get("leader"), figures.details.get("members", ())
        return tuple(
            node.name for node in self._catalog.nodes.values() if node.number in members and node.number != leader
        )

    def _figures(self, vhost: str, name: str) -> QueueStatistics | None:
        try:
            return self._broker.queue(vhost, name).statistics()
        except NotFound:
            return None

    # deleting

    def delete_exchange(self, who: Operator, vhost: str, name: str, *, if_unused: bool) -> Pending[Any]:
        self._vhosts(who, vhost)
        names.check_deletable_exchange(name, vhost)
        self._check_may_configure(who, "exchange", vhost, name)
        if self._catalog.exchange(vhost, name) is None:
            raise names.not_found("exchange", name, vhost)
        return self._broker.metadata.submit(commands.DeleteExchange(vhost, name, if_unused))

    def delete_queue(
        self, who: Operator, vhost: str, name: str, *, if_unused: bool, if_empty: bool, now: int
    ) -> Pending[int]:
        """As an AMQP connection of theirs would: an exclusive queue is another connection's."""
        self._vhosts(who, vhost)
        self._check_may_configure(who, "queue", vhost, name)
        names.check_for_clients(name)
        queue = self._broker.queue(vhost, name)
        check_exclusive_access(queue.record, None)
        return delete_queue(self._broker, queue, if_unused=if_unused, if_empty=if_empty, now=now, by=submitter())

    def _check_may_configure(self, who: Operator, kind: ResourceKind, vhost: str, name: str) -> None:
        permissions.check(self._catalog, who, vhost, "configure", kind, name)


def default_exchange(vhost: str) -> ExchangeRecord:
    return ExchangeRecord(vhost, names.DEFAULT_EXCHANGE, "direct")


def default_binding(vhost: str, queue: str) -> BindingRecord:
    return BindingRecord(vhost, names.DEFAULT_EXCHANGE, queue, "queue", queue)
