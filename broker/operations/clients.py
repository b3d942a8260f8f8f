"""Connections, channels and consumers: to look at, and connections to close."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from broker.errors import ConnectionForced, NotFound
from broker.names import DIRECT_REPLY_TO
from broker.operations.operator import ADMINISTRATOR, MANAGEMENT, MONITORING, Operator
from broker.records import QueueRecord
from broker.routing.reply_to import is_reply_name

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.client_connection import Connection
    from broker.queues.consumer import Consumer
    from broker.session.session import Session


@dataclass(slots=True, frozen=True)
class ConsumerView:
    """A consumer, and whose it is."""

    vhost: str
    queue: str
    consumer_tag: str
    connection: str  # its name
    channel: int
    no_ack: bool
    exclusive: bool
    prefetch: int
    outstanding: int
    priority: int
    active: bool
    timeout_ms: int  # within which it has to settle what it is given; 0: for ever
    arguments: Mapping[str, Any]
    user: str
    peer_host: str
    peer_port: int


class Clients:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def connections(self, who: Operator, vhost: str | None = None) -> Iterator[Connection]:
        """Those that they may see, in one virtual host or in all: their own; all, with monitoring."""
        who.require_tag(MANAGEMENT)
        if vhost is not None:
            who.check_may_see(self._broker.catalog, vhost)
        found = tuple(self._broker.connections())
        return (one for one in found if (vhost is None or one.vhost == vhost) and may_see(who, one))

    def connection(self, who: Operator, id_or_name: str) -> Connection:
        """Raises NotFound when there is none that they may see."""
        for one in self.connections(who):
            if id_or_name in (one.id, one.name):
                return one
        raise NotFound(f"no connection '{id_or_name}' that user '{who.name}' may see")

    def channels(self, who: Operator, vhost: str | None = None) -> Iterator[Session]:
        """Those that they may see, in one virtual host or in all."""
        who.require_tag(MANAGEMENT)
        if vhost is not None:
            who.check_may_see(self._broker.catalog, vhost)
        found = tuple(self._broker.sessions())
        return (one for one in found if vhost in (None, one.vhost) and may_see(who, one.connection))

    def consumers(self, who: Operator, vhost: str | None, queue: str | None = None) -> Iterator[ConsumerView]:
        """Perhaps only those of one queue."""
        who.require_tag(MANAGEMENT)
        vhosts = set(who.vhosts(self._broker.catalog, vhost))

        def is_wanted(record: QueueRecord) -> bool:
            return record.vhost in vhosts and queue in (None, record.name)

        return (
            _consumer_view(one)
            for one in tuple(self._broker.consumers())
            if is_wanted(one.queue.record) and may_see(who, getattr(one.sink, "connection", None))
        )

    def close_connection(self, who: Operator, id_or_name: str, reason: str = "") -> None:
        """Raises NotFound when there is none that they may close: their own; any, as an administrator."""
        who.require_tag(MANAGEMENT)
        found = [
            one
            for one in self._broker.connections()
            if id_or_name in (one.id, one.name) and (who.has_tag(ADMINISTRATOR) or who.is_user(one.login))
        ]
        audit = self._broker.audit
        if not found:
            error = NotFound(f"no connection '{id_or_name}' that user '{who.name}' may close")
            audit.changed("CloseConnection", f"close connection '{id_or_name}'", error)
            raise error
        why = reason or f"closed by user '{who.name}'"
        for connection in found:
            connection.close(ConnectionForced(why))
            what = f"close connection '{connection.name}' of user '{connection.user}': {why}"
            audit.changed("CloseConnection", what)

    def cancel_consumer(self, who: Operator, connection: str, channel: int, tag: str, now: int) -> None:
        """Its client is told, as if the queue had been deleted, and can settle what it holds. Raises NotFound when there is
        none that they may cancel: their own; any, as an administrator."""
        who.require_tag(MANAGEMENT)
        what = f"cancel consumer '{tag}' of channel {channel} of connection '{connection}'"
        for session in self._broker.sessions():
            is_theirs = who.has_tag(ADMINISTRATOR) or who.is_user(session.connection.login)
            is_meant = (session.connection.name, session.number) == (connection, channel)
            if is_theirs and is_meant and session.cancel_for_operator(tag, now):
                self._broker.audit.changed("CancelConsumer", what)
                return
        error = NotFound(
            f"no consumer '{tag}' of channel {channel} of connection '{connection}' that '{who.name}' may cancel"
        )
        self._broker.audit.changed("CancelConsumer", what, error)
        raise error


def may_see(who: Operator, connection: Connection | None) -> bool:
    return who.has_tag(MONITORING) or (connection is not None and who.is_user(connection.login))


def _consumer_view(one: Consumer) -> ConsumerView:
    connection = getattr(one.sink, "connection", None)
    figures = connection.statistics() if connection is not None else {}
    name = one.queue.record.name
    return ConsumerView(
        vhost=one.queue.record.vhost,
        queue=DIRECT_REPLY_TO if is_reply_name(name) else name,  # whoever knows the rest of it may answer the requester
        consumer_tag=one.tag,
        connection=connection.name if connection is not None else "",
        channel=getattr(one.sink, "number", 0),
        no_ack=one.no_ack,
        exclusive=one.exclusive,
        prefetch=one.prefetch,
        outstanding=one.outstanding,
        priority=one.priority,
        active=one.active,
        timeout_ms=one.timeout_ms or 0,
        arguments=one.arguments,
        user=connection.user if connection is not None else "",
        peer_host=figures.get("peer_host", ""),
        peer_port=figures.get("peer_port", 0),
    )
