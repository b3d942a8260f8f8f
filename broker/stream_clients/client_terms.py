"""What a stream client and the broker say to each other, as values, and the sink through which the client is told."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from broker.errors import BrokerError
from broker.messages.stored_bytes import Sendable


class StreamAddress(NamedTuple):
    """Where stream clients reach a node."""

    host: str
    port: int


class StreamLocation(NamedTuple):
    """Where one stream is."""

    leader: StreamAddress | None  # None while there is none
    replicas: tuple[StreamAddress, ...]  # without the leader


class ReadOptions(NamedTuple):
    """What a client says of a subscription in its properties."""

    filter_values: tuple[str, ...] = ()
    match_unfiltered: bool = False
    single_active: bool = False
    name: str = ""
    super_stream: str = ""
    identifier: str = ""


class StreamSink(Protocol):
    """What the broker says to a stream client. All but `writable` may come at any time until the client is closed."""

    @property
    def writable(self) -> bool:
        """May a chunk be delivered? After a False, `StreamClient.resume` is called once there is room."""

    def deliver(self, subscription: int, last_chunk: int, chunk: Sendable) -> None:
        """One chunk as it is stored, for which there was credit. `last_chunk` names the last committed one."""

    def confirm(self, publisher: int, ids: bytes) -> None:
        """These are durable on a majority: u64 each, in the order in which they were published."""

    def refuse_publish(self, publisher: int, ids: bytes, error: BrokerError) -> None:
        """These were not stored."""

    def stream_unavailable(self, stream: str) -> None:
        """It was deleted, or its leader or the replica that is read has changed: its publishers and subscriptions are gone,
        also one whose answer is pending."""

    def activate(self, subscription: int, active: bool) -> None:
        """It has become the active one of its group, or is it no longer. The client's answer comes with `consumer_updated`."""
