"""A client of the stream protocol: a connection that publishes under one number, or reads under one number, or both.

As with channels, what a front does with frames is left out: a client asks the broker's part of the connection
(broker/stream_clients/stream_client.py), and is its sink.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from broker.errors import BrokerError
from broker.messages.stored_bytes import Sendable, in_memory
from broker.stream_clients.stream_client import StreamClient
from tests.sim.brokers import invariants
from tests.sim.brokers.chunk_reading import ChunkReading
from tests.sim.brokers.client_connection import ClientConnection, ConnectionOwner
from wire.stream.publish_frame import unpack_ids

if TYPE_CHECKING:
    from tests.sim.brokers.group_watch import WatchedConsumer
    from tests.sim.brokers.process import BrokerProcess
    from tests.sim.brokers.site import BrokerSite
    from tests.sim.brokers.world import BrokerWorld

NUMBER = 1  # of the publisher, and of the subscription


class StreamOwner(ConnectionOwner, Protocol):
    """Who uses the connection."""

    def confirmed(self, connection: StreamConnection, ids: tuple[int, ...]) -> None: ...

    def refused(self, connection: StreamConnection, ids: tuple[int, ...], error: BrokerError) -> None: ...

    def given(self, connection: StreamConnection, end: int) -> None:
        """A chunk that ends before this offset."""

    def moved(self, connection: StreamConnection) -> None:
        """Its stream cannot be used through this connection any more."""

    def activated(self, connection: StreamConnection, active: bool) -> None: ...


class StreamConnection(ClientConnection[StreamOwner, StreamClient]):
    """See the module. Fulfils StreamSink."""

    def __init__(self, world: BrokerWorld, owner: StreamOwner, site: BrokerSite, name: str) -> None:
        self.reading: ChunkReading | None = None  # what its node serves
        self.consumer: WatchedConsumer | None = None  # of a group, if it belongs to one
        super().__init__(world, owner, site, name)

    def _enter(self, process: BrokerProcess) -> StreamClient:
        return process.broker.streams.open(self._connection, self)

    @property
    def client(self) -> StreamClient:
        return self.door

    @property
    def is_served(self) -> bool:
        """Whether its node has it still."""
        return self.is_open and self.site.process is self.process and not self.door.closed

    # StreamSink

    def deliver(self, subscription: int, last_chunk: int, chunk: Sendable) -> None:
        if self.reading is None:
            assert self.consumer is not None, f"{self.name} is given a chunk, and reads nothing"
            invariants.chunks_come_for_credit(
                self.consumer.group.about, f"{self.name}, which is not the one that reads,", 0
            )
        assert self.reading is not None, f"{self.name} reads nothing"
        end = self.reading.gives_chunk(last_chunk, bytes(in_memory(chunk)))
        self._tell(self.owner.given, self, end)

    def confirm(self, publisher: int, ids: bytes) -> None:
        self._tell(self.owner.confirmed, self, unpack_ids(ids))

    def refuse_publish(self, publisher: int, ids: bytes, error: BrokerError) -> None:
        self._tell(self.owner.refused, self, unpack_ids(ids), error)

    def stream_unavailable(self, stream: str) -> None:
        if self.consumer is not None:
            self.consumer.left()
        self.world.watch.count("stream client told that its stream moved")
        self._tell(self.owner.moved, self)

    def activate(self, subscription: int, active: bool) -> None:
        assert self.consumer is not None, f"{self.name} belongs to no group, and is told that it is active: {active}"
        self.consumer.told(active)
        self.reading = self.reading if active else None
        self._tell(self.owner.activated, self, active)
