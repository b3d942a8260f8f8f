"""The management API's paths about the nodes of the cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from broker.operations.operator import Operator
from front.node_ports import ClusterPort, NodeView
from front.web.everywhere import ClusterRows, Everywhere, Json
from front.web.handlers import WebFront, operator
from front.web.http.refusals import missing
from front.web.http.request import HttpError, Request, Response, json_response
from front.web.lists.listing import ListOf, listed
from front.web.resources.nodes.overview_api import exchange_types
from front.web.router import WebRouter
from front.web.samples.node_samples import THE_NODE, node_row
from front.web.samples.ranges import Ranges, ranges_asked_for
from front.web.samples.shapes import CHURN, NODE
from front.web.security.access import Right
from front.web.views.node_views import facts_view, node_view

FACTS, LOGINS, FORGET_LOGINS = "facts", "logins", "forget logins"
NODES: ListOf[Json] = ListOf(lambda row: row, order=lambda row: row["name"], name=lambda row: row["name"])
SOURCES: ListOf[Json] = ListOf(lambda row: row, order=lambda row: row["protocol"], name=lambda row: row["protocol"])
PROTOCOLS_OF_LOGINS = {"AMQP 0-9-1": "amqp091"}
# What RabbitMQ divides memory into. Here it is one process, of which these are known.
MEMORY_PARTS = (
    "connection_readers",
    "connection_writers",
    "connection_channels",
    "connection_other",
    "queue_procs",
    "quorum_queue_procs",
    "quorum_queue_dlx_procs",
    "stream_queue_procs",
    "stream_queue_replica_reader_procs",
    "stream_queue_coordinator_procs",
    "plugins",
    "metadata_store",
    "other_proc",
    "metrics",
    "mgmt_db",
    "mnesia",
    "quorum_ets",
    "metadata_store_ets",
    "other_ets",
    "binary",
    "msg_index",
    "code",
    "atom",
    "other_system",
    "allocated_unused",
    "reserved_unallocated",
)


class NodesApi:
    """See the module."""

    def __init__(
        self, front: WebFront, everywhere: Everywhere, cluster: ClusterPort | None, versions: Mapping[str, str]
    ) -> None:
        """`versions`: of the product, as clients know them."""
        self._versions = versions
        self._samples = front.samples
        self._this_node = front.operations.this_node
        self._wall_ms = front.wall_ms
        self._everywhere = everywhere
        self._cluster = cluster
        everywhere.add(FACTS, self._facts)
        everywhere.add(LOGINS, self._logins)
        everywhere.add(FORGET_LOGINS, self._forget_logins)

    def add_routes(self, router: WebRouter) -> None:
        router.add("GET", "/api/nodes", self._get_all, Right.MONITORING)
        router.add("GET", "/api/nodes/{node}", self._get, Right.MONITORING)
        router.add("GET", "/api/nodes/{node}/memory", self._get_memory, Right.MONITORING)
        router.add("GET", "/api/nodes/{node}/memory/relative", self._get_memory_shares, Right.MONITORING)
        router.add("GET", "/api/config/effective", self._get_config, Right.ADMINISTRATOR)
        router.add("GET", "/api/auth/attempts/{node}", self._get_logins, Right.MONITORING)
        router.add("DELETE", "/api/auth/attempts/{node}", self._delete_logins, Right.ADMINISTRATOR)
        router.add("GET", "/api/auth/attempts/{node}/source", self._get_logins_by_source, Right.MONITORING)

    def _facts(self, who: Operator, asked: Ranges | None = None) -> list[Json]:
        status, now = self._this_node.status(who), self._wall_ms()
        row = node_row(status.facts, status.connections, self._this_node.churn(who))
        figures = self._samples.node.figures(THE_NODE, row, now, asked or {})
        details = {f"{name}_details": figures.details(name) for name in NODE.names}
        told = facts_view(status, now, self._versions)
        return [{**told, "exchange_types": exchange_types(), **figures.shown(CHURN), **details}]

    def _logins(self, who: Operator) -> list[Json]:
        found = self._this_node.logins(who)
        return [
            {
                "protocol": PROTOCOLS_OF_LOGINS.get(protocol, protocol.lower()),
                "auth_attempts": counted.succeeded + counted.failed,
                "auth_attempts_failed": counted.failed,
                "auth_attempts_succeeded": counted.succeeded,
            }
            for protocol, counted in found.items()
        ]

    def _forget_logins(self, who: Operator) -> list[Json]:
        self._this_node.forget_logins(who)
        return []

    async def _nodes(self, request: Request) -> tuple[list[Json], ClusterRows]:
        found = await self._everywhere.find(FACTS, operator(request), ranges_asked_for(request))
        told = {row["name"]: row for row in found.rows}
        views = self._cluster.status().nodes if self._cluster is not None else [_alone(self._this_node.name)]
        return [node_view(view, told.get(view.name)) for view in views], found

    async def _get_all(self, request: Request) -> Response:
        nodes, found = await self._nodes(request)
        response = await listed(request, nodes, NODES)
        return replace(response, headers=found.headers())

    async def _one(self, request: Request, node: str) -> Json:
        nodes, _ = await self._nodes(request)
        for one in nodes:
            if one["name"] == node:
                return one
        raise missing(f"no node '{node}' belongs to this cluster")

    async def _get(self, request: Request, node: str) -> Response:
        return json_response(await self._one(request, node))

    async def _get_config(self, request: Request) -> Response:
        """Of this node."""
        text = self._this_node.effective_config(operator(request))
        return Response(200, text.encode(), "text/plain; charset=utf-8")

    async def _get_logins(self, request: Request, node: str) -> Response:
        return json_response(await self._ask(request, node, LOGINS, self._logins))

    async def _get_logins_by_source(self, request: Request, node: str) -> Response:
        """None: addresses are not counted, as RabbitMQ's are not where nobody wants them to be."""
        await self._one(request, node)
        return await listed(request, [], SOURCES)

    async def _delete_logins(self, request: Request, node: str) -> Response:
        await self._ask(request, node, FORGET_LOGINS, self._forget_logins)
        return Response(204)

    async def _ask(self, request: Request, node: str, what: str, here: Callable[[Operator], list[Json]]) -> list[Json]:
        """What a node of the cluster says. Raises HttpError."""
        who = operator(request)
        if node == self._this_node.name:
            return here(who)
        await self._one(request, node)
        found = await self._everywhere.find_on(node, what, who)
        if found is None:
            raise HttpError(503, "service_unavailable", f"node '{node}' has not answered")
        return found

    async def _get_memory(self, request: Request, node: str) -> Response:
        """The parts together are the whole."""
        used = (await self._one(request, node))["mem_used"]
        total = {"erlang": used, "rss": used, "allocated": used}
        return json_response({"memory": {**_parts(used), "strategy": "rss", "total": total}})

    async def _get_memory_shares(self, request: Request, node: str) -> Response:
        """In percent."""
        await self._one(request, node)
        return json_response({"memory": {**_parts(100), "total": 100}})


def _parts(whole: int) -> Json:
    return {**dict.fromkeys(MEMORY_PARTS, 0), "other_system": whole}


def _alone(name: str) -> NodeView:
    return NodeView(name, 1, "disk", "", "", draining=False, up=True, since_ms=0)
