"""What clients that have gone had counted, by protocol and vhost: sums over a node or a vhost never fall."""

from __future__ import annotations

from collections.abc import Container, Mapping

from broker.client_connection import Connection
from broker.counters import Counters

NOWHERE = ""  # in place of vhosts that have been deleted: no vhost has this name


class EndedTraffic:
    """Of one node, since it was started."""

    def __init__(self, vhosts: Container[str]) -> None:
        """`vhosts`: those that there are, now and later."""
        self._vhosts = vhosts
        self._counted: dict[tuple[str, str], Counters] = {}  # by protocol and vhost
        self._bytes: dict[str, tuple[int, int]] = {}  # received and sent, by vhost

    def session_ended(self, connection: Connection, counters: Counters) -> None:
        key = connection.protocol, self._kept(connection.vhost)
        self._counted.setdefault(key, Counters()).add(counters)

    def connection_ended(self, connection: Connection) -> None:
        figures, vhost = connection.statistics(), self._kept(connection.vhost)
        received, sent = self._bytes.get(vhost, (0, 0))
        self._bytes[vhost] = received + figures.get("bytes_in", 0), sent + figures.get("bytes_out", 0)

    def vhost_deleted(self, vhost: str) -> None:
        """One of the same name begins anew; the node's sums stay."""
        received, sent = self._bytes.pop(vhost, (0, 0))
        before = self._bytes.get(NOWHERE, (0, 0))
        self._bytes[NOWHERE] = before[0] + received, before[1] + sent
        for protocol, of in [key for key in self._counted if key[1] == vhost]:
            self._counted.setdefault((protocol, NOWHERE), Counters()).add(self._counted.pop((protocol, of)))

    def _kept(self, vhost: str) -> str:
        return vhost if vhost in self._vhosts else NOWHERE

    @property
    def counters(self) -> Mapping[tuple[str, str], Counters]:
        """By protocol and vhost."""
        return self._counted

    @property
    def bytes(self) -> Mapping[str, tuple[int, int]]:
        """Received and sent, by vhost."""
        return self._bytes
