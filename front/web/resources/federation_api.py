"""The management API's paths about federation links."""

from __future__ import annotations

from dataclasses import replace

from front.cluster_federation import UP, ClusterFederation
from front.cluster_shovels import Json
from front.web.everywhere import ClusterRows
from front.web.handlers import operator
from front.web.http.request import Request, Response
from front.web.lists.listing import ListOf, listed
from front.web.router import WebRouter
from front.web.security.access import Right

LISTED: ListOf[Json] = ListOf(
    lambda row: row,
    order=lambda row: (row["vhost"], row["type"], row[row["type"]], row["upstream"], row["id"]),
    name=lambda row: row[row["type"]],
)


class FederationApi:
    """See the module."""

    def __init__(self, federation: ClusterFederation) -> None:
        self._federation = federation

    def add_routes(self, router: WebRouter) -> None:
        router.add("GET", "/api/federation-links", self._get_all)
        router.add("GET", "/api/federation-links/state/down", self._get_down)
        router.add("GET", "/api/federation-links/{vhost}", self._get_all, Right.VHOST)
        router.add("GET", "/api/federation-links/{vhost}/state/down", self._get_down, Right.VHOST)
        one = "/api/federation-links/vhost/{vhost}/{link}/{node}/restart"
        router.add("DELETE", one, self._restart, Right.VHOST_POLICYMAKER)

    async def _get_all(self, request: Request, vhost: str | None = None) -> Response:
        return await self._get(request, vhost, only_down=False)

    async def _get_down(self, request: Request, vhost: str | None = None) -> Response:
        return await self._get(request, vhost, only_down=True)

    async def _get(self, request: Request, vhost: str | None, *, only_down: bool) -> Response:
        found = await self._federation.listed(operator(request), vhost)
        rows = [row for row in found.rows if not (only_down and row["status"] in UP)]
        return replace(await listed(request, rows, LISTED), headers=ClusterRows(rows, found.missing).headers())

    async def _restart(self, request: Request, vhost: str, link: str, node: str) -> Response:
        await self._federation.restart(operator(request), vhost, link, node)
        return Response(204)
