"""Who is at the other end of a connection, and who drives it: what connections without I/O know of their sockets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from broker.login.client_address import ClientAddress


@dataclass(slots=True, frozen=True)
class Peer:
    """Who is at the other end, as the socket knows it."""

    id: str  # of the connection, unique on this node
    name: str  # "ip:port -> ip:port"
    host: str
    port: int
    loopback: bool
    tls: bool = False
    tls_user: str | None = None  # the user a verified client certificate names
    details: dict[str, Any] = field(default_factory=dict)
    protocol: str = "AMQP 0-9-1"  # as logs and operators see it

    @property
    def address(self) -> ClientAddress:
        return ClientAddress(self.host, self.port, self.loopback, self.protocol)


class Outside(Protocol):
    """What a connection asks of whoever drives it."""

    def wake(self) -> None:
        """There is something to send or to go on with: call `proceed` and `data_to_send` soon."""

    def soon(self, call: Callable[[], None]) -> None:
        """Call it in the next round of the event loop: other clients have their turn first."""

    def arm(self, seconds: float) -> None:
        """Call `timer_elapsed` after this long, once. Replaces what was armed before; 0 only disarms."""

    def monotonic(self) -> float:
        """Seconds of a clock that nobody sets."""
