"""How a publish finds its queues, and what is cached of that.

    publish: exchange, routing key, mandatory
        |
        v
    TargetCache ---- cached, and Target.version is the catalog's version ------------+
        |                                                                            |
        | not cached, or the catalog has changed since                               |
        v                                                                            v
    Router.target                                                                 Target
        1. may this user publish there?    AccessRefused, NotFound                   ^   its queues, one group for each kind;
        2. walk the bindings (route.py)    names of queues, and what the             |   every one takes a run with one call
        3. find the queues of these names  exchanges looked at (asked.py)            |
        4. group them by kind  ------------------------------------------------------+

What the exchanges on the way looked at decides for which messages a target holds:

    only the key          for all messages with this exchange and key: they travel in runs
    headers               (`by_headers`) for messages without headers; each table of headers has a target of its own,
                          cached in `Target.for_headers`
    a property, chance    (`by_message`) for no other message: `Router.for_message` finds one for each, and caches none

The version of a catalog grows with every change: what is declared, bound, permitted or deleted, and a queue that was opened.
So as long as nothing changes a run costs one lookup, and after a change each target is found anew when it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from broker.catalog import permissions
from broker.catalog.catalog import Catalog
from broker.client_connection import Connection
from broker.errors import AccessRefused, NotFound, NotSupported, PreconditionFailed
from broker.exchanges.bindings import RecentHistoryBindings
from broker.names import check_length, delayed_exchange, held_for, is_holding, labelled, not_found
from broker.queues.open_queue import OpenQueue
from broker.queues.queue_type import Queue, QueueType
from broker.routing.asked import Asked
from broker.routing.reply_to import REPLY_PREFIX
from broker.routing.route import route_many

TARGETS_MAX = 4_096  # cached by one session, by key or headers; a hostile client may choose both
CACHED_HEADERS_BYTES_MAX = 1_024  # targets of longer tables of headers are found for each message

# Queues of one kind, which take a run with one call.
Group = tuple[QueueType, tuple[Queue, ...]]
OpenQueues = Mapping[tuple[str, str], OpenQueue]  # by vhost and name
# The publish method's bytes, or (exchange, routing key, mandatory) in protocols that do not have them.
PublishKey = bytes | tuple[str, str, bool]
Asks = Callable[[str, bytes | None], Asked]  # of a message with these properties, in a vhost


class Target:
    """Where messages go that were published to an exchange with these routing keys (several with CC and BCC)."""

    __slots__ = (
        "by_headers", "by_message", "exchange", "for_headers", "groups", "history_exchanges", "is_held", "keys",
        "mandatory", "props", "published", "queue_count", "reply_name", "version",
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
        self.props = props  # of the message for which it was found; None: it was not found for a message
        self.mandatory = mandatory
        self.version = version  # of the catalog
        self.groups: tuple[Group, ...] = ()
        self.queue_count = 0
        self.is_held = False  # its messages only wait at exchanges, to be routed later
        self.published = 0  # messages that went here and were not counted elsewhere yet (broker/counting/flows.py)
        self.by_headers = False  # an exchange on the way looks at headers
        self.by_message = False  # an exchange on the way chooses by a property, or by chance
        self.history_exchanges: Sequence[RecentHistoryBindings] = ()  # exchanges on the way that keep what is published
        self.reply_name = False  # the key names a requester that waits for replies
        self.for_headers: dict[bytes, Target] = {}  # by encoded headers, when by_headers


class TargetCache:
    """What one session caches, limited to TARGETS_MAX. Who uses a target compares its version. Those of an earlier version go
    when one of a later comes: they would keep queues in memory that were deleted."""

    __slots__ = ("_count", "_given_up", "_version", "by_publish")

    def __init__(self, given_up: Callable[[Target], None]) -> None:
        self._given_up = given_up  # told of each that goes
        self.by_publish: dict[PublishKey, Target] = {}
        self._count = 0  # of these, and of those in their `for_headers`
        self._version = 0  # of all of them

    def add(self, key: PublishKey, target: Target) -> Target:
        if target.version != self._version:
            self.clear()
            self._version = target.version
        self._make_room()
        self.by_publish[key] = target
        return target

    def add_for_headers(self, target: Target, headers: bytes, own: Target) -> None:
        """`own` is where messages of this target go that have these headers."""
        if len(headers) <= CACHED_HEADERS_BYTES_MAX:
            self._make_room()
            target.for_headers[headers] = own

    def clear(self) -> None:
        for target in self.all():
            self._given_up(target)
        for target in self.by_publish.values():
            target.for_headers.clear()  # a publish that is under way may still use this target
        self.by_publish.clear()
        self._count = 0

    def all(self) -> Iterator[Target]:
        """Also those of messages with headers."""
        for target in self.by_publish.values():
            yield target
            yield from target.for_headers.values()

    def _make_room(self) -> None:
        if self._count >= TARGETS_MAX:
            self.clear()
        self._count += 1


class Router:
    """Finds targets for one client's user in its vhost."""

    def __init__(self, catalog: Catalog, open_queues: OpenQueues, asks: Asks, connection: Connection) -> None:
        self._catalog = catalog
        self._asks = asks
        self._open_queues = open_queues
        self._connection = connection
        self._vhost = connection.vhost

    def target(self, exchange: str, routing_key: str, mandatory: bool, immediate: bool) -> Target:
        """Where messages without headers go. Raises what publishing there would: AccessRefused, NotFound, NotSupported."""
        if immediate:
            raise NotSupported("immediate=true")
        check_length("routing key", routing_key)  # other protocols allow keys that AMQP could not deliver
        self._check_permitted(exchange, routing_key)
        target = Target(exchange, (routing_key,), mandatory, self._catalog.version)
        if not exchange and routing_key.startswith(REPLY_PREFIX):
            target.reply_name = True
        else:
            self._find_queues(target)
        return target

    def for_message(self, target: Target, keys: Sequence[str], props: bytes) -> Target:
        """The target of one message with its own keys, headers or properties. Raises AccessRefused for a forbidden key."""
        for key in keys[1:]:
            permissions.check_topic(self._catalog, self._connection.who, self._vhost, "write", target.exchange, key)
        own = Target(target.exchange, keys, target.mandatory, self._catalog.version, props)
        self._find_queues(own)
        return own

    def up_to_date(self, target: Target) -> Target:
        """The same target at the catalog's version now. Permissions were checked when the message was published (in a
        transaction). If the vhost or the exchange is gone, no queue is found."""
        if target.reply_name or target.version == self._catalog.version:
            return target
        now = Target(target.exchange, target.keys, target.mandatory, self._catalog.version, target.props)
        with suppress(NotFound, PreconditionFailed):
            self._find_queues(now)
        return now

    def _check_permitted(self, exchange: str, routing_key: str) -> None:
        catalog, vhost = self._catalog, self._vhost
        permissions.check(catalog, self._connection.who, vhost, "write", "exchange", exchange)
        record = catalog.exchange(vhost, exchange)
        if exchange and record is None:
            raise not_found("exchange", exchange, vhost)
        if record is not None and record.internal:
            raise AccessRefused(f"cannot publish to internal {labelled('exchange', exchange, vhost)}")
        permissions.check_topic(catalog, self._connection.who, vhost, "write", exchange, routing_key)

    def _find_queues(self, target: Target) -> None:
        """Fill in where it leads, and what that depends on."""
        asked = self._asks(self._vhost, target.props)
        names = route_many(self._catalog, self._vhost, target.exchange, target.keys, asked)
        target.by_headers, target.by_message = asked.by_headers, asked.by_message
        target.history_exchanges = asked.history_exchanges
        found = [queue for name in names if (queue := self._open_queue(name)) is not None]
        target.queue_count = len(found)
        target.is_held = bool(names) and all(delayed_exchange(name) is not None for name in names)
        target.groups = grouped_by_kind(found)

    def _open_queue(self, name: str) -> OpenQueue | None:
        """A queue that is being opened or deleted gets nothing. Raises PreconditionFailed for one in which messages are to
        wait: they would be confirmed, and gone."""
        found = self._open_queues.get((self._vhost, name))
        if found is None and is_holding(name):
            raise PreconditionFailed(
                f"the queue for delayed messages of {held_for(name)} in vhost '{self._vhost}' is not there: declare the "
                f"{'exchange' if delayed_exchange(name) is not None else 'queue'} again"
            )
        return found


def grouped_by_kind(found: Iterable[OpenQueue]) -> tuple[Group, ...]:
    """Kinds in the order in which they come first."""
    kinds: dict[str, tuple[QueueType, list[Queue]]] = {}
    for one in found:
        kinds.setdefault(one.kind.name, (one.kind, []))[1].append(one.queue)
    return tuple([(kind, tuple(queues)) for kind, queues in kinds.values()])
