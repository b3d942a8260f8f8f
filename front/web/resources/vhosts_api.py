"""The management API's paths about virtual hosts and their limits."""

from __future__ import annotations

from broker.records import VhostRecord
from front.web import bodies
from front.web.access import Right
from front.web.handlers import WebFront, operator, put
from front.web.listing import ListOf, listed
from front.web.request import Request, Response, json_response
from front.web.router import WebRouter
from front.web.views import vhost_view

LISTED = ListOf(vhost_view, order=lambda record: record.name, name=lambda record: record.name)


class VhostsApi:
    """See the module."""

    def __init__(self, front: WebFront) -> None:
        self._front = front
        self._vhosts = front.operations.vhosts

    def add_routes(self, router: WebRouter) -> None:
        router.add("GET", "/api/vhosts", self._get_all)
        one = "/api/vhosts/{vhost}"
        router.add("GET", one, self._get, Right.ADMINISTRATOR)
        router.add("PUT", one, self._put, Right.ADMINISTRATOR)
        router.add("DELETE", one, self._delete, Right.ADMINISTRATOR)
        router.add("POST", f"{one}/deletion/protection", self._protect, Right.ADMINISTRATOR)
        router.add("DELETE", f"{one}/deletion/protection", self._unprotect, Right.ADMINISTRATOR)

    async def _get_all(self, request: Request) -> Response:
        return await listed(request, self._vhosts.listed(operator(request)), LISTED)

    async def _get(self, request: Request, vhost: str) -> Response:
        return json_response(vhost_view(self._vhosts.one(operator(request), vhost)))

    async def _put(self, request: Request, vhost: str) -> Response:
        body = request.json_object()
        record = VhostRecord(
            vhost,
            description=bodies.text(body, "description", ""),
            tags=bodies.tags(body),
            default_queue_type=bodies.text(body, "default_queue_type", "classic"),
            protected_from_deletion=bodies.flag(body, "protected_from_deletion"),
        )
        return put(await self._front.done(self._vhosts.put(operator(request), record)))

    async def _delete(self, request: Request, vhost: str) -> Response:
        await self._front.done(self._vhosts.delete(operator(request), vhost))
        return Response(204)

    async def _protect(self, request: Request, vhost: str) -> Response:
        await self._front.done(self._vhosts.protect(operator(request), vhost, protected=True))
        return Response(204)

    async def _unprotect(self, request: Request, vhost: str) -> Response:
        await self._front.done(self._vhosts.protect(operator(request), vhost, protected=False))
        return Response(204)
