"""Sessions of fronts whose clients come with single requests: opened for one, and closed when it is answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from broker.actors import GoneReason
from broker.client_connection import Connection
from broker.messages.message import Run
from broker.queues.consumer import Consumer
from broker.queues.queue_type import Slice

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.session.session import Session
    from broker.session.session_sink import SessionSink


@contextmanager
def connected(broker: Broker, connection: Connection, now: Callable[[], int]) -> Iterator[None]:
    """Open it, and close it at the end, whatever happened."""
    broker.open_connection(connection, now())
    try:
        yield
        connection.left = GoneReason.CLOSED
    finally:
        broker.connection_closed(connection, now())
        broker.end_turn()


@contextmanager
def visit(broker: Broker, connection: Connection, sink: SessionSink, now: Callable[[], int]) -> Iterator[Session]:
    """The one session of a connection that is there for it alone."""
    with connected(broker, connection, now):
        session = broker.open_session(connection, sink, now())
        try:
            yield session
        finally:
            session.close(now())


class SilentSink:
    """The sink of a session that has nothing to hear: who expects something overrides it."""

    @property
    def writable(self) -> bool:
        return False

    def deliver(self, consumer: Consumer, first_tag: int, piece: Slice, content: bytes) -> None:
        raise AssertionError(f"{piece.count} messages delivered to a request that did not subscribe")

    def confirm(self, first: int, last: int, multiple: bool, ok: bool) -> None:
        raise AssertionError(f"confirm of {first} to {last} for a request that did not publish")

    def returned(self, run: Run, code: int, text: str) -> None:
        raise AssertionError(f"return of {run.count} messages to a request that did not publish")

    def cancelled(self, consumer_tag: str) -> None:
        raise AssertionError(f"consumer {consumer_tag!r} cancelled for a request that has none")

    def timed_out(self, consumer_tag: str) -> None:
        self.cancelled(consumer_tag)
