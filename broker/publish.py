"""Where a published run goes: the exchange is looked up and permitted once, the queues are found once, and both are remembered.

A target is what a publish method's bytes mean at one version of the catalog. As long as nothing is declared, bound,
permitted or deleted, publishing costs one look-up for a run. Routes that depend on headers are found for each message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from broker import permissions
from broker.catalog import Catalog
from broker.errors import AccessRefused, NotSupported
from broker.names import labelled, not_found
from broker.queue_type import Queue, QueueType
from broker.reply_to import REPLY_PREFIX
from broker.route import route_many

# Queues of one kind, which take a run with one call.
Group = tuple[QueueType, tuple[Queue, ...]]
FindQueue = Callable[[str, str], tuple[QueueType, Queue] | None]


class Target:
    """What is known of an exchange and a routing key."""

    __slots__ = ("by_headers", "exchange", "groups", "mandatory", "queue_count", "reply_name", "routing_key", "version")

    def __init__(self, exchange: str, routing_key: str, mandatory: bool, version: int) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self.mandatory = mandatory
        self.version = version
        self.reply_name = False  # it leads to a requester that waits for replies
        self.by_headers = False  # the route has to be found for each message
        self.groups: tuple[Group, ...] = ()
        self.queue_count = 0


class Router:
    """Finds targets for one user in one vhost."""

    def __init__(self, catalog: Catalog, find_queue: FindQueue, user: str, vhost: str) -> None:
        self._catalog = catalog
        self._find_queue = find_queue
        self._user = user
        self._vhost = vhost

    def target(self, exchange: str, routing_key: str, mandatory: bool, immediate: bool) -> Target:
        """Raises what publishing there would: AccessRefused, NotFound, NotSupported."""
        if immediate:
            raise NotSupported("immediate=true")
        catalog, vhost = self._catalog, self._vhost
        permissions.check(catalog, self._user, vhost, "write", "exchange", exchange)
        record = catalog.exchange(vhost, exchange)
        if exchange and record is None:
            raise not_found("exchange", exchange, vhost)
        if record is not None and record.internal:
            raise AccessRefused(f"cannot publish to internal {labelled('exchange', exchange, vhost)}")
        permissions.check_topic(catalog, self._user, vhost, "write", exchange, routing_key)
        target = Target(exchange, routing_key, mandatory, catalog.version)
        if not exchange and routing_key.startswith(REPLY_PREFIX):
            target.reply_name = True
            return target
        asked: list[bool] = []

        def headers() -> dict[str, Any] | None:
            asked.append(True)
            return None

        names = route_many(catalog, vhost, exchange, (routing_key,), headers)
        target.by_headers = bool(asked)
        if not asked:
            target.groups = self.grouped(names)
            target.queue_count = sum(len(queues) for _, queues in target.groups)
        return target

    def route(
        self, exchange: str, keys: Sequence[str], headers: Callable[[], dict[str, Any] | None]
    ) -> tuple[Group, ...]:
        return self.grouped(route_many(self._catalog, self._vhost, exchange, keys, headers))

    def grouped(self, names: Sequence[str]) -> tuple[Group, ...]:
        kinds: dict[str, tuple[QueueType, list[Queue]]] = {}
        for name in names:
            found = self._find_queue(self._vhost, name)
            if found is not None:
                kind, queue = found
                kinds.setdefault(kind.name, (kind, []))[1].append(queue)
        return tuple((kind, tuple(queues)) for kind, queues in kinds.values())
