"""The part of leveret.v1.Admin that is about the cluster: who belongs to it, and who should.

What is asked for is done by the node that is asked: to leave, to change its kind and to be drained are things a node does
itself; only forgetting is done to another one, that is down.
"""

from __future__ import annotations

from broker.errors import InvalidRequest, NotSupported
from broker.operations.operator import ADMINISTRATOR, MANAGEMENT, check_named
from front.grpc import describe
from front.grpc.call import Context, Front, answers_errors
from front.grpc.caller import operator
from front.grpc.stubs import stub_of
from front.node_ports import FORGOTTEN_NAMED, FORGOTTEN_NAMED_MAX, ClusterPort, NodeView, check_confirmed
from leveret.v1 import admin_pb2 as pb

NODE_KINDS = ("disk", "ram")


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
        self._log(f"LeaveCluster{' and lose queues' if request.lose_queues else ''}")
        await cluster.leave(lose_queues=request.lose_queues)
        return pb.LeaveClusterResponse()

    @answers_errors
    async def PlanForget(self, request: pb.PlanForgetRequest, context: Context) -> pb.ForgetPlan:
        cluster = self._cluster(ADMINISTRATOR)
        check_named("node", request.name)
        plan = cluster.plan_forget(request.name, min(request.limit or FORGOTTEN_NAMED, FORGOTTEN_NAMED_MAX))
        return stub_of(pb.ForgetPlan, plan, lost=[stub_of(pb.ForgottenQueue, one) for one in plan.lost])

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
    async def PlanDecommission(self, request: pb.PlanDecommissionRequest, context: Context) -> pb.DecommissionPlan:
        plan = self._cluster(MANAGEMENT).plan_decommission()
        moves = [stub_of(pb.PlannedMove, one) for one in plan.moves]
        return stub_of(pb.DecommissionPlan, plan, moves=moves, lost=[stub_of(pb.LostQueue, one) for one in plan.lost])

    @answers_errors
    async def DecommissionNode(self, request: pb.DecommissionNodeRequest, context: Context) -> pb.DecommissionProgress:
        cluster = self._cluster(ADMINISTRATOR)
        if request.confirm:
            check_confirmed(cluster, request.confirm)
            self._log(f"DecommissionNode {request.confirm}")
            cluster.decommission(lose_queues=request.lose_queues)
        return stub_of(pb.DecommissionProgress, cluster.decommission_progress())

    @answers_errors
    async def CancelDecommission(
        self, request: pb.CancelDecommissionRequest, context: Context
    ) -> pb.DecommissionProgress:
        cluster = self._cluster(ADMINISTRATOR)
        self._log("CancelDecommission")
        cluster.stay()
        return stub_of(pb.DecommissionProgress, cluster.decommission_progress())

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
