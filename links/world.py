"""What a link needs of the world. Tests and simulations pass their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

Cancel = Callable[[], None]


@dataclass(frozen=True, slots=True)
class TlsTerms:
    """How to speak TLS with one broker: paths of PEM files, empty where there is none. `checks_name`: whether its certificate
    has to be of `server_name`."""

    server_name: str
    verify: bool
    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    key_password: str = field(default="", repr=False)
    checks_name: bool = True


class LinkTimer(Protocol):
    def cancel(self) -> None: ...


class LinkClock(Protocol):
    def monotonic(self) -> float:
        """Seconds that only go forward."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970."""

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> LinkTimer: ...


class LinkSocket(Protocol):
    """One open connection."""

    def write(self, data: bytes) -> None:
        """Queued without limit: who writes looks at `SocketUser.writable`."""

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def abort(self) -> None:
        """Close it without waiting. `lost` follows."""


class SocketUser(Protocol):
    """Who uses a connection."""

    def connected(self, wire: LinkSocket) -> None: ...

    def received(self, data: bytes) -> None: ...

    def writable(self, writable: bool) -> None:
        """False: more is queued than should be. True again: it has been sent."""

    def lost(self, reason: str) -> None:
        """It could not be opened, or has ended. Called once, and nothing after it."""


class LinkNet(Protocol):
    def connect(self, host: str, port: int, tls: TlsTerms | None, timeout_s: float, events: SocketUser) -> Cancel:
        """Begins to connect; calling the answer gives up, before `connected`."""
