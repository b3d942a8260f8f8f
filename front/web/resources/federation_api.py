"""The management API's paths about federation links. Each node says what it runs; upstreams are parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from broker.errors import NotFound
from broker.operations.federation_facts import FederationLinkFacts, NodeFederationPort
from broker.operations.operator import POLICYMAKER, Operator
from front.times import shown_time
from front.web.everywhere import Everywhere, Json
from front.web.handlers import WebFront, operator
from front.web.http.request import Request, Response
from front.web.lists.listing import ListOf, listed
from front.web.router import WebRouter
from front.web.security.access import Right

LINKS = "federation links"
RESTART = "restart federation link"
UP = ("running", "starting")

LISTED: ListOf[Json] = ListOf(
    lambda row: row,
    order=lambda row: (row["vhost"], row["type"], row[row["type"]], row["upstream"], row["id"]),
    name=lambda row: row[row["type"]],
)


class FederationApi:
    """See the module."""

    def __init__(self, front: WebFront, everywhere: Everywhere, federation: NodeFederationPort | None) -> None:
        self._catalog = front.broker.catalog
        self._node = front.operations.this_node.name
        self._everywhere = everywhere
        self._federation = federation
        everywhere.add(LINKS, self._rows)
        everywhere.add(RESTART, self._restarted)

    def add_routes(self, router: WebRouter) -> None:
        router.add("GET", "/api/federation-links", self._get_all)
        router.add("GET", "/api/federation-links/state/down", self._get_down)
        router.add("GET", "/api/federation-links/{vhost}", self._get_all, Right.VHOST)
        router.add("GET", "/api/federation-links/{vhost}/state/down", self._get_down, Right.VHOST)
        one = "/api/federation-links/vhost/{vhost}/{link}/{node}/restart"
        router.add("DELETE", one, self._restart, Right.VHOST_POLICYMAKER)

    # what this node says

    def _rows(self, who: Operator, vhost: str | None) -> Iterator[Json]:
        seen = set(who.vhosts(self._catalog, vhost))
        facts = [] if self._federation is None else self._federation.facts()
        return (link_view(self._node, one) for one in facts if one.vhost in seen)

    def _restarted(self, who: Operator, vhost: str, link: str, node: str) -> Iterator[Json]:
        """A row says that it was."""
        who.require_tag(POLICYMAKER)
        who.check_may_see(self._catalog, vhost)
        is_here = node == self._node and self._federation is not None and self._federation.restart(vhost, link)
        return iter([{"node": self._node}] if is_here else [])

    # paths

    async def _get_all(self, request: Request, vhost: str | None = None) -> Response:
        return await self._get(request, vhost, only_down=False)

    async def _get_down(self, request: Request, vhost: str | None = None) -> Response:
        return await self._get(request, vhost, only_down=True)

    async def _get(self, request: Request, vhost: str | None, *, only_down: bool) -> Response:
        found = await self._everywhere.find(LINKS, operator(request), vhost)
        rows = [row for row in found.rows if not (only_down and row["status"] in UP)]
        return replace(await listed(request, rows, LISTED), headers=found.headers())

    async def _restart(self, request: Request, vhost: str, link: str, node: str) -> Response:
        found = await self._everywhere.find(RESTART, operator(request), vhost, link, node)
        if not found.rows:
            raise NotFound(f"no federation link '{link}' of vhost '{vhost}' runs on node '{node}'")
        return Response(204)


def link_view(node: str, one: FederationLinkFacts) -> Json:
    """As RabbitMQ shows it, and what only Leveret knows."""
    shown: Json = {
        "node": node,
        one.kind: one.name,
        f"upstream_{one.kind}": one.name_there,
        "type": one.kind,
        "vhost": one.vhost,
        "upstream": one.upstream,
        "id": one.id,
        "status": one.status,
        "uri": one.uri,
        "timestamp": shown_time(one.since_ms),
        "passed_on": one.passed_on,
        "dropped": one.dropped,
        "refused": one.refused,
        "unconfirmed": one.unconfirmed,
        "restarts": one.restarts,
    }
    if one.consumer_tag:
        shown["consumer_tag"] = one.consumer_tag
    if one.local_connection:
        shown["local_connection"] = one.local_connection
    if one.error:
        shown["error"] = one.error
    return shown
