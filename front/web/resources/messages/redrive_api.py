"""Paths of Leveret's own that move messages of a dead-letter queue back: dry runs, and redrives with their progress."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from broker.json_values import readable
from broker.operations.redrives import RedriveView
from broker.pending import Pending
from broker.redrive.counts import RedriveCounts
from broker.redrive.order import RedriveOrder
from front.redriving import StartedRedrive
from front.web.everywhere import Everywhere, Json
from front.web.handlers import WebFront, operator
from front.web.http import bodies
from front.web.http.bodies import Body
from front.web.http.request import Request, Response, json_response
from front.web.resources.exchanges_api import exchange_named
from front.web.resources.messages.message_jobs_api import MessageJobsApi
from front.web.router import WebRouter
from front.web.security.access import Right


class RedriveApi:
    """See the module."""

    def __init__(self, front: WebFront, everywhere: Everywhere) -> None:
        self._front = front
        self._redrives = front.operations.redrives
        self._node = front.operations.this_node.name
        self._jobs = MessageJobsApi(everywhere, self._redrives, self._node, "redrive", redrive_view)

    def add_routes(self, router: WebRouter) -> None:
        router.add("POST", "/api/leveret/queues/{vhost}/{queue}/redrive", self._post, Right.VHOST)
        self._jobs.add_routes(router)

    # beginning

    async def _post(self, request: Request, vhost: str, queue: str) -> Response:
        body = request.json_object()
        order = _order(body, vhost, queue)
        if bodies.flag(body, "dry_run"):
            return json_response(await self._forecast(request, order))
        return json_response(redrive_view(self._begin(request, order), self._node), 202)

    async def _forecast(self, request: Request, order: RedriveOrder) -> Json:
        forecast = self._redrives.forecast(operator(request), order)
        with self._front.visit(request, order.vhost) as session:
            return counts_view(await self._front.done(forecast.begin(session, request.now)))

    def _begin(self, request: Request, order: RedriveOrder) -> RedriveView:
        """It goes on when this is answered, also when its client does not wait. Raises what keeps it from beginning."""
        view = self._redrives.admit(operator(request), order, request.now)
        started = StartedRedrive(self._redrives, view, self._front.wall_ms)
        visit = self._front.visit(request, order.vhost, view.job, close=view.job.fail)
        self._front.begin(self._until_over(started, started.begin(visit, request.now)))
        return view

    async def _until_over(self, started: StartedRedrive, over: Pending[None]) -> None:
        with closing(started):
            await self._front.done(over)


def _order(body: Body, vhost: str, queue: str) -> RedriveOrder:
    """An exchange or key that is null is not given."""
    exchange = None if body.get("exchange") is None else exchange_named(bodies.text(body, "exchange"))
    key = None if body.get("routing_key") is None else bodies.text(body, "routing_key")
    reason, died_in = bodies.text(body, "reason", ""), bodies.text(body, "died_in", "")
    order = RedriveOrder(vhost, queue, exchange, key, reason, died_in, bodies.number(body, "limit", 0))
    order.check()
    return order


def counts_view(counts: RedriveCounts) -> Json:
    """`causes` are those that have most messages first."""
    causes = [
        {**dict(zip(cause._fields, map(readable, cause), strict=True)), "messages": messages}
        for cause, messages in counts.causes.items()
    ]
    return {
        "ready": counts.ready,
        "seen": counts.seen,
        **{fate.value: count for fate, count in counts.by_fate.items()},
        "causes": sorted(causes, key=lambda cause: cause["messages"], reverse=True),
    }


def redrive_view(view: RedriveView, node: str) -> Json:
    job, order = view.job, view.job.order
    shown: dict[str, Any] = {
        "id": view.id,
        "node": node,
        "vhost": order.vhost,
        "queue": order.queue,
        "user": view.user,
        "state": job.state.value,
        "error": job.error,
        "moved": job.moved,
        "began_at": view.began_at,
        "ended_at": view.ended_at,
        "exchange": order.exchange,
        "routing_key": order.routing_key,
        "reason": order.reason,
        "died_in": order.died_in,
        "limit": order.limit,
    }
    return {**shown, **counts_view(job.counts)}
