"""The states of an AMQP connection, from the protocol header to its end, as a table. Only `Connection` changes state."""

from __future__ import annotations

from enum import Enum


class ConnectionState(Enum):
    EXPECTING_HEADER = "expecting header"
    STARTING = "starting"
    AUTHENTICATING = "authenticating"
    TUNING = "tuning"
    OPENING = "opening"
    RUNNING = "running"
    CLOSING = (
        "closing"  # one side has sent connection.close; waiting for the client's close-ok, or for the socket to close
    )
    REFUSED = "refused"  # a login was refused; the server stays silent for a while, to slow down guessing
    CLOSED = "closed"


# (state, event) -> the next state. An event is a method of the client unless the server decides: the login. An event that is
# not here is an error of the client.
TRANSITIONS: dict[tuple[ConnectionState, str], ConnectionState] = {
    (ConnectionState.EXPECTING_HEADER, "protocol header"): ConnectionState.STARTING,
    (ConnectionState.STARTING, "connection.start-ok"): ConnectionState.AUTHENTICATING,
    (ConnectionState.AUTHENTICATING, "login accepted"): ConnectionState.TUNING,
    (ConnectionState.AUTHENTICATING, "login refused"): ConnectionState.REFUSED,
    (ConnectionState.TUNING, "connection.tune-ok"): ConnectionState.OPENING,
    (ConnectionState.OPENING, "connection.open"): ConnectionState.RUNNING,
    (ConnectionState.RUNNING, "connection.update-secret"): ConnectionState.RUNNING,
    (ConnectionState.STARTING, "connection.close"): ConnectionState.CLOSED,
    (ConnectionState.TUNING, "connection.close"): ConnectionState.CLOSED,
    (ConnectionState.OPENING, "connection.close"): ConnectionState.CLOSED,
    (ConnectionState.RUNNING, "connection.close"): ConnectionState.CLOSING,
    (ConnectionState.CLOSING, "connection.close"): ConnectionState.CLOSING,
    (ConnectionState.CLOSING, "connection.close-ok"): ConnectionState.CLOSED,
}

# The connection is over for its client: further input is dropped unread.
DROPS_INPUT = (ConnectionState.REFUSED, ConnectionState.CLOSED)
# Input is not split into frames.
SPLITS_NO_FRAMES = (ConnectionState.EXPECTING_HEADER, *DROPS_INPUT)
