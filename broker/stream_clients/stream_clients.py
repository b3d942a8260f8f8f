"""The stream clients of one node, and what they share: groups of consumers, and where other nodes are reached."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from broker.alarms import DISK_ALARM
from broker.client_connection import Connection
from broker.counting.ended_traffic import EndedTraffic
from broker.node_queues import NodeQueues
from broker.stream_clients.client_terms import StreamSink
from broker.stream_clients.consumer_groups import GroupKey
from broker.stream_clients.node_groups import NodeGroups
from broker.stream_clients.stream_access import open_stream
from broker.stream_clients.stream_client import StreamClient
from broker.stream_clients.stream_directory import AddressOf


def unknown_address(node: str, tls: bool) -> None:
    return None


class StreamClients:
    """See the module. One client for a connection."""

    def __init__(self, broker: NodeQueues, ended: EndedTraffic) -> None:
        # Set by who knows where nodes listen, in plain and within TLS.
        self.address_of: Callable[[str, bool], tuple[str, int] | None] = unknown_address
        self._broker = broker
        self._clients: dict[str, StreamClient] = {}  # by id of the connection
        self.groups = NodeGroups(broker.node, self._leader_of, self._times_led, lambda: broker.turns.now)
        self._ended = ended

    def open(self, connection: Connection, sink: StreamSink) -> StreamClient:
        assert connection.id not in self._clients, f"connection {connection.id} has a stream client already"
        address_of: AddressOf = partial(self._address, connection.tls)
        client = StreamClient(self._broker, connection, sink, self.groups, address_of, self._closed)
        self._clients[connection.id] = client
        return client

    def __iter__(self) -> Iterator[StreamClient]:
        """Those that are connected now."""
        return iter(tuple(self._clients.values()))

    def _address(self, tls: bool, node: str) -> tuple[str, int] | None:
        """A client within TLS is told where nodes listen within TLS."""
        return self.address_of(node, tls)

    def _leader_of(self, key: GroupKey) -> str | None:
        found = open_stream(self._broker, key.vhost, key.stream)
        return None if found is None else found.places().leader

    def _times_led(self, key: GroupKey) -> int:
        found = open_stream(self._broker, key.vhost, key.stream)
        return 0 if found is None else found.times_led()

    def _closed(self, client: StreamClient) -> None:
        del self._clients[client.connection.id]
        self._ended.session_ended(client.connection, client.counters)

    def connection_closed(self, connection: Connection, now: int) -> None:
        """A node that stops does not wait for fronts to close their clients."""
        client = self._clients.get(connection.id)
        if client is not None:
            client.close(now)

    def permissions_changed(self, connection: Connection, now: int) -> None:
        """Of a user who may still enter the virtual host."""
        client = self._clients.get(connection.id)
        if client is not None:
            client.permissions_changed(now)

    def is_held_by_alarms(self, connection: Connection) -> bool | None:
        """None: it has no stream client. Of these only a full disk, of any node, holds publishers."""
        if connection.id not in self._clients:
            return None
        return self._broker.alarms.reason_of(DISK_ALARM) is not None
