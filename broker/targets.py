"""Where a published run goes: the exchange is looked up and permitted once, the queues are found once, and both are remembered.

A target is what an exchange and a routing key mean at one version of the catalog. As long as nothing is declared, bound,
permitted or deleted, publishing costs one look-up for a run. Routes that depend on headers are found for each message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from broker import permissions
from broker.asked import Asked
from broker.catalog import Catalog
from broker.errors import AccessRefused, NotFound, NotSupported
from broker.exchange import RecentHistoryBindings
from broker.names import check_length, labelled, not_found
from broker.open_queue import OpenQueue
from broker.queue_type import Queue, QueueType
from broker.reply_to import REPLY_PREFIX
from broker.route import route_many

# Queues of one kind, which take a run with one call.
Group = tuple[QueueType, tuple[Queue, ...]]
FindQueue = Callable[[str, str], OpenQueue | None]
RawHeaders = bytes | None
Asks = Callable[[str, bytes | None], Asked]  # of a message with these properties, in a vhost


class Target:
    """What is known of an exchange, routing keys (several with CC and BCC), and headers if the exchange asks for them."""

    __slots__ = (
        "by_headers", "by_message", "exchange", "groups", "keys", "mandatory", "props", "queue_count", "remembered",
        "remembered_in", "reply_name", "version",
    )  # fmt: skip

    def __init__(
        self,
        exchange: str,
        keys: Sequence[str],
        mandatory: bool,
        version: int,
        props: bytes | None = None,
    ) -> None:
        self.exchange = exchange
        self.keys = keys
        self.props = props  # of the one message that it is for, if an exchange asks for something in them
        self.mandatory = mandatory
        self.version = version  # of the catalog
        self.groups: tuple[Group, ...] = ()
        self.queue_count = 0
        self.by_headers = False  # an exchange on the way looks at headers: this target holds for these only
        self.by_message = False  # and for one message: an exchange chooses by its properties, or by chance
        self.remembered_in: Sequence[RecentHistoryBindings] = ()  # exchanges on the way that keep what is published
        self.reply_name = False  # it leads to a requester that waits for replies
        self.remembered: dict[RawHeaders, Target] = {}  # the targets of messages with headers, when by_headers


class Router:
    """Finds targets for one user in one vhost."""

    def __init__(self, catalog: Catalog, find_queue: FindQueue, asks: Asks, user: str, vhost: str) -> None:
        self._catalog = catalog
        self._asks = asks
        self._find_queue = find_queue
        self._user = user
        self._vhost = vhost

    def target(self, exchange: str, routing_key: str, mandatory: bool, immediate: bool) -> Target:
        """Where messages without headers go. Raises what publishing there would: AccessRefused, NotFound, NotSupported."""
        if immediate:
            raise NotSupported("immediate=true")
        check_length("routing key", routing_key)  # other protocols can say what AMQP could not deliver
        self._check(exchange, routing_key)
        target = Target(exchange, (routing_key,), mandatory, self._catalog.version)
        if not exchange and routing_key.startswith(REPLY_PREFIX):
            target.reply_name = True
        else:
            self._find(target)
        return target

    def with_keys(self, target: Target, keys: Sequence[str], props: bytes) -> Target:
        """The target of a message with its own keys, headers or properties. Raises AccessRefused for a key not permitted."""
        for key in keys[1:]:
            permissions.check_topic(self._catalog, self._user, self._vhost, "write", target.exchange, key)
        own = Target(target.exchange, keys, target.mandatory, self._catalog.version, props)
        self._find(own)
        return own

    def again(self, target: Target) -> Target:
        """The same target now, for what was permitted before (transactions). A vhost or exchange that went leads nowhere."""
        if target.reply_name or target.version == self._catalog.version:
            return target
        now = Target(target.exchange, target.keys, target.mandatory, self._catalog.version, target.props)
        with suppress(NotFound):
            self._find(now)
        return now

    def _check(self, exchange: str, routing_key: str) -> None:
        catalog, vhost = self._catalog, self._vhost
        permissions.check(catalog, self._user, vhost, "write", "exchange", exchange)
        record = catalog.exchange(vhost, exchange)
        if exchange and record is None:
            raise not_found("exchange", exchange, vhost)
        if record is not None and record.internal:
            raise AccessRefused(f"cannot publish to internal {labelled('exchange', exchange, vhost)}")
        permissions.check_topic(catalog, self._user, vhost, "write", exchange, routing_key)

    def _find(self, target: Target) -> None:
        asked = self._asks(self._vhost, target.props)
        names = route_many(self._catalog, self._vhost, target.exchange, target.keys, asked)
        target.by_headers, target.by_message = asked.by_headers, asked.by_message
        target.remembered_in = asked.remembered_in
        kinds: dict[str, tuple[QueueType, list[Queue]]] = {}
        for name in names:
            found = self._find_queue(self._vhost, name)
            if found is not None:
                kinds.setdefault(found.kind.name, (found.kind, []))[1].append(found.queue)
                target.queue_count += 1
        target.groups = tuple([(kind, tuple(queues)) for kind, queues in kinds.values()])
