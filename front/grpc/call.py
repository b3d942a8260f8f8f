"""What every service needs: the broker, the time, who is calling, and a session to act through.

A stream is one connection with one session to the broker, for as long as it lasts. A single call is a connection with a
session for as long as it takes: so permissions, limits and listings see both as they see an AMQP client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import wraps
from itertools import count
from logging import Logger
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import grpc.aio
from google.protobuf.message import DecodeError

from broker.client_connection import Connection
from broker.errors import BrokerError, InternalError, InvalidRequest
from broker.pending import Pending
from broker.session.silent_sink import SilentSink
from front.answers import answered
from front.grpc import convert
from front.grpc.caller import caller
from front.visit import connected, visit

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.session.session import Session
    from broker.session.session_sink import SessionSink
    from broker.stream_clients.client_terms import StreamSink
    from broker.stream_clients.stream_client import StreamClient

T = TypeVar("T")
Context = grpc.aio.ServicerContext[Any, Any]
Handler = TypeVar("Handler", bound=Callable[..., Coroutine[Any, Any, Any]])

DEFAULT_VHOST = "/"
PROTOCOL = "gRPC"


class WallClock(Protocol):
    """The one thing asked of the node's clock."""

    def wall_ms(self) -> int: ...


@dataclass(slots=True)
class Front:
    """The gRPC front of a node, as its services see it."""

    broker: Broker
    clock: WallClock
    logger: Logger
    node: str
    address: str  # where it listens, for the names of connections
    message_bytes_max: int
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    @property
    def now(self) -> int:
        return self.clock.wall_ms()

    def connection(
        self,
        vhost: str,
        *,
        client_properties: dict[str, Any] | None = None,
        close: Callable[[BrokerError], None] = lambda error: None,
        set_blocked: Callable[[str | None], None] = lambda reason: None,
        statistics: Callable[[], dict[str, Any]] = dict,
    ) -> Connection:
        """This call as the broker's connection; not opened yet."""
        who = caller()
        number = next(self._numbers)
        return Connection(
            id=f"grpc-{number}",
            name=f"{who.peer} -> {self.address} #{number}",
            user=who.user,
            login=who.login,
            vhost=vhost or DEFAULT_VHOST,
            protocol=PROTOCOL,
            client_properties=client_properties or {},
            connected_at=self.now,
            close=close,
            set_blocked=set_blocked,
            statistics=statistics,
        )

    def opened(self, connection: Connection) -> AbstractContextManager[None]:
        """Open it, and close it at the end, whatever happened."""
        return connected(self.broker, connection, self.clock.wall_ms)

    def session(self, connection: Connection, sink: SessionSink) -> AbstractContextManager[Session]:
        """Open both, and close both at the end, whatever happened."""
        return visit(self.broker, connection, sink, self.clock.wall_ms)

    @contextmanager
    def brief_session(self, vhost: str) -> Iterator[Session]:
        """A session for one call that neither publishes nor subscribes."""
        with self.session(self.connection(vhost), SilentSink()) as session:
            yield session

    @contextmanager
    def brief_stream_client(self, vhost: str, sink: StreamSink) -> Iterator[StreamClient]:
        """The door that clients of the stream protocol have, for one call."""
        connection = self.connection(vhost)
        with self.opened(connection):
            client = self.broker.open_streams(connection, sink, self.now)
            try:
                yield client
            finally:
                client.close(self.now)

    async def answer(self, pending: Pending[T]) -> T:
        """The answer, when it is there. Raises the error that is the answer."""
        self.broker.end_turn()
        return await answered(pending)


def vhost_asked_for(request: Any) -> str | None:
    """Of a listing; None: all that the caller may see."""
    return None if request.all_vhosts else request.vhost or DEFAULT_VHOST


async def next_request(context: Context) -> Any:
    """The next message of the client, or grpc.aio.EOF after its last one. Raises InvalidRequest."""
    try:
        return await context.read()
    except DecodeError as error:
        raise InvalidRequest(f"a request that is no protobuf message of its kind: {error}") from error


def answers_errors(handler: Handler) -> Handler:
    """For the methods of the services: an error of the broker ends the call with its status, a bug with INTERNAL."""

    @wraps(handler)
    async def wrapped(self: Any, request: Any, context: Context) -> Any:
        try:
            return await handler(self, request, context)
        except BrokerError as error:
            await abort(context, error)
        except (asyncio.CancelledError, grpc.aio.AbortError):
            raise
        except Exception:
            # The text may hold what the client sent, so it goes to the log and not back.
            logger: Logger = self.front.logger
            logger.exception("a bug in %s", handler.__qualname__)
            await abort(context, InternalError(f"the node failed in {handler.__name__}; its log says how"))

    return wrapped  # type: ignore[return-value]


async def abort(context: Context, error: BrokerError) -> None:
    """End the call with the status of this error. Raises AbortError, always."""
    code, text, trailers = convert.status_of(error)
    await context.abort(code, convert.text(text), trailers)
