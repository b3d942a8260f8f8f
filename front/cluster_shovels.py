"""Shovels as operators see and change them from any node: each node says which of them it runs.

Declaring one is setting a parameter, deleting it is clearing that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Protocol

from broker.catalog.catalog import Catalog
from broker.errors import NotFound, PreconditionFailed
from broker.operations.operator import MANAGEMENT, POLICYMAKER, Operator
from broker.operations.parameters import Parameters
from broker.operations.shovel_facts import COMPONENT, NodeShovelsPort, ShovelEnd, ShovelFacts, waiting_shovel
from broker.pending import Pending
from broker.records import ParameterRecord
from front.times import shown_time

SHOVELS = "shovels"
RESTART = "restart shovel"

Json = dict[str, Any]


class FoundRows(Protocol):
    @property
    def rows(self) -> list[Json]:
        """Its caller's own."""

    @property
    def missing(self) -> Sequence[str]: ...


class AskedNodes(Protocol):
    """What is needed of front/web/everywhere.py."""

    def add(self, what: str, source: Callable[..., Iterator[Json]]) -> None: ...

    async def find(self, what: str, who: Operator, *arguments: Any) -> FoundRows: ...


class ClusterShovels:
    """See the module. Raises BrokerErrors."""

    def __init__(
        self, node: str, catalog: Catalog, parameters: Parameters, everywhere: AskedNodes, own: NodeShovelsPort | None
    ) -> None:
        """Without `own` this node runs none."""
        self._node = node
        self._catalog = catalog
        self._parameters = parameters
        self._everywhere = everywhere
        self._own = own
        everywhere.add(SHOVELS, self._rows)
        everywhere.add(RESTART, self._restarted)

    async def listed(self, who: Operator, vhost: str | None) -> FoundRows:
        """Of one vhost, or of all that they may see."""
        who.require_tag(MANAGEMENT)
        seen = set(who.vhosts(self._catalog, vhost))
        found = await self._everywhere.find(SHOVELS, who, vhost)
        if not found.missing:
            found.rows.extend(self._waiting(seen, {(row["vhost"], row["name"]) for row in found.rows}))
        return found

    def _waiting(self, vhosts: Collection[str], running: Collection[tuple[str, str]]) -> Iterator[Json]:
        """Those that are declared, and no node has begun to run."""
        for record in self._catalog.parameters():
            is_shovel = record.component == COMPONENT and record.vhost in vhosts
            if is_shovel and (record.vhost, record.name) not in running:
                yield shovel_row("", waiting_shovel(record.vhost, record.name))

    async def one(self, who: Operator, vhost: str, name: str) -> Json:
        found = await self.listed(who, vhost)
        for row in found.rows:
            if row["name"] == name:
                return row
        raise _none_runs(vhost, name)

    def put(self, who: Operator, vhost: str, name: str, definition: Any, *, create_only: bool) -> Pending[bool]:
        """Answers whether there was one."""
        if create_only and self._catalog.parameter(vhost, COMPONENT, name) is not None:
            who.check_may_see(self._catalog, vhost)
            raise PreconditionFailed(f"there is a shovel '{name}' in vhost '{vhost}' already")
        return self._parameters.set(who, ParameterRecord(vhost, COMPONENT, name, definition))

    async def delete(self, who: Operator, vhost: str, name: str) -> Pending[Any]:
        if self._catalog.parameter(vhost, COMPONENT, name) is None and await self._is_static(who, vhost, name):
            raise PreconditionFailed(
                f"shovel '{name}' is of the configuration file: take it out there, and start its nodes again"
            )
        return self._parameters.clear(who, COMPONENT, vhost, name)

    async def _is_static(self, who: Operator, vhost: str, name: str) -> bool:
        found = await self.listed(who, vhost)
        return any((row["name"], row["type"]) == (name, "static") for row in found.rows)

    async def restart(self, who: Operator, vhost: str, name: str) -> None:
        who.require_tag(POLICYMAKER)
        who.check_may_see(self._catalog, vhost)
        found = await self._everywhere.find(RESTART, who, vhost, name)
        if not found.rows:
            raise _none_runs(vhost, name)

    # what this node says

    def _rows(self, who: Operator, vhost: str | None) -> Iterator[Json]:
        seen = set(who.vhosts(self._catalog, vhost))
        facts = [] if self._own is None else self._own.facts()
        return (shovel_row(self._node, one) for one in facts if one.vhost in seen)

    def _restarted(self, who: Operator, vhost: str, name: str) -> Iterator[Json]:
        """A row says that it was."""
        who.require_tag(POLICYMAKER)
        who.check_may_see(self._catalog, vhost)
        done = self._own is not None and self._own.restart(vhost, name)
        return iter([{"node": self._node}] if done else [])


def _none_runs(vhost: str, name: str) -> NotFound:
    return NotFound(f"no shovel '{name}' runs in vhost '{vhost}'")


def shovel_row(node: str, one: ShovelFacts) -> Json:
    """As RabbitMQ shows it, and what only Leveret knows."""
    shown: Json = {
        "node": node,
        "timestamp": shown_time(one.since_ms),
        "since_ms": one.since_ms,
        "name": one.name,
        "vhost": one.vhost,
        "type": one.type,
        "state": one.state,
        **_end("src", one.source),
        **_end("dest", one.destination),
        "blocked_status": one.state,
        "pending": one.pending,
        "forwarded": one.forwarded,
        "unconfirmed": one.unconfirmed,
        "returned": one.returned,
        "restarts": one.restarts,
        "stalls": one.stalls,
    }
    if one.reason:
        shown["reason"] = one.reason
    if one.remaining is not None:
        shown |= {"remaining": one.remaining, "remaining_unacked": one.remaining_unacked}
    return shown


def _end(which: str, end: ShovelEnd) -> Json:
    shown: Json = {f"{which}_uri": end.uri, f"{which}_protocol": end.protocol}
    if end.queue:
        shown[f"{which}_queue"] = end.queue
    if end.exchange is not None:
        shown[f"{which}_exchange"] = end.exchange
    if end.exchange_key is not None:
        shown[f"{which}_exchange_key"] = end.exchange_key
    return shown
