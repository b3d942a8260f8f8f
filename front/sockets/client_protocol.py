"""What a socket has to know of the protocol that is spoken on it, and of the connection that speaks it.

A front has its connection without I/O (`ClientConnection`) and says in one `ClientProtocol` how sockets begin one; sockets and
listeners are the same for all of them (client_server.py, client_socket.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from broker.errors import BrokerError
from broker.messages.stored_bytes import Sendable
from front.sockets.peer import Outside, Peer
from native.content import Buffer

if TYPE_CHECKING:
    from broker.client_connection import Connection


class ConnectionPressure(Protocol):
    """What stops reading, delivering and writing on one connection."""

    unsent_bytes: int
    transport_writable: bool

    @property
    def reads(self) -> bool:
        """False while nothing should be read from the socket."""

    @property
    def can_proceed(self) -> bool:
        """Something was stopped and the reason is gone."""

    def set_transport_writable(self, writable: bool) -> None: ...


class ClientConnection(Protocol):
    """The server's side of one connection, without its socket."""

    @property
    def state(self) -> Enum: ...

    @property
    def pressure(self) -> ConnectionPressure: ...

    @property
    def client(self) -> Connection | None:
        """Set while the broker knows the connection."""

    @property
    def user(self) -> str:
        """Empty until the login."""

    @property
    def publishes(self) -> bool:
        """Whether it is to be held when publishers are."""

    @property
    def ended_because(self) -> str | None:
        """Why it ended, for the log; None after a clean end."""

    def receive_data(self, data: Buffer, now: int) -> None:
        """`data` may be overwritten afterwards."""

    def proceed(self, now: int) -> bool: ...

    def data_to_send(self) -> Sequence[Sendable]: ...

    def timer_elapsed(self, now: int) -> None: ...

    def connection_lost(self, now: int) -> None: ...

    def close_for_broker(self, error: BrokerError) -> None:
        """Tell the client why, and end."""

    def crashed(self) -> None:
        """A bug of ours was met: tell the client no more than that, and end."""


@dataclass(slots=True, frozen=True)
class ClientProtocol:
    """See the module."""

    name: str  # in lines of the log
    peer_protocol: str  # as operators see it, at each connection
    id_prefix: str  # of the ids of connections
    running: Enum  # the state of a connection that is open
    closed: Enum
    open: Callable[[Outside, Peer, int], ClientConnection]  # with the time in ms
    handshake_timeout_s: float  # from being accepted until the protocol begins; 0: none
    close_timeout_s: float  # for the client to take what is written last
    write_buffer_high_bytes: int
    sends_files: bool = False  # `data_to_send` has more than buffers
