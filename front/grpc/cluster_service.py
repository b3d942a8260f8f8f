"""The part of leveret.v1.Admin that is about the cluster: who belongs to it, and who should.

What is asked for is done by the node that is asked: to leave, to change its kind and to be drained are things a node does
itself; only forgetting is done to another one, that is down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from broker.errors import InvalidRequest, NotSupported
from broker.operations.node_facts import AlarmFacts, ListenerFacts
from broker.operations.operator import ADMINISTRATOR, MANAGEMENT, check_named
from front.grpc import describe
from front.grpc.call import Context, Front, answers_errors
from front.grpc.caller import operator
from front.grpc.stubs import stub_of
from leveret.v1 import admin_pb2 as pb

NODE_KINDS = ("disk", "ram")


@dataclass(slots=True, frozen=True)
class NodeView:
    """A node as another one, or itself, sees it. What is not known of a node that was never reached is empty."""

    name: str
    number: int
    kind: str
    address: str  # of its listener for other nodes
    zone: str
    draining: bool
    up: bool
    since_ms: int  # since when it is up, or down, as far as the asked node has seen; 0: it cannot tell
    version: str = ""
    listeners: Sequence[ListenerFacts] = ()
    alarms: Sequence[AlarmFacts] = ()
    notices: Sequence[str] = ()  # what its disk has lost, in words that go on behind its name


@dataclass(slots=True, frozen=True)
class ClusterView:
    """The cluster as one node sees it."""

    cluster_id: str
    cluster_name: str
    seen_by: str
    nodes: Sequence[NodeView]
    metadata_leader: str  # name; empty: nobody leads, nothing can be declared
    metadata_term: int
    metadata_voters: Sequence[str]
    missing: Sequence[str]  # voters that are down, when the others are no majority
    problems: Sequence[str]  # what an operator should look at, in sentences


class ClusterPort(Protocol):
    """What the service needs of the node; node/membership/cluster.py fulfils it. Everything raises BrokerErrors."""

    def status(self) -> ClusterView: ...

    def critical(self, name: str) -> tuple[str, Sequence[str]]:
        """The name of the node, this one if none is given; and what would have no majority without it."""

    async def join_cluster(self, address: str) -> None:
        """This node gives up its own, empty cluster and starts again as one of the cluster of the node at this address."""

    async def leave(self) -> None:
        """This node belongs to the cluster no more, and stops."""

    async def forget(self, name: str, *, anyway: bool = False) -> None:
        """A node that is down belongs to the cluster no more. `anyway`: also where quorum queues are lost with it."""

    async def change_kind(self, kind: str) -> None:
        """This node starts again as a disk or RAM node."""

    async def drain(self) -> None:
        """This node leads nothing and serves nobody, until it is revived."""

    async def revive(self) -> None: ...


class ClusterMethods:
    """Mixed into AdminService."""

    front: Front
    cluster: ClusterPort | None

    def _cluster(self, tag: str) -> ClusterPort:
        operator().require_tag(tag)
        if self.cluster is None:
            raise NotSupported("this node belongs to no cluster")
        return self.cluster

    def _log(self, what: str) -> None:
        self.front.logger.info("user %r: %s", operator().name, what)

    @answers_errors
    async def GetClusterStatus(
        self, request: pb.GetClusterStatusRequest, context: Context
    ) -> pb.GetClusterStatusResponse:
        view = self._cluster(MANAGEMENT).status()
        return stub_of(pb.GetClusterStatusResponse, view, nodes=map(_node, view.nodes))

    @answers_errors
    async def CheckNode(self, request: pb.CheckNodeRequest, context: Context) -> pb.CheckNodeResponse:
        name, critical = self._cluster(MANAGEMENT).critical(request.name)
        return pb.CheckNodeResponse(name=name, critical=critical)

    @answers_errors
    async def JoinCluster(self, request: pb.JoinClusterRequest, context: Context) -> pb.JoinClusterResponse:
        cluster = self._cluster(ADMINISTRATOR)
        self._log(f"JoinCluster {request.address}")
        await cluster.join_cluster(request.address)
        return pb.JoinClusterResponse()

    @answers_errors
    async def LeaveCluster(self, request: pb.LeaveClusterRequest, context: Context) -> pb.LeaveClusterResponse:
        cluster = self._cluster(ADMINISTRATOR)
        self._log("LeaveCluster")
        await cluster.leave()
        return pb.LeaveClusterResponse()

    @answers_errors
    async def ForgetNode(self, request: pb.ForgetNodeRequest, context: Context) -> pb.ForgetNodeResponse:
        cluster = self._cluster(ADMINISTRATOR)
        check_named("node", request.name)
        self._log(f"ForgetNode {request.name}")
        await cluster.forget(request.name, anyway=request.anyway)
        return pb.ForgetNodeResponse()

    @answers_errors
    async def ChangeNodeKind(self, request: pb.ChangeNodeKindRequest, context: Context) -> pb.ChangeNodeKindResponse:
        cluster = self._cluster(ADMINISTRATOR)
        if request.kind not in NODE_KINDS:
            raise InvalidRequest(f"a node of kind '{request.kind}': there are {' and '.join(NODE_KINDS)}")
        self._log(f"ChangeNodeKind {request.kind}")
        await cluster.change_kind(request.kind)
        return pb.ChangeNodeKindResponse()

    @answers_errors
    async def DrainNode(self, request: pb.DrainNodeRequest, context: Context) -> pb.DrainNodeResponse:
        cluster = self._cluster(ADMINISTRATOR)
        self._log("DrainNode")
        await cluster.drain()
        return pb.DrainNodeResponse()

    @answers_errors
    async def ReviveNode(self, request: pb.ReviveNodeRequest, context: Context) -> pb.ReviveNodeResponse:
        cluster = self._cluster(ADMINISTRATOR)
        self._log("ReviveNode")
        await cluster.revive()
        return pb.ReviveNodeResponse()


def _node(view: NodeView) -> pb.ClusterNode:
    listeners, alarms = map(describe.listener, view.listeners), map(describe.alarm, view.alarms)
    return stub_of(pb.ClusterNode, view, listeners=listeners, alarms=alarms)
