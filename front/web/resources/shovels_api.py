"""The management API's paths about shovels. Each node says what it runs; declaring one is setting a parameter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

from broker.errors import NotFound
from broker.operations.operator import POLICYMAKER, Operator
from broker.operations.shovel_facts import COMPONENT, NodeShovelsPort, ShovelEnd, ShovelFacts
from front.web.everywhere import Everywhere, Json
from front.web.handlers import WebFront, operator
from front.web.http.request import Request, Response, json_response
from front.web.lists.listing import ListOf, listed
from front.web.router import WebRouter
from front.web.security.access import Right

SHOVELS = "shovels"
RESTART = "restart shovel"

LISTED: ListOf[Json] = ListOf(
    lambda row: row, order=lambda row: (row["vhost"], row["name"]), name=lambda row: row["name"]
)


class ShovelsApi:
    """See the module."""

    def __init__(self, front: WebFront, everywhere: Everywhere, shovels: NodeShovelsPort | None) -> None:
        self._front = front
        self._catalog = front.broker.catalog
        self._node = front.operations.this_node.name
        self._parameters = front.operations.parameters
        self._everywhere = everywhere
        self._shovels = shovels
        everywhere.add(SHOVELS, self._rows)
        everywhere.add(RESTART, self._restarted)

    def add_routes(self, router: WebRouter) -> None:
        router.add("GET", "/api/shovels", self._get_all)
        router.add("GET", "/api/shovels/{vhost}", self._get_all, Right.VHOST)
        one = "/api/shovels/vhost/{vhost}/{name}"
        router.add("GET", one, self._get, Right.VHOST)
        router.add("DELETE", one, self._delete, Right.VHOST_POLICYMAKER)
        router.add("DELETE", f"{one}/restart", self._restart, Right.VHOST_POLICYMAKER)

    # what this node says

    def _rows(self, who: Operator, vhost: str | None) -> Iterator[Json]:
        seen = set(who.vhosts(self._catalog, vhost))
        facts = [] if self._shovels is None else self._shovels.facts()
        return (shovel_view(self._node, one) for one in facts if one.vhost in seen)

    def _restarted(self, who: Operator, vhost: str, name: str) -> Iterator[Json]:
        """A row says that it was."""
        who.require_tag(POLICYMAKER)
        who.check_may_see(self._catalog, vhost)
        done = self._shovels is not None and self._shovels.restart(vhost, name)
        return iter([{"node": self._node}] if done else [])

    # paths

    async def _get_all(self, request: Request, vhost: str | None = None) -> Response:
        found = await self._everywhere.find(SHOVELS, operator(request), vhost)
        response = await listed(request, found.rows, LISTED)
        return replace(response, headers=found.headers())

    async def _get(self, request: Request, vhost: str, name: str) -> Response:
        found = await self._everywhere.find(SHOVELS, operator(request), vhost)
        rows = [row for row in found.rows if row["name"] == name]
        if not rows:
            raise _none(vhost, name)
        return json_response(rows[0])

    async def _delete(self, request: Request, vhost: str, name: str) -> Response:
        await self._front.done(self._parameters.clear(operator(request), COMPONENT, vhost, name))
        return Response(204)

    async def _restart(self, request: Request, vhost: str, name: str) -> Response:
        found = await self._everywhere.find(RESTART, operator(request), vhost, name)
        if not found.rows:
            raise _none(vhost, name)
        return Response(204)


def _none(vhost: str, name: str) -> NotFound:
    return NotFound(f"no shovel '{name}' runs in vhost '{vhost}'")


def shovel_view(node: str, one: ShovelFacts) -> Json:
    """As RabbitMQ shows it, and what only Leveret knows."""
    shown: Json = {
        "node": node,
        "timestamp": _time(one.since_ms),
        "name": one.name,
        "vhost": one.vhost,
        "type": "dynamic",
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


def _time(since_ms: int) -> str:
    return datetime.fromtimestamp(since_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
