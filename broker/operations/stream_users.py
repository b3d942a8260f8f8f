"""Who publishes to streams, and who reads them, over the stream protocol: for operators."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from broker.client_connection import Connection
from broker.errors import NotFound
from broker.operations.clients import may_see
from broker.operations.operator import MANAGEMENT, Operator
from broker.queues.stream_contract import ReaderProgress
from broker.stream_clients.client_reader import ClientReader
from broker.stream_clients.client_terms import ReadOptions
from broker.stream_clients.stream_client import StreamClient
from broker.stream_clients.stream_publisher import StreamPublisher

if TYPE_CHECKING:
    from broker.broker import Broker

Activity = Literal["up", "single_active", "waiting"]
NOT_BEGUN = ReaderProgress(0, 0, 0)


@dataclass(slots=True, frozen=True)
class PublisherView:
    """A publisher, and whose it is."""

    connection: Connection
    vhost: str
    stream: str
    publisher_id: int
    reference: str  # empty: it has no name
    published: int  # messages, as what follows
    confirmed: int
    refused: int


@dataclass(slots=True, frozen=True)
class SubscriptionView:
    """A reader, and whose it is."""

    connection: Connection
    vhost: str
    stream: str
    subscription_id: int
    options: ReadOptions
    active: bool
    activity: Activity
    credit: int
    delivered: int  # messages
    offset: int  # of the message that it is given next
    lag: int  # messages that there are for it
    lag_s: float

    @property
    def group(self) -> str:
        """Empty for one that is in none."""
        return self.options.name if self.options.single_active else ""

    @property
    def super_stream(self) -> str:
        return self.options.super_stream


class StreamUsers:
    """Of the node that is asked; those of one's own, all with monitoring."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def connections(self, who: Operator, vhost: str | None) -> Iterator[Connection]:
        return (client.connection for client in self._clients(who, vhost))

    def connection(self, who: Operator, vhost: str, name: str) -> Connection:
        """Raises NotFound when there is none of this name that they may see."""
        for one in self.connections(who, vhost):
            if one.name == name:
                return one
        raise NotFound(f"no connection '{name}' of a stream client that user '{who.name}' may see")

    def publishers(self, who: Operator, vhost: str | None, stream: str | None = None) -> Iterator[PublisherView]:
        """Of all streams, or of one."""
        return (
            _publisher_view(client, one)
            for client in self._clients(who, vhost)
            for one in tuple(client.publishers.values())
            if stream in (None, one.queue.record.name)
        )

    def subscriptions(self, who: Operator, vhost: str | None, stream: str | None = None) -> Iterator[SubscriptionView]:
        """Of all streams, or of one."""
        return (
            _subscription_view(client, one)
            for client in self._clients(who, vhost)
            for one in tuple(client.subscriptions.values())
            if stream in (None, one.queue.record.name)
        )

    def _clients(self, who: Operator, vhost: str | None) -> Iterator[StreamClient]:
        who.require_tag(MANAGEMENT)
        vhosts = set(who.vhosts(self._broker.catalog, vhost))
        return (one for one in self._broker.streams if one.connection.vhost in vhosts and may_see(who, one.connection))


def _publisher_view(client: StreamClient, one: StreamPublisher) -> PublisherView:
    record = one.queue.record
    return PublisherView(
        client.connection, record.vhost, record.name, one.number, one.reference, one.published, one.confirmed, one.refused
    )  # fmt: skip


def _subscription_view(client: StreamClient, one: ClientReader) -> SubscriptionView:
    record = one.queue.record
    progress = one.queue.progress(one) or NOT_BEGUN
    activity: Activity = "up" if not one.options.single_active else "single_active" if one.active else "waiting"
    return SubscriptionView(
        client.connection, record.vhost, record.name, one.number, one.options, one.active, activity,
        one.granted, one.delivered, progress.offset, progress.offset_lag, progress.lag_s,
    )  # fmt: skip
