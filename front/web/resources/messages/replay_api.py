"""Paths of Leveret's own that publish messages again which have left a queue: dry runs, and replays with their progress."""

from __future__ import annotations

from contextlib import closing

from broker.operations.replays import ReplayView
from broker.replay.replay_order import CONSUMED, RATE_DEFAULT, ReplayOrder, place_text, read_place
from front.node_ports import ReplayCoverage
from front.replaying import Replaying
from front.started_job import StartedJob
from front.web.everywhere import Everywhere, Json
from front.web.handlers import WebFront, operator
from front.web.http import bodies
from front.web.http.bodies import Body
from front.web.http.request import Request, Response, json_response
from front.web.resources.exchanges_api import exchange_named
from front.web.resources.messages.message_jobs_api import MessageJobsApi
from front.web.router import WebRouter
from front.web.security.access import Right


class ReplayApi:
    """See the module."""

    def __init__(self, front: WebFront, everywhere: Everywhere, replaying: Replaying) -> None:
        self._front = front
        self._replaying = replaying
        self._node = front.operations.this_node.name
        self._jobs = MessageJobsApi(everywhere, replaying.replays, self._node, "replay", replay_view)

    def add_routes(self, router: WebRouter) -> None:
        router.add("POST", "/api/leveret/queues/{vhost}/{queue}/replay", self._post, Right.ADMINISTRATOR)
        self._jobs.add_routes(router)

    async def _post(self, request: Request, vhost: str, queue: str) -> Response:
        body = request.json_object()
        order = _order(body, vhost, queue)
        if bodies.flag(body, "dry_run"):
            with self._front.visit(request, vhost) as session:
                return json_response(coverage_view(await self._replaying.forecast(operator(request), session, order)))
        return json_response(replay_view(self._begin(request, order), self._node), 202)

    def _begin(self, request: Request, order: ReplayOrder) -> ReplayView:
        """It goes on when this is answered, also when its client does not wait. Raises what keeps it from beginning."""
        with self._front.visit(request, order.vhost) as session:
            self._replaying.check(session, order)
        view = self._replaying.replays.admit(operator(request), order, request.now)
        self._front.begin(self._until_over(request, view))
        return view

    async def _until_over(self, request: Request, view: ReplayView) -> None:
        job, vhost = view.job, view.job.order.vhost
        with closing(StartedJob(self._replaying.replays, view, self._front.wall_ms)) as started:
            session = started.enter(self._front.visit(request, vhost, job, close=job.fail))
            await self._replaying.run(view, session, self._front.wall_ms)


def _order(body: Body, vhost: str, queue: str) -> ReplayOrder:
    """What is null is not given."""
    given = {name: value for name, value in body.items() if value is not None}
    order = ReplayOrder(
        vhost,
        queue,
        exchange_named(bodies.text(given, "exchange")),
        bodies.text(given, "routing_key") if "routing_key" in given else None,
        tuple(bodies.texts(given, "ends")) if "ends" in given else CONSUMED,
        bodies.number(given, "since_ms") if "since_ms" in given else None,
        bodies.number(given, "until_ms") if "until_ms" in given else None,
        read_place(bodies.text(given, "after", "")),
        bodies.text(given, "published_key") if "published_key" in given else None,
        bodies.text(given, "consumer", ""),
        bodies.number(given, "limit", 0),
        bodies.number(given, "rate", RATE_DEFAULT),
    )
    order.check()
    return order


def coverage_view(coverage: ReplayCoverage) -> Json:
    """`causes` are those that have most messages first."""
    places = {"first": coverage.first, "last": coverage.last}
    causes = [
        {"end": one.end, "exchange": one.exchange, "routing_key": one.routing_key, "messages": one.messages}
        for one in sorted(coverage.causes, key=lambda one: one.messages, reverse=True)
    ]
    shown = {
        name: getattr(coverage, name)
        for name in (
            "messages", "skipped", "uncommitted", "unnamed", "more", "unknown", "files", "files_skipped", "from_time",
            "to_time", "damaged_bytes",
        )
    }  # fmt: skip
    return {**shown, **{name: place_text(place or ()) for name, place in places.items()}, "causes": causes}


def replay_view(view: ReplayView, node: str) -> Json:
    job, order = view.job, view.job.order
    return {
        "id": view.id,
        "node": node,
        "vhost": order.vhost,
        "queue": order.queue,
        "user": view.user,
        "state": job.state.value,
        "error": job.error,
        "chosen": job.chosen,
        **{fate.value: count for fate, count in job.fates.items()},
        "answered_to": place_text(job.answered_to),
        "began_at": view.began_at,
        "ended_at": view.ended_at,
        "exchange": order.exchange,
        "routing_key": order.routing_key,
        "rate": order.rate,
        "limit": order.limit,
    }
