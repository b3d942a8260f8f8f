"""The queues in which the messages of delayed exchanges wait: declared before their exchange, deleted behind it.

A door before the metadata's. Whoever declares such an exchange, a client, an operator or a document of definitions, has its
queue declared with it, a quorum queue: so what waits is on several nodes. Should the two get apart, as when a node ends between
the two commands, a queue without an exchange goes by itself (quorum/holding.py), and an exchange without a queue refuses what
is to wait until it is declared again.
"""

from __future__ import annotations

from typing import Any

from broker.catalog.catalog import Catalog
from broker.catalog.commands.catalog_commands import Command, DeclareExchange, DeclareQueue, DeleteExchange, DeleteQueue
from broker.catalog.commands.metadata import Metadata, OnApplied
from broker.errors import BrokerError
from broker.exchanges.delayed_exchange import DELAYED_KIND
from broker.names import holding_queue
from broker.pending import Pending
from broker.records import ExchangeRecord

GROUP_SIZE = "x-quorum-initial-group-size"  # of an exchange's arguments, those that its queue is declared with


class HoldingMetadata:
    """See the module. Fulfils Metadata."""

    def __init__(self, metadata: Metadata, catalog: Catalog, node: str) -> None:
        self._metadata = metadata
        self._catalog = catalog
        self._node = node

    def submit(self, command: Command) -> Pending[Any]:
        match command:
            case DeclareExchange(record) if record.kind == DELAYED_KIND:
                return self._declare(command, record)
            case DeleteExchange(vhost, name):
                return self._metadata.submit(command).then_ask(lambda gone: self._delete_queue(vhost, name, gone))
        return self._metadata.submit(command)

    def subscribe(self, on_applied: OnApplied) -> None:
        self._metadata.subscribe(on_applied)

    def _declare(self, command: Command, record: ExchangeRecord) -> Pending[Any]:
        """Both are submitted at once: what is submitted next may be a binding of the exchange."""
        wish = self._wish(record)
        try:
            self._catalog.declared_exchange(record)
            if self._catalog.queue(record.vhost, wish.name) is not None:
                return self._metadata.submit(command)
            self._catalog.declared_queue(wish)
        except BrokerError as error:
            return Pending.failed(error)
        queue = self._metadata.submit(wish)
        if queue.error is not None:
            return queue
        exchange = self._metadata.submit(command)
        return queue.then_ask(lambda _: exchange)

    def _wish(self, record: ExchangeRecord) -> DeclareQueue:
        size = {GROUP_SIZE: record.arguments[GROUP_SIZE]} if GROUP_SIZE in record.arguments else {}
        return DeclareQueue(
            record.vhost,
            holding_queue(record.name),
            arguments={"x-queue-type": "quorum", **size},
            home=self._node,
        )

    def _delete_queue(self, vhost: str, exchange: str, gone: Any) -> Pending[Any]:
        """What waits goes with the exchange. Where that cannot be now, or somebody has declared it again, it stays for now."""
        queue = self._catalog.queue(vhost, holding_queue(exchange))
        if queue is None:
            return Pending.of(gone)
        answer: Pending[Any] = Pending()
        deleted = self._metadata.submit(DeleteQueue(vhost, queue.name, queue.id))
        deleted.then(lambda _: answer.resolve(gone), lambda _: answer.resolve(gone))
        return answer
