"""The management API's paths about the node that is asked as a whole: its overview, the cluster's name, what it is made of."""

from __future__ import annotations

from typing import Any

from broker.exchanges.exchange import KINDS
from broker.operations.operator import Operator
from broker.operations.this_node import QueueTotals
from front.slices import made_in_slices
from front.web import bodies
from front.web.access import Right
from front.web.everywhere import Everywhere, Json
from front.web.handlers import WebFront, operator
from front.web.message_stats import session_counts, with_rates
from front.web.node_views import context_views, listener_views
from front.web.request import Request, Response, json_response
from front.web.router import WebRouter

COUNTS = "counts"  # what a node adds to the overview of the cluster
RETENTION_S = {"global": [600, 3600, 28800, 86400], "basic": [600, 3600], "detailed": [600]}
_CHURN = {
    "connections_opened": "connection_created",
    "connections_closed": "connection_closed",
    "channels_opened": "channel_created",
    "channels_closed": "channel_closed",
    "queues_declared": "queue_declared",
    "queues_created": "queue_created",
    "queues_deleted": "queue_deleted",
}


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

    def _counts(self, who: Operator) -> list[Json]:
        """Of this node alone."""
        status, totals = self._node.status(who), self._node.churn(who)
        return [
            {
                "objects": {name: getattr(status, name) for name in ("connections", "channels", "consumers")},
                "churn": {name: getattr(totals, ours) for ours, name in _CHURN.items()},
                "messages": session_counts(self._node.counters(who)),
                "listeners": listener_views(self._node.name, status.facts.listeners),
                "contexts": context_views(self._node.name, status.facts.listeners),
            }
        ]

    async def _get(self, request: Request) -> Response:
        who = operator(request)
        found = await self._everywhere.find(COUNTS, who)
        queues = QueueTotals()
        async for figures in made_in_slices(self._operations.resources.figures(who)):
            queues.add(figures)
        messages = {"messages": queues.ready + queues.unacknowledged, "messages_ready": queues.ready}
        answer = {
            **self._versions,
            **self._node.identity(who),
            "cluster_name": self._node.cluster_name(),
            **_SETTINGS,
            "exchange_types": exchange_types(),
            "message_stats": self._rated("message_stats", _summed(found.rows, "messages") | _disk(queues)),
            "churn_rates": self._rated("churn_rates", _summed(found.rows, "churn")),
            "queue_totals": self._rated(
                f"queue_totals of {who.name}", {**messages, "messages_unacknowledged": queues.unacknowledged}
            ),
            "object_totals": {
                **_summed(found.rows, "objects"),
                "exchanges": self._operations.resources.count_exchanges(who),
                "queues": queues.queues,
            },
            "listeners": [one for row in found.rows for one in row["listeners"]],
            "contexts": [one for row in found.rows for one in row["contexts"]],
        }
        return Response(200, json_response(answer).body, headers=found.headers())

    def _rated(self, part: str, counted: dict[str, int]) -> Json:
        return self._front.rates.fill(part, with_rates(counted))

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


def _disk(queues: QueueTotals) -> dict[str, Any]:
    return {"disk_reads": queues.disk_reads, "disk_writes": queues.disk_writes}
