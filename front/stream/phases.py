"""The phases of a connection of the stream protocol, from the first frame to its end, as a table."""

from __future__ import annotations

from enum import Enum

from wire.stream.command_keys import CommandKey as Key


class ConnectionPhase(Enum):
    GREETING = "expecting peer properties"
    GREETED = "expecting a handshake"
    IDENTIFYING = "expecting a login"
    AUTHENTICATING = "authenticating"
    TUNING = "tuning"
    OPENING = "opening"
    RUNNING = "running"
    CLOSING = "closing"  # the server has sent Close; waiting for the answer, or for the socket to close
    REFUSED = "refused"  # the answer to a login is held back, to slow down guessing
    CLOSED = "closed"


# (phase, what the client sends) -> the next phase. What is not here closes the connection.
TRANSITIONS: dict[tuple[ConnectionPhase, Key], ConnectionPhase] = {
    (ConnectionPhase.GREETING, Key.PEER_PROPERTIES): ConnectionPhase.GREETED,
    (ConnectionPhase.GREETED, Key.SASL_HANDSHAKE): ConnectionPhase.IDENTIFYING,
    (ConnectionPhase.IDENTIFYING, Key.SASL_AUTHENTICATE): ConnectionPhase.AUTHENTICATING,
    # The answer leads from AUTHENTICATING to TUNING, to REFUSED or to CLOSED; nothing is read before.
    (ConnectionPhase.TUNING, Key.TUNE): ConnectionPhase.OPENING,
    (ConnectionPhase.OPENING, Key.OPEN): ConnectionPhase.RUNNING,
}

# Those that have not logged in: less is kept for them.
STRANGERS = (  # tuples are searched by identity; the hash of an Enum is a call
    ConnectionPhase.GREETING,
    ConnectionPhase.GREETED,
    ConnectionPhase.IDENTIFYING,
    ConnectionPhase.AUTHENTICATING,
)
# The connection is over for its client: input is dropped unread.
DROPS_INPUT = (ConnectionPhase.REFUSED, ConnectionPhase.CLOSED)
