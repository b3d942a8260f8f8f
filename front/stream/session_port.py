"""What a connection of the stream protocol asks of the broker, and what the broker tells it.

`StreamHost` is there once, `StreamClientSession` once for each open connection, which is its `StreamSink`. Requests may be
refused with any BrokerError, raised or as the answer: response_codes.py says which code that is. A connection makes one request
after the other, as clients know it: while an answer is pending, there is only `resume` and `close`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol

from broker.errors import BrokerError
from broker.pending import Pending
from broker.stream_clients.client_terms import ReadOptions, StreamLocation, StreamSink
from wire.stream.command_fields import OffsetSpec
from wire.stream.publish_frame import StreamRun

if TYPE_CHECKING:
    from broker.client_connection import Connection as BrokerConnection
    from broker.login.audit import Audit
    from broker.login.client_address import ClientAddress
    from broker.records import UserRecord


class StreamClientSession(Protocol):
    """One client's door to the streams of its virtual host. No request ends its connection before it has returned."""

    @property
    def disk_alarm(self) -> bool:
        """Nobody may begin to publish now."""

    # publishing

    def declare_publisher(self, publisher: int, reference: str, stream: str, now: int) -> Pending[None]:
        """An empty reference is none: nothing is recognised that comes again."""

    def delete_publisher(self, publisher: int, now: int) -> None:
        """What it has published is stored, and not confirmed any more; its number may be declared again."""

    def publish(self, publisher: int, run: StreamRun, now: int) -> Pending[None] | None:
        """Confirmed later, or refused; or an error is raised, and nothing of the run is stored."""

    def publisher_sequence(self, reference: str, stream: str, now: int) -> Pending[int]:
        """The last publishing id; 0 when it has published nothing."""

    # reading

    def check_readable(self, stream: str) -> None:
        """Raises AccessRefused, ResourceExhausted when no replica of it can be read, NotFound."""

    def subscribe(
        self, subscription: int, stream: str, offset: OffsetSpec, options: ReadOptions, now: int
    ) -> Pending[None]:
        """Delivers and activates nothing before `start`."""

    def start(self, subscription: int, credit: int, now: int) -> None:
        """The client knows that it is subscribed."""

    def add_credit(self, subscription: int, credit: int, now: int) -> None:
        """So many chunks more; counted also while it is not the active one."""

    def consumer_updated(self, subscription: int, active: bool, offset: OffsetSpec, now: int) -> None:
        """The client knows what `activate` has said; when active, it wants to begin at this offset."""

    def unsubscribe(self, subscription: int, now: int) -> None:
        """Nothing is delivered any more; its number may be used again."""

    def resume(self, now: int) -> None:
        """The sink is writable again."""

    def store_offset(self, reference: str, stream: str, offset: int, now: int) -> None:
        """Nobody is told whether it could be."""

    def query_offset(self, reference: str, stream: str, now: int) -> Pending[int | None]:
        """What was stored, by this session too; None: nothing."""

    def resolve_offset(self, stream: str, offset: OffsetSpec, options: ReadOptions, now: int) -> Pending[int]:
        """Where a reader would begin."""

    # streams

    def create_stream(self, stream: str, arguments: dict[str, Any], now: int) -> Pending[bool]:
        """Arguments as queue.declare has them. False: it was there, and is the same."""

    def delete_stream(self, stream: str, now: int) -> Pending[None]:
        """Who uses it is told by `stream_unavailable`."""

    def create_super_stream(
        self, name: str, partitions: tuple[str, ...], binding_keys: tuple[str, ...], arguments: dict[str, Any], now: int
    ) -> Pending[bool]:
        """All or nothing. False: it, or one of its partitions, was there."""

    def delete_super_stream(self, name: str, now: int) -> Pending[None]:
        """With its partitions."""

    def locate(self, streams: tuple[str, ...], now: int) -> Pending[list[StreamLocation | BrokerError]]:
        """For each stream where it is, or why that is not said."""

    def route(self, routing_key: str, super_stream: str, now: int) -> Pending[tuple[str, ...]]:
        """The partitions that are bound with this key."""

    def partitions(self, super_stream: str, now: int) -> Pending[tuple[str, ...]]:
        """All of them, in their order."""

    def figures(self, stream: str, now: int) -> Pending[dict[str, int]]:
        """By the names that the protocol gives them; -1 for what an empty stream does not have."""

    # the end

    def close(self, now: int) -> None:
        """The client is gone: its publishers and subscriptions are, and nothing is said to its sink any more."""


class StreamHost(Protocol):
    """The broker, as far as connections of stream clients need it."""

    @property
    def audit(self) -> Audit:
        """Where logins are written down that failed before anybody was asked."""

    @property
    def stream_refusals(self) -> Counter[int]:
        """How often clients were told each code of the protocol, but for that all went well."""

    def authenticate(self, user: str, password: bytes, client: ClientAddress) -> Pending[UserRecord]:
        """AccessRefused does not say what was wrong; ResourceExhausted: it could not be checked now."""

    def authenticate_external(self, user: str, client: ClientAddress) -> Pending[UserRecord]:
        """A TLS certificate has named the user."""

    def open_connection(self, connection: BrokerConnection, now: int) -> None:
        """Raises a BrokerError when this virtual host is not for this user, or there are too many connections."""

    def renew_login(self, connection: BrokerConnection, user: UserRecord, now: int) -> None:
        """Its client has logged in again. Raises NotAllowed when the user may not use the virtual host any more."""

    def connection_closed(self, connection: BrokerConnection, now: int) -> None:
        """Also for one that was refused."""

    def open_streams(self, connection: BrokerConnection, sink: StreamSink, now: int) -> StreamClientSession:
        """For a connection that is open."""
