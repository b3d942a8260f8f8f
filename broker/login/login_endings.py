"""Connections that may stay for a while only: somebody vouches for their users until then."""

from __future__ import annotations

from collections.abc import Callable

from broker.actors import GoneReason
from broker.client_connection import Connection
from broker.errors import ConnectionForced
from broker.vouched.vouched_user import VouchedUser

CREDENTIAL_EXPIRED = "credential expired"  # RabbitMQ's words, which clients look for
CallAt = Callable[[int, Callable[[int], None]], Callable[[], None]]  # answers what cancels the call


class LoginEndings:
    """Closes each when its time has come."""

    def __init__(self, call_at: CallAt) -> None:
        self._call_at = call_at
        self._cancel: dict[str, Callable[[], None]] = {}  # by connection

    def __len__(self) -> int:
        return len(self._cancel)

    def watch(self, connection: Connection) -> None:
        """It is open, or its login was renewed."""
        self.forget(connection)
        login = connection.who
        if isinstance(login, VouchedUser) and login.until_ms is not None:
            self._cancel[connection.id] = self._call_at(login.until_ms, lambda _: self._end(connection))

    def forget(self, connection: Connection) -> None:
        """It is gone, or was never watched."""
        cancel = self._cancel.pop(connection.id, None)
        if cancel is not None:
            cancel()

    def _end(self, connection: Connection) -> None:
        del self._cancel[connection.id]
        connection.left = GoneReason.FORCED
        connection.close(ConnectionForced(CREDENTIAL_EXPIRED))
