"""Paths of Leveret's own to take a node out of its cluster for good: what would happen, to begin it, how far it is, and to
take that back.

A node leaves by itself; whichever one is asked passes that on to it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict

from broker.errors import BrokerError, NotSupported
from broker.operations.operator import ADMINISTRATOR, MONITORING, Operator
from front.node_ports import ClusterPort
from front.web.everywhere import Everywhere, Json
from front.web.handlers import WebFront, operator
from front.web.http import bodies
from front.web.http.refusals import bad_request, missing
from front.web.http.request import HttpError, Request, Response, json_response
from front.web.router import WebRouter
from front.web.security.access import Right

LOOK, BEGIN, CANCEL = "decommission", "decommission.begin", "decommission.cancel"

logger = logging.getLogger("leveret.web")


class DecommissionApi:
    """See the module."""

    def __init__(self, front: WebFront, everywhere: Everywhere, cluster: ClusterPort | None) -> None:
        self._node = front.operations.this_node.name
        self._everywhere = everywhere
        self._cluster_port = cluster
        everywhere.add(LOOK, self._looked_at_here)
        everywhere.add(BEGIN, self._begun_here)
        everywhere.add(CANCEL, self._cancelled_here)
        self._here: Mapping[str, Callable[..., list[Json]]] = {
            LOOK: self._looked_at_here,
            BEGIN: self._begun_here,
            CANCEL: self._cancelled_here,
        }

    def add_routes(self, router: WebRouter) -> None:
        path = "/api/leveret/cluster/nodes/{node}/decommission"
        router.add("GET", path, self._get, Right.MONITORING)
        router.add("POST", path, self._post, Right.ADMINISTRATOR)
        router.add("DELETE", path, self._delete, Right.ADMINISTRATOR)

    @property
    def _cluster(self) -> ClusterPort:
        if self._cluster_port is None:
            raise NotSupported("this node belongs to no cluster")
        return self._cluster_port

    async def _get(self, request: Request, node: str) -> Response:
        """The plan, and how far it is."""
        return json_response(await self._answer_of(node, LOOK, operator(request)))

    async def _post(self, request: Request, node: str) -> Response:
        """Begins; `confirm` has the name of the node once more."""
        body = request.json_object()
        bodies.require(body, "confirm")
        typed, lose_queues = bodies.text(body, "confirm"), bodies.flag(body, "lose_queues")
        if typed != node:
            raise bad_request(f"'confirm' has the name of the node that is to leave, '{node}', not '{typed}'")
        return json_response(_taken(await self._answer_of(node, BEGIN, operator(request), lose_queues)), 202)

    async def _delete(self, request: Request, node: str) -> Response:
        """The node stays."""
        return json_response(_taken(await self._answer_of(node, CANCEL, operator(request))))

    async def _answer_of(self, node: str, what: str, who: Operator, *arguments: bool) -> Json:
        if node == self._node:
            return self._here[what](who, *arguments)[0]
        if node not in {one.name for one in self._cluster.status().nodes}:
            raise missing(f"no node '{node}' belongs to this cluster")
        rows = await self._everywhere.find_on(node, what, who, *arguments)
        if not rows:
            raise HttpError(503, "service_unavailable", f"node '{node}' has not answered: is it up?")
        return rows[0]

    def _looked_at_here(self, who: Operator) -> list[Json]:
        who.require_tag(MONITORING)
        return [{"plan": asdict(self._cluster.plan_decommission()), "progress": self._progress()}]

    def _begun_here(self, who: Operator, lose_queues: bool) -> list[Json]:
        who.require_tag(ADMINISTRATOR)
        logger.info("user %r: decommission this node over HTTP", who.name)
        return self._told(lambda: self._cluster.decommission(lose_queues=bool(lose_queues)))

    def _cancelled_here(self, who: Operator) -> list[Json]:
        who.require_tag(ADMINISTRATOR)
        logger.info("user %r: take back the decommission of this node over HTTP", who.name)
        return self._told(self._cluster.stay)

    def _told(self, order: Callable[[], None]) -> list[Json]:
        try:
            order()
        except BrokerError as error:  # in the answer, for other nodes hear of nothing else
            return [{"refused": error.text}]
        return [{"progress": self._progress()}]

    def _progress(self) -> Mapping[str, object]:
        return asdict(self._cluster.decommission_progress())


def _taken(answer: Json) -> Json:
    """Raises HttpError where the node has refused."""
    if "refused" in answer:
        raise bad_request(answer["refused"])
    return answer
