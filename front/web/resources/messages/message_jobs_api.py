"""Looking at jobs that move messages, of all nodes, and cancelling one: the same for redrives and replays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Generic, TypeVar

from broker.errors import NotFound
from broker.operations.message_jobs import JobView, MessageJob, MessageJobs
from broker.operations.operator import Operator
from front.web.everywhere import Everywhere, Json
from front.web.handlers import operator
from front.web.http.refusals import missing
from front.web.http.request import Request, Response, json_response
from front.web.router import WebRouter

J = TypeVar("J", bound=MessageJob)


class MessageJobsApi(Generic[J]):
    """Of one kind, whose name is that of its paths: redrive or replay."""

    def __init__(
        self,
        everywhere: Everywhere,
        jobs: MessageJobs[J],
        node: str,
        kind: str,
        view: Callable[[JobView[J], str], Json],
    ) -> None:
        self._everywhere = everywhere
        self._jobs = jobs
        self._node = node
        self._kind = kind
        self._view = view
        self._listing, self._cancelling = f"{kind}s", f"cancel {kind}"
        everywhere.add(self._listing, self._listed)
        everywhere.add(self._cancelling, self._cancelled)

    def add_routes(self, router: WebRouter) -> None:
        router.add("GET", f"/api/leveret/{self._kind}s", self._get_all)
        router.add("GET", f"/api/leveret/{self._kind}s/{{id_}}", self._get)
        router.add("DELETE", f"/api/leveret/{self._kind}s/{{id_}}", self._delete)

    # what this node says

    def _listed(self, who: Operator) -> Iterator[Json]:
        return (self._view(one, self._node) for one in self._jobs.all(who))

    def _cancelled(self, who: Operator, id_: str) -> list[Json]:
        self._jobs.cancel(who, id_)
        return [{"cancelled": id_}]

    # paths

    async def _get_all(self, request: Request) -> Response:
        found = await self._everywhere.find(self._listing, operator(request))
        rows = sorted(found.rows, key=lambda row: row["began_at"], reverse=True)
        return replace(json_response(rows), headers=found.headers())

    async def _get(self, request: Request, id_: str) -> Response:
        return json_response(await self._one(request, id_))

    async def _one(self, request: Request, id_: str) -> Json:
        found = await self._everywhere.find(self._listing, operator(request))
        for row in found.rows:
            if row["id"] == id_:
                return row
        raise missing(f"no {self._kind} '{id_}' that the user may see")

    async def _delete(self, request: Request, id_: str) -> Response:
        """On whichever node it runs."""
        who = operator(request)
        try:
            self._jobs.cancel(who, id_)
        except NotFound:
            row = await self._one(request, id_)
            if row["node"] == self._node or not await self._everywhere.find_on(row["node"], self._cancelling, who, id_):
                raise
        return Response(204)
