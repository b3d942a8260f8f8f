"""Paths of Leveret's own about groups: how the members of replicated queues are, and the cluster that they live on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from broker.errors import NotSupported
from broker.operations.operator import ADMINISTRATOR, Operator
from broker.records import QueueRecord
from front.far_looks import look_at
from front.node_ports import FORGOTTEN_NAMED, FORGOTTEN_NAMED_MAX, ClusterPort, QueueMembersPort, QueueNodes
from front.slices import made_in_slices
from front.web.everywhere import Everywhere, Json
from front.web.handlers import WebFront, operator
from front.web.http import bodies
from front.web.http.refusals import missing
from front.web.http.request import HttpError, Request, Response, json_response
from front.web.lists.listing import ListOf, listed
from front.web.resources.messages.browsing_api import number_asked
from front.web.router import WebRouter
from front.web.security.access import Right

REPLICATED = ("quorum", "stream")
DRAIN, REVIVE = "drain", "revive"
NOWHERE = QueueNodes("", (), ())

logger = logging.getLogger("leveret.web")


@dataclass(slots=True, frozen=True)
class _Group:
    record: QueueRecord
    places: QueueNodes

    @property
    def away(self) -> int:
        """Members that cannot be reached."""
        return len(self.places.members) - len(self.places.online)


@dataclass(slots=True)
class NodeLoad:
    """Queues of a node."""

    leaders: int = 0  # members that lead
    members: int = 0
    homes: int = 0  # classic queues


def group_view(group: _Group) -> dict[str, Any]:
    record, places = group.record, group.places
    shown = {"vhost": record.vhost, "name": record.name, "type": record.kind, "leader": places.leader}
    return shown | {"members": places.members, "online": places.online, "away": group.away}


def _worst_first(group: _Group) -> tuple[bool, int, str, str]:
    return bool(group.places.leader), -group.away, group.record.vhost, group.record.name


GROUPS = ListOf(group_view, order=_worst_first, name=lambda group: group.record.name)


def _count(loads: dict[str, NodeLoad], record: QueueRecord, places: QueueNodes | None) -> None:
    if places is None:
        if record.home in loads:
            loads[record.home].homes += 1
        return
    for node in places.members:
        if node in loads:
            loads[node].members += 1
    if places.leader in loads:
        loads[places.leader].leaders += 1


class GroupsApi:
    """See the module."""

    def __init__(
        self, front: WebFront, everywhere: Everywhere, cluster: ClusterPort | None, members: QueueMembersPort | None
    ) -> None:
        self._front = front
        self._everywhere = everywhere
        self._node = front.operations.this_node.name
        self._resources = front.operations.resources
        self._cluster = cluster
        self._members = members
        everywhere.add(DRAIN, self._drained_for_another)
        everywhere.add(REVIVE, self._revived_for_another)

    def add_routes(self, router: WebRouter) -> None:
        router.add("GET", "/api/leveret/groups", self._get_all, Right.MONITORING)
        one = "/api/leveret/queues/{vhost}/{queue}/group"
        router.add("GET", one, self._get, Right.VHOST)
        router.add("PUT", f"{one}/leader", self._put_leader, Right.ADMINISTRATOR)
        router.add("GET", "/api/leveret/cluster", self._get_cluster, Right.MONITORING)
        router.add("POST", "/api/leveret/cluster/drain", self._drain, Right.ADMINISTRATOR)
        router.add("POST", "/api/leveret/cluster/revive", self._revive, Right.ADMINISTRATOR)
        router.add("DELETE", "/api/leveret/cluster/nodes/{node}", self._forget, Right.ADMINISTRATOR)
        router.add("GET", "/api/leveret/cluster/nodes/{node}/forget", self._plan_forget, Right.ADMINISTRATOR)

    # groups of queues

    async def _get_all(self, request: Request) -> Response:
        """Those without a leader first, then those with members away."""
        await look_at(self._resources, None)
        return await listed(request, self._groups(operator(request)), GROUPS)

    def _groups(self, who: Operator) -> Iterator[_Group]:
        for record in self._resources.queue_records(who, None):
            if record.kind in REPLICATED and self._members is not None:
                yield _Group(record, self._members.places(record) or NOWHERE)

    async def _get(self, request: Request, vhost: str, queue: str) -> Response:
        """What each member says of itself."""
        record = self._resources.queue(operator(request), vhost, queue).record
        group = None if self._members is None else await self._members.group(vhost, queue)
        if group is None:
            raise missing(f"{record.label} has no members: it is of kind {record.kind}")
        return json_response(asdict(group))

    async def _put_leader(self, request: Request, vhost: str, queue: str) -> Response:
        if self._members is None:
            raise NotSupported("this node has no quorum queues")
        await self._members.transfer(vhost, queue, bodies.text(request.json_object(), "node"))
        return Response(204)

    # the cluster

    def _known_cluster(self) -> ClusterPort:
        if self._cluster is None:
            raise NotSupported("this node belongs to no cluster")
        return self._cluster

    def _operated(self, request: Request, what: str) -> ClusterPort:
        """For what is done to the cluster, and has to be found in the log."""
        logger.info("user %r: %s over HTTP", operator(request).name, what)
        return self._known_cluster()

    async def _get_cluster(self, request: Request) -> Response:
        """As this node sees it, with how many queues live on each node."""
        status, who = self._known_cluster().status(), operator(request)
        loads = {node.name: NodeLoad() for node in status.nodes}
        await look_at(self._resources, None)
        async for record in made_in_slices(self._resources.queue_records(who, None)):
            places = None if self._members is None else self._members.places(record)
            _count(loads, record, places)
        return json_response(asdict(status) | {"load": {name: asdict(load) for name, load in loads.items()}})

    async def _drain(self, request: Request) -> Response:
        """Of the node that is asked, or of the one that the body names."""
        if not await self._told_another(request, DRAIN):
            await self._operated(request, DRAIN).drain()
        return Response(204)

    async def _revive(self, request: Request) -> Response:
        if not await self._told_another(request, REVIVE):
            await self._operated(request, REVIVE).revive()
        return Response(204)

    async def _told_another(self, request: Request, what: str) -> bool:
        """Whether the request was for another node, which has begun with it. Raises HttpError."""
        node = bodies.text(request.json_object(), "node", self._node)
        if node == self._node:
            return False
        if node not in {one.name for one in self._operated(request, f"{what} {node!r}").status().nodes}:
            raise missing(f"no node '{node}' belongs to this cluster")
        if not await self._everywhere.find_on(node, what, operator(request)):
            raise HttpError(
                503, "service_unavailable", f"node '{node}' has not answered, or refused: its log says more"
            )
        return True

    def _drained_for_another(self, who: Operator) -> list[Json]:
        return self._begun(who, DRAIN, lambda cluster: cluster.drain())

    def _revived_for_another(self, who: Operator) -> list[Json]:
        return self._begun(who, REVIVE, lambda cluster: cluster.revive())

    def _begun(
        self, who: Operator, what: str, change: Callable[[ClusterPort], Coroutine[Any, Any, None]]
    ) -> list[Json]:
        """Answered at once: it takes longer than nodes wait for each other's answers."""
        who.require_tag(ADMINISTRATOR)
        logger.info("user %r: %s by way of another node", who.name, what)
        self._front.begin(change(self._known_cluster()))
        return [{"begun": what}]

    async def _plan_forget(self, request: Request, node: str) -> Response:
        """What would go with it. `limit`: of queues that are named."""
        limit = min(number_asked(request, "limit", FORGOTTEN_NAMED), FORGOTTEN_NAMED_MAX)
        return json_response(asdict(self._known_cluster().plan_forget(node, limit)))

    async def _forget(self, request: Request, node: str) -> Response:
        """One that is down. Where a queue would be lost with it, it is refused: `anyway=true` accepts that."""
        await self._operated(request, f"forget {node!r}").forget(node, anyway=request.asks("anyway"))
        return Response(204)
