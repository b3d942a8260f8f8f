"""The management API's paths about shovels. Declaring one is setting a parameter."""

from __future__ import annotations

from dataclasses import replace

from front.cluster_shovels import ClusterShovels
from front.web.everywhere import ClusterRows, Json
from front.web.handlers import WebFront, operator
from front.web.http.request import Request, Response, json_response
from front.web.lists.listing import ListOf, listed
from front.web.router import WebRouter
from front.web.security.access import Right

LISTED: ListOf[Json] = ListOf(
    lambda row: row, order=lambda row: (row["vhost"], row["name"]), name=lambda row: row["name"]
)


class ShovelsApi:
    """See the module."""

    def __init__(self, front: WebFront, shovels: ClusterShovels) -> None:
        self._front = front
        self._shovels = shovels

    def add_routes(self, router: WebRouter) -> None:
        router.add("GET", "/api/shovels", self._get_all)
        router.add("GET", "/api/shovels/{vhost}", self._get_all, Right.VHOST)
        one = "/api/shovels/vhost/{vhost}/{name}"
        router.add("GET", one, self._get, Right.VHOST)
        router.add("DELETE", one, self._delete, Right.VHOST_POLICYMAKER)
        router.add("DELETE", f"{one}/restart", self._restart, Right.VHOST_POLICYMAKER)

    async def _get_all(self, request: Request, vhost: str | None = None) -> Response:
        found = await self._shovels.listed(operator(request), vhost)
        response = await listed(request, found.rows, LISTED)
        return replace(response, headers=ClusterRows(found.rows, found.missing).headers())

    async def _get(self, request: Request, vhost: str, name: str) -> Response:
        return json_response(await self._shovels.one(operator(request), vhost, name))

    async def _delete(self, request: Request, vhost: str, name: str) -> Response:
        await self._front.done(await self._shovels.delete(operator(request), vhost, name))
        return Response(204)

    async def _restart(self, request: Request, vhost: str, name: str) -> Response:
        await self._shovels.restart(operator(request), vhost, name)
        return Response(204)
