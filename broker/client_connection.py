"""A client's connection as the broker sees it, whatever protocol it speaks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from broker.actors import ActorKind, GoneReason, LogActor
from broker.errors import BrokerError
from broker.records import UserRecord


@dataclass(slots=True)
class Connection:
    """Made by the front."""

    id: str  # unique in this process
    name: str
    user: str
    vhost: str
    protocol: str
    client_properties: dict[str, Any]
    connected_at: int
    close: Callable[[BrokerError], None]  # the broker ends it: its vhost or user went, an operator wants it
    set_blocked: Callable[[str | None], None]  # it published during an alarm: why, or None when that is over
    statistics: Callable[[], dict[str, Any]]
    tls: bool = False
    login: UserRecord | None = None  # the user as it was when it was verified; None: verified just now
    publishes: bool = False  # ever
    blocked: bool = False
    left: GoneReason = GoneReason.CONNECTION_LOST  # how it ends, unless somebody says otherwise before
    actor: LogActor = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        properties = self.client_properties
        self.actor = LogActor(
            ActorKind.CONNECTION,
            user=self.user,
            vhost=self.vhost,
            address=self.name,
            connection_name=str(properties.get("connection_name", "")),
            product=str(properties.get("product", "")),
        )

    @property
    def who(self) -> UserRecord:
        """Whose rights count now: a client may renew what it has logged in with."""
        assert self.login is not None, "a connection that the broker has not opened"
        return self.login

    def is_of(self, user: str) -> bool:
        """Of a user whom the catalog has; somebody else may vouch for one of the same name."""
        return self.user == user and self.who.vouched is None

    def note_publishing(self, alarm: str | None) -> None:
        """Called when it publishes for the first time, and whenever it does so during an alarm."""
        self.publishes = True
        if alarm is not None and not self.blocked:
            self.blocked = True
            self.set_blocked(alarm)
