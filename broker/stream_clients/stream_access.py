"""Streams by name, for one user of one virtual host: who may do what, and which queue it is.

What the user may not do is refused before anything is looked up, so that a refusal does not reveal what exists. A queue of
another kind is no stream, and is not found.
"""

from __future__ import annotations

from typing import cast

from broker.catalog import permissions
from broker.catalog.permissions import Access
from broker.client_connection import Connection
from broker.errors import AccessRefused, NotFound, ResourceExhausted
from broker.names import labelled
from broker.node_queues import NodeQueues
from broker.queues.stream_contract import StreamContract
from broker.records import QueueRecord

STREAM = "stream"


class StreamAccess:
    """See the module."""

    def __init__(self, broker: NodeQueues, connection: Connection) -> None:
        self._broker = broker
        self._catalog = broker.catalog
        self._connection = connection
        self._vhost = connection.vhost

    def may(self, access: Access, name: str) -> bool:
        return permissions.allowed(self._catalog, self._connection.who, self._vhost, access, name)

    def may_enter(self) -> bool:
        return permissions.may_enter(self._catalog, self._connection.who, self._vhost)

    def stream(self, access: Access, name: str) -> StreamContract:
        """Raises AccessRefused, NotFound, or ResourceExhausted while this node is about to open it."""
        permissions.check(self._catalog, self._connection.who, self._vhost, access, "queue", name)
        return self._open(name)

    def visible(self, name: str) -> StreamContract:
        """For whoever may read it or write to it. Raises as `stream`."""
        if not (self.may("read", name) or self.may("write", name)):
            raise AccessRefused(
                f"access to {labelled(STREAM, name, self._vhost)} refused for user '{self._connection.user}'"
            )
        return self._open(name)

    def record(self, name: str) -> QueueRecord:
        """Raises NotFound."""
        found = self._catalog.queue(self._vhost, name)
        if found is None or found.kind != STREAM:
            raise NotFound(f"no {labelled(STREAM, name, self._vhost)}")
        return found

    def _open(self, name: str) -> StreamContract:
        self.record(name)
        found = open_stream(self._broker, self._vhost, name)
        if found is None:
            raise ResourceExhausted(
                f"{labelled(STREAM, name, self._vhost)} is being opened on node '{self._broker.node}'"
            )
        return found


def open_stream(broker: NodeQueues, vhost: str, name: str) -> StreamContract | None:
    """None: there is none of this name, or it is being opened or deleted."""
    found = broker.find_queue(vhost, name)
    return cast(StreamContract, found.queue) if found is not None and found.kind.name == STREAM else None
