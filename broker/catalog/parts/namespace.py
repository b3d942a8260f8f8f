"""What one vhost holds: its exchanges, queues and bindings, each found from every side that asks.

A binding is known to its source (to route), to its destination (to go with it) and by itself (to be declared once). All
work is in proportion to what is touched: deleting a queue costs its own bindings, however many there are in the vhost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from broker.catalog.arguments import encoded_arguments
from broker.exchanges.bindings import Bindings, Destination, destination_of
from broker.exchanges.delayed_exchange import DELAYED_KIND
from broker.exchanges.delaying_queue import delays
from broker.exchanges.exchange import KINDS
from broker.names import delayed_exchange, delayed_queue
from broker.records import BindingRecord, ExchangeRecord, QueueRecord

# Called with each record that came (True) or went (False).
OnChange = Callable[["ExchangeRecord | QueueRecord | BindingRecord", bool], None]
# What makes a binding itself; two with the same are one.
BindingIdentity = tuple[str, str, str, str, bytes]


def identity_of(binding: BindingRecord) -> BindingIdentity:
    # Sorted, for a table's fields have no order.
    arguments = encoded_arguments(dict(sorted(binding.arguments.items()))) if binding.arguments else b""
    return binding.source, binding.destination_kind, binding.destination, binding.routing_key, arguments


class Exchange:
    """An exchange with the bindings that lead away from it."""

    __slots__ = ("alternate", "alternate_known", "bindings", "outgoing", "record")

    def __init__(self, record: ExchangeRecord) -> None:
        self.record = record
        self.bindings: Bindings = KINDS[record.kind](record.arguments)
        self.outgoing: dict[BindingIdentity, BindingRecord] = {}
        self.alternate: str | None = (
            None  # where unroutable messages go, once `alternate_known`; policies may change it
        )
        self.alternate_known = False


class Namespace:
    """One vhost's contents. What it is told to add has been checked; here nothing is refused."""

    def __init__(self, on_change: OnChange) -> None:
        self.exchanges: dict[str, Exchange] = {}
        self.queues: dict[str, QueueRecord] = {}
        self.delaying: set[str] = set()  # names of queues that delay messages by their headers
        self.bindings: dict[BindingIdentity, BindingRecord] = {}
        self._incoming: dict[Destination, dict[BindingIdentity, BindingRecord]] = {}
        self._on_change = on_change

    def incoming(self, destination: Destination) -> Iterable[BindingRecord]:
        return self._incoming.get(destination, {}).values()

    def has_destination(self, destination: Destination) -> bool:
        kind, name = destination
        return name in (self.queues if kind == "queue" else self.exchanges)

    def needs(self, holding: str) -> bool:
        """Whether an exchange or queue that is here has its delayed messages wait in the queue of this name."""
        exchange = self.exchanges.get(delayed_exchange(holding) or "")
        return delayed_queue(holding) in self.delaying or (
            exchange is not None and exchange.record.kind == DELAYED_KIND
        )

    def add_exchange(self, record: ExchangeRecord) -> None:
        assert record.name not in self.exchanges, f"exchange {record.name!r} is there already"
        self.exchanges[record.name] = Exchange(record)
        self._on_change(record, True)

    def add_queue(self, record: QueueRecord) -> None:
        assert record.name not in self.queues, f"queue {record.name!r} is there already"
        self._put_queue(record)

    def replace_queue(self, record: QueueRecord) -> None:
        """Another queue takes the place of the one of its name, whose bindings lead to it from now on."""
        self._on_change(self.queues[record.name], False)
        self._put_queue(record)

    def add_binding(self, record: BindingRecord) -> bool:
        """False when there is one like it."""
        identity = identity_of(record)
        if identity in self.bindings:
            return False
        exchange = self.exchanges[record.source]
        exchange.bindings.add(record)
        exchange.outgoing[identity] = record
        self.bindings[identity] = record
        self._incoming.setdefault(destination_of(record), {})[identity] = record
        self._on_change(record, True)
        return True

    def remove_binding(self, record: BindingRecord) -> bool:
        """False when there is none like it. The source goes too if that was its last and it is auto-delete."""
        identity = identity_of(record)
        if identity not in self.bindings:
            return False
        self._remove([identity])
        return True

    def remove_queue(self, name: str) -> QueueRecord:
        record = self.queues[name]
        self._remove(self._incoming.get(("queue", name), ()))
        del self.queues[name]
        self.delaying.discard(name)
        self._on_change(record, False)
        return record

    def remove_exchange(self, name: str) -> ExchangeRecord:
        exchange = self.exchanges[name]
        for identity in exchange.outgoing:
            self._forget(identity)
        exchange.outgoing.clear()  # and its routes go as a whole
        self._remove(self._incoming.get(("exchange", name), ()))
        self._drop_exchange(exchange)
        return exchange.record

    def dissolve(self) -> list[QueueRecord]:
        """The vhost goes, and everything with it; returns its queues. What bindings connect goes after them."""
        queues = list(self.queues.values())
        exchanges = [one.record for one in self.exchanges.values()]
        gone: list[ExchangeRecord | QueueRecord | BindingRecord] = [*self.bindings.values(), *queues, *exchanges]
        self.exchanges, self.queues, self.bindings, self._incoming = {}, {}, {}, {}
        self.delaying.clear()
        for record in gone:
            self._on_change(record, False)
        return queues

    def _put_queue(self, record: QueueRecord) -> None:
        self.queues[record.name] = record
        if delays(record):
            self.delaying.add(record.name)
        self._on_change(record, True)

    def _remove(self, identities: Iterable[BindingIdentity]) -> None:
        """Removes bindings, and auto-delete exchanges that lose their last one by it, and what leads to those. Chains of
        exchanges may be long, so they are a list of work and not a recursion. What a binding connects goes after it."""
        work = deque(identities)
        unused: list[Exchange] = []
        while work:
            source = self._detach(work.popleft())
            if source.record.auto_delete and not source.outgoing:
                unused.append(source)
                work.extend(self._incoming.get(("exchange", source.record.name), ()))
        for exchange in unused:
            self._drop_exchange(exchange)

    def _detach(self, identity: BindingIdentity) -> Exchange:
        """Takes the binding out of every index; returns its source."""
        record = self._forget(identity)
        source = self.exchanges[record.source]
        del source.outgoing[identity]
        source.bindings.remove(record)
        return source

    def _forget(self, identity: BindingIdentity) -> BindingRecord:
        """Takes it out of every index but its source's."""
        record = self.bindings.pop(identity)
        destination = destination_of(record)
        incoming = self._incoming[destination]
        del incoming[identity]
        if not incoming:
            del self._incoming[destination]
        self._on_change(record, False)
        return record

    def _drop_exchange(self, exchange: Exchange) -> None:
        assert not exchange.outgoing, f"exchange {exchange.record.name!r} goes with {len(exchange.outgoing)} bindings"
        del self.exchanges[exchange.record.name]
        self._on_change(exchange.record, False)
