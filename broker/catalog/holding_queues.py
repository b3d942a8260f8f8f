"""The queues in which delayed messages wait: declared before their exchange or delaying queue, deleted behind it.

A door before the metadata's. Whoever declares such an exchange or queue, a client, an operator or a document of definitions,
has its holding queue declared with it, a quorum queue: so what waits is on several nodes. Should the two get apart, as when a
node ends between the two commands, a holding queue that nothing needs goes by itself (quorum/holding.py), and an exchange or
queue without one refuses what is to wait until it is declared again.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from contextlib import suppress
from typing import Any

from broker.catalog.catalog import Catalog
from broker.catalog.commands.catalog_commands import Command, DeclareExchange, DeclareQueue, DeleteExchange, DeleteQueue
from broker.catalog.commands.metadata import Metadata, OnApplied
from broker.catalog.proposed_queue import kind_of
from broker.errors import BrokerError, PreconditionFailed
from broker.exchanges.delayed_exchange import DELAYED_KIND
from broker.exchanges.delaying_queue import DELAYED_MESSAGES
from broker.names import holding_queue, holding_queue_of
from broker.pending import Pending
from broker.records import Arguments

GROUP_SIZE = "x-quorum-initial-group-size"  # of the arguments, those that the holding queue is declared with


class HoldingMetadata:
    """See the module. Fulfils Metadata."""

    def __init__(self, metadata: Metadata, catalog: Catalog, node: str) -> None:
        self._metadata = metadata
        self._catalog = catalog
        self._node = node

    def submit(self, command: Command) -> Pending[Any]:
        match command:
            case DeclareExchange(record) if record.kind == DELAYED_KIND:
                wish = self._wish(record.vhost, holding_queue(record.name), record.arguments)
                return self._declare(command, wish, lambda: self._catalog.declared_exchange(record))
            case DeclareQueue(vhost, name, arguments=arguments) if self._is_to_delay(command):
                wish = self._wish(vhost, holding_queue_of(name), arguments)
                return self._declare(command, wish, lambda: self._catalog.declared_queue(command))
            case DeleteExchange(vhost, name):
                return self._delete(command, vhost, holding_queue(name))
            case DeleteQueue(vhost, name) if name in self._delaying(vhost):
                return self._delete(command, vhost, holding_queue_of(name))
        return self._metadata.submit(command)

    def subscribe(self, on_applied: OnApplied) -> None:
        self._metadata.subscribe(on_applied)

    def _declare(self, command: Command, wish: DeclareQueue, check: Callable[[], object]) -> Pending[Any]:
        """Both are submitted at once: what is submitted next may be a binding. `check` raises what the command would."""
        try:
            check()
            if self._catalog.queue(wish.vhost, wish.name) is not None:
                return self._metadata.submit(command)
            self._catalog.declared_queue(wish)
        except BrokerError as error:
            return Pending.failed(error)
        queue = self._metadata.submit(wish)
        if queue.error is not None:
            return queue
        declared = self._metadata.submit(command)
        return queue.then_ask(lambda _: declared)

    def _wish(self, vhost: str, holding: str, arguments: Arguments) -> DeclareQueue:
        size = {GROUP_SIZE: arguments[GROUP_SIZE]} if GROUP_SIZE in arguments else {}
        return DeclareQueue(vhost, holding, arguments={"x-queue-type": "quorum", **size}, home=self._node)

    def _is_to_delay(self, wish: DeclareQueue) -> bool:
        """What is refused in any case is refused by the catalog."""
        if wish.arguments.get(DELAYED_MESSAGES) is not True or wish.vhost not in self._catalog.vhosts:
            return False
        with suppress(PreconditionFailed):
            return kind_of(wish, self._catalog.vhosts) == "quorum"
        return False

    def _delaying(self, vhost: str) -> Set[str]:
        return self._catalog.namespace(vhost).delaying if vhost in self._catalog.vhosts else frozenset()

    def _delete(self, command: Command, vhost: str, holding: str) -> Pending[Any]:
        return self._metadata.submit(command).then_ask(lambda gone: self._delete_queue(vhost, holding, gone))

    def _delete_queue(self, vhost: str, holding: str, gone: Any) -> Pending[Any]:
        """What waits goes, too. Where that cannot be now, or what it waits for was declared again, it stays for now."""
        queue = self._catalog.queue(vhost, holding)
        if queue is None:
            return Pending.of(gone)
        answer: Pending[Any] = Pending()
        deleted = self._metadata.submit(DeleteQueue(vhost, queue.name, queue.id))
        deleted.then(lambda _: answer.resolve(gone), lambda _: answer.resolve(gone))
        return answer
