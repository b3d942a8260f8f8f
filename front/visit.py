"""Sessions of fronts whose clients come with single requests: opened for one, and closed when it is answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from broker.actors import GoneReason
from broker.client_connection import Connection

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
