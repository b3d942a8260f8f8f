"""The management API's paths about the node that is asked as a whole: its overview, the cluster's name, what it is made of."""

from __future__ import annotations

from collections.abc import AsyncIterator

from broker.exchanges.exchange import KINDS
from broker.operations.operator import MONITORING, Operator
from front.web.everywhere import Everywhere, Json
from front.web.handlers import WebFront, operator
from front.web.http import bodies
from front.web.http.request import Request, Response, json_response
from front.web.router import WebRouter
from front.web.samples.figures import SampledFigures
from front.web.samples.node_samples import THE_NODE, overview_row
from front.web.samples.node_sums import NodeSums
from front.web.samples.ranges import Ranges, ranges_asked_for
from front.web.samples.shapes import CHURN, DISK, HANDED_OUT, MESSAGES, OF_MESSAGES, SESSION
from front.web.security.access import Right
from front.web.views.node_views import context_views, listener_views

COUNTS = "counts"  # what a node adds to the overview of the cluster
RETENTION_S = {"global": [600, 3600, 28800, 86400], "basic": [600, 3600], "detailed": [600]}


class OverviewApi:
    """See the module."""

    def __init__(self, front: WebFront, everywhere: Everywhere, versions: Json) -> None:
        """`versions`: of the product, as clients know them."""
        self._front = front
        self._node = front.operations.this_node
        self._operations = front.operations
        self._everywhere = everywhere
        self._versions = versions
        everywhere.add(COUNTS, self._counts)

    def add_routes(self, router: WebRouter) -> None:
        router.add("GET", "/api/overview", self._get)
        router.add("GET", "/api/cluster-name", self._get_name)
        router.add("PUT", "/api/cluster-name", self._put_name, Right.ADMINISTRATOR)
        router.add("GET", "/api/version", self._get_version, Right.NONE)
        router.add("GET", "/api/extensions", self._get_extensions)

    async def _counts(self, who: Operator, asked: Ranges | None = None) -> AsyncIterator[Json]:
        """Of this node alone."""
        status, sums = self._node.status(who), await self._front.fresh.sums()
        yield {
            "objects": {name: getattr(status, name) for name in ("connections", "channels", "consumers")},
            **self._figures(who, sums, asked or {}).row(),
            "listeners": listener_views(self._node.name, status.facts.listeners),
            "contexts": context_views(self._node.name, status.facts.listeners),
        }

    def _figures(self, who: Operator, sums: NodeSums, asked: Ranges) -> SampledFigures:
        """Who does not see all vhosts is shown the messages of those that they see."""
        samples, now = self._front.samples, self._front.wall_ms()
        row = overview_row(sums, self._node.churn(who))
        whole = samples.overview.figures(THE_NODE, row, now, asked)
        if who.has_tag(MONITORING):
            return whole
        found = whole.only(CHURN)
        for record in self._operations.vhosts.listed(who):
            found = found.with_those_of(samples.vhosts.figures(record.name, sums.of(record.name), now, asked))
        return found

    async def _get(self, request: Request) -> Response:
        who = operator(request)
        found = await self._everywhere.find(COUNTS, who, ranges_asked_for(request))
        figures = SampledFigures.of_nodes(found.rows)
        answer = {
            **self._versions,
            **self._node.identity(who),
            "cluster_name": self._node.cluster_name(),
            **_SETTINGS,
            "exchange_types": exchange_types(),
            "message_stats": figures.shown((*SESSION, *HANDED_OUT, *DISK)),
            "churn_rates": figures.shown(CHURN),
            "queue_totals": figures.shown((*OF_MESSAGES, *MESSAGES)),
            "object_totals": {
                **_summed(found.rows, "objects"),
                "exchanges": self._operations.resources.count_exchanges(who),
                "queues": self._operations.resources.count_queues(who),
            },
            "listeners": [one for row in found.rows for one in row["listeners"]],
            "contexts": [one for row in found.rows for one in row["contexts"]],
        }
        return Response(200, json_response(answer).body, headers=found.headers())

    async def _get_name(self, request: Request) -> Response:
        return json_response({"name": self._node.cluster_name()})

    async def _put_name(self, request: Request) -> Response:
        name = bodies.text(request.json_object(), "name")
        await self._front.done(self._node.name_cluster(operator(request), name))
        return Response(204)

    async def _get_version(self, request: Request) -> Response:
        return json_response(self._versions["rabbitmq_version"])

    async def _get_extensions(self, request: Request) -> Response:
        """What adds pages to RabbitMQ's."""
        return json_response([])


_SETTINGS = {
    "rates_mode": "basic",
    "sample_retention_policies": RETENTION_S,
    "default_queue_type": "classic",
    "cluster_tags": {},
    "node_tags": {},
    "disable_stats": False,
    "enable_queue_totals": False,
    "is_op_policy_updating_enabled": True,
    "require_definition_json_extension": False,
    "statistics_db_event_queue": 0,
}


def exchange_types() -> list[Json]:
    return [{"name": name, "description": f"exchange type {name}", "enabled": True} for name in sorted(KINDS)]


def _summed(rows: list[Json], part: str) -> dict[str, int]:
    summed: dict[str, int] = {}
    for row in rows:
        for name, count in row[part].items():
            summed[name] = summed.get(name, 0) + count
    return summed
