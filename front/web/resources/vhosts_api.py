"""The management API's paths about virtual hosts and their limits."""

from __future__ import annotations

from collections.abc import AsyncIterator

from broker.operations.operator import Operator
from broker.records import VhostRecord
from front.web.everywhere import Everywhere, Json
from front.web.handlers import WebFront, operator, put
from front.web.http import bodies
from front.web.http.request import Request, Response, json_response
from front.web.lists.listing import ListOf, listed
from front.web.router import WebRouter
from front.web.samples.figures import SampledFigures
from front.web.samples.ranges import Ranges, ranges_asked_for
from front.web.security.access import Right
from front.web.views.declared_views import vhost_view

VHOSTS = "vhosts"
ASKED_AT_ONCE = 500


class VhostsApi:
    """See the module."""

    def __init__(self, front: WebFront, everywhere: Everywhere) -> None:
        self._front = front
        self._node = front.operations.this_node.name
        self._vhosts = front.operations.vhosts
        self._everywhere = everywhere
        everywhere.add(VHOSTS, self._here)

    def add_routes(self, router: WebRouter) -> None:
        router.add("GET", "/api/vhosts", self._get_all)
        one = "/api/vhosts/{vhost}"
        router.add("GET", one, self._get, Right.ADMINISTRATOR)
        router.add("PUT", one, self._put, Right.ADMINISTRATOR)
        router.add("DELETE", one, self._delete, Right.ADMINISTRATOR)
        router.add("POST", f"{one}/deletion/protection", self._protect, Right.ADMINISTRATOR)
        router.add("DELETE", f"{one}/deletion/protection", self._unprotect, Right.ADMINISTRATOR)

    async def _here(self, who: Operator, names: list[str], asked: Ranges | None = None) -> AsyncIterator[Json]:
        """What clients and queues of this node add to these vhosts."""
        sums, samples, now = await self._front.fresh.sums(), self._front.samples, self._front.wall_ms()
        seen = {record.name for record in self._vhosts.listed(who)}
        for name in filter(seen.__contains__, names):
            if asked:
                samples.vhosts.look_at(name, now)
            figures = samples.vhosts.figures(name, sums.of(name), now, asked or {})
            yield {"vhost": name, "node": self._node, **figures.row()}

    async def _told(self, who: Operator, names: list[str], asked: Ranges | None = None) -> dict[str, list[Json]]:
        """What all nodes say of each."""
        told: dict[str, list[Json]] = {}
        for at in range(0, len(names), ASKED_AT_ONCE):
            found = await self._everywhere.find(VHOSTS, who, names[at : at + ASKED_AT_ONCE], asked)
            for row in found.rows:
                told.setdefault(row["vhost"], []).append(row)
        return told

    async def _get_all(self, request: Request) -> Response:
        who, told = operator(request), dict[str, list[Json]]()

        async def ask(records: list[VhostRecord]) -> None:
            told.update(await self._told(who, [record.name for record in records]))

        def show(record: VhostRecord) -> Json:
            return _shown(record, told.get(record.name, []))

        kind = ListOf(show, lambda record: record.name, lambda record: record.name, ask)
        return await listed(request, self._vhosts.listed(who), kind)

    async def _get(self, request: Request, vhost: str) -> Response:
        who = operator(request)
        record = self._vhosts.one(who, vhost)
        told = await self._told(who, [vhost], ranges_asked_for(request))
        return json_response(_shown(record, told.get(vhost, [])))

    async def _put(self, request: Request, vhost: str) -> Response:
        body = request.json_object()
        tracing = self._vhosts.is_traced(vhost)
        record = VhostRecord(
            vhost,
            description=bodies.text(body, "description", ""),
            tags=bodies.tags(body),
            default_queue_type=bodies.text(body, "default_queue_type", "classic"),
            protected_from_deletion=bodies.flag(body, "protected_from_deletion"),
            tracing=bodies.flag(body, "tracing") if "tracing" in body else tracing,
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


def _shown(record: VhostRecord, told: list[Json]) -> Json:
    return vhost_view(record, SampledFigures.of_nodes(told), [row["node"] for row in told])
