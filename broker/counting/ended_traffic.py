"""What clients that have gone had counted, by protocol and vhost: sums over a node or a vhost never fall."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from broker.catalog.catalog import Catalog
from broker.client_connection import Connection
from broker.counting.counters import Counters
from broker.names import DEFAULT_EXCHANGE

if TYPE_CHECKING:
    from broker.counting.flows import FlowCounts

NOWHERE = ""  # in place of vhosts that have been deleted: no vhost has this name


class EndedTraffic:
    """Of one node, since it was started."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._counted: dict[tuple[str, str], Counters] = {}  # by protocol and vhost
        self._bytes: dict[str, tuple[int, int]] = {}  # received and sent, by vhost
        self._exchanges: dict[str, dict[str, tuple[int, int]]] = {}  # messages to and from each, by vhost and name

    def session_ended(self, connection: Connection, counters: Counters) -> None:
        key = connection.protocol, self._kept(connection.vhost)
        self._counted.setdefault(key, Counters()).add(counters)

    def published(self, vhost: str, flows: FlowCounts) -> None:
        """By a session that has ended. What is published to an exchange that has been deleted meanwhile is shown nowhere."""
        if self._kept(vhost) == NOWHERE:
            return
        of = self._exchanges.setdefault(vhost, {})
        for exchange, count in flows.published.items():
            if self._exists(vhost, exchange):
                into, out = of.get(exchange, (0, 0))
                of[exchange] = into + count, out + flows.routed[exchange]
        if len(of) > self._catalog.count_exchanges(vhost) + 1:  # some went by themselves
            self._exchanges[vhost] = {name: counts for name, counts in of.items() if self._exists(vhost, name)}

    def exchange_deleted(self, vhost: str, name: str) -> None:
        self._exchanges.get(vhost, {}).pop(name, None)

    def connection_ended(self, connection: Connection) -> None:
        figures, vhost = connection.statistics(), self._kept(connection.vhost)
        received, sent = self._bytes.get(vhost, (0, 0))
        self._bytes[vhost] = received + figures.get("bytes_in", 0), sent + figures.get("bytes_out", 0)

    def vhost_deleted(self, vhost: str) -> None:
        """One of the same name begins anew; the node's sums stay."""
        self._exchanges.pop(vhost, None)
        received, sent = self._bytes.pop(vhost, (0, 0))
        before = self._bytes.get(NOWHERE, (0, 0))
        self._bytes[NOWHERE] = before[0] + received, before[1] + sent
        for protocol, of in [key for key in self._counted if key[1] == vhost]:
            self._counted.setdefault((protocol, NOWHERE), Counters()).add(self._counted.pop((protocol, of)))

    def _kept(self, vhost: str) -> str:
        return vhost if vhost in self._catalog.vhosts else NOWHERE

    def _exists(self, vhost: str, exchange: str) -> bool:
        return exchange == DEFAULT_EXCHANGE or self._catalog.exchange(vhost, exchange) is not None

    @property
    def counters(self) -> Mapping[tuple[str, str], Counters]:
        """By protocol and vhost."""
        return self._counted

    @property
    def exchanges(self) -> Mapping[str, Mapping[str, tuple[int, int]]]:
        """Messages published to each, and routed from it to queues, by vhost and name."""
        return self._exchanges

    @property
    def bytes(self) -> Mapping[str, tuple[int, int]]:
        """Received and sent, by vhost."""
        return self._bytes
