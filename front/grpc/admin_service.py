"""For operators: requests into operations, and their views into stubs. admin.proto lists what each caller must be."""

from __future__ import annotations

from dataclasses import dataclass

from broker.operations.operations import Operations
from broker.operations.this_node import QueueTotals
from broker.operations.users import UserChange
from broker.records import PermissionRecord, PolicyRecord, TopicPermissionRecord, VhostRecord
from front.cluster_federation import ClusterFederation
from front.cluster_shovels import ClusterShovels
from front.definitions import check_definitions, export_definitions, import_definitions
from front.far_looks import look_at
from front.grpc import convert, describe
from front.grpc.call import DEFAULT_VHOST, Context, Front, answers_errors, vhost_asked_for
from front.grpc.caller import caller, operator
from front.grpc.cluster_service import ClusterMethods
from front.grpc.conversions_service import ConversionMethods
from front.grpc.federation_service import FederationMethods
from front.grpc.lives_service import LivesMethods
from front.grpc.log_service import LogMethods, LogPort
from front.grpc.members_service import MembersMethods, group_stub
from front.grpc.redrive_service import RedriveMethods
from front.grpc.replay_service import ReplayMethods
from front.grpc.shovels_service import ShovelMethods
from front.grpc.stubs import stub_of
from front.member_moves import MemberMoves
from front.message_lives import MessageLives
from front.node_ports import ClusterPort, MessageLivesPort, QueueMembersPort, ReplayLogPort
from front.replaying import Replaying
from front.slices import made_in_slices
from leveret.v1 import admin_pb2 as pb
from leveret.v1 import admin_pb2_grpc


@dataclass(slots=True, frozen=True)
class AdminPorts:
    """What the service serves."""

    operations: Operations
    cluster: ClusterPort | None  # None: this node cannot be in one
    members: QueueMembersPort | None  # None: there are no quorum queues
    moves: MemberMoves
    log: LogPort | None = None  # None: nothing of it is given away
    shovels: ClusterShovels | None = None
    federation: ClusterFederation | None = None
    lives: MessageLivesPort | None = None  # None: nobody reads the log
    replay_log: ReplayLogPort | None = None  # the same


class AdminService(
    ClusterMethods,
    MembersMethods,
    LogMethods,
    RedriveMethods,
    ConversionMethods,
    ShovelMethods,
    FederationMethods,
    LivesMethods,
    ReplayMethods,
    admin_pb2_grpc.AdminServicer,
):
    """leveret.v1.Admin."""

    def __init__(self, front: Front, ports: AdminPorts) -> None:
        self.front = front
        self.cluster = ports.cluster
        self.members = ports.members
        self.moves = ports.moves
        self.log = ports.log
        self.shovels = ports.shovels
        self.federation = ports.federation
        self.lives = MessageLives(front.broker, ports.lives)
        self.redrives = ports.operations.redrives
        self.conversions = ports.operations.conversions
        self.replaying = Replaying(front.broker, ports.operations, ports.replay_log, ports.members)
        self._operations = ports.operations

    # ------------------------------------------------------------------ the node

    @answers_errors
    async def WhoAmI(self, request: pb.WhoAmIRequest, context: Context) -> pb.WhoAmIResponse:
        who = caller()
        return pb.WhoAmIResponse(user=convert.text(who.user), tags=who.tags)

    @answers_errors
    async def GetNodeStatus(self, request: pb.GetNodeStatusRequest, context: Context) -> pb.GetNodeStatusResponse:
        node = self._operations.this_node
        found = node.figures_of_queues(operator())
        await look_at(self._operations.resources, None)
        totals = QueueTotals()
        async for figures in made_in_slices(found):
            totals.add(figures)
        status = node.status(operator())
        return stub_of(
            pb.GetNodeStatusResponse,
            status,
            status.facts,
            listeners=map(describe.listener, status.facts.listeners),
            alarms=map(describe.alarm, status.alarms),
            queues=totals.queues,
            messages_ready=totals.ready,
            messages_unacknowledged=totals.unacknowledged,
        )

    @answers_errors
    async def ListAlarms(self, request: pb.ListAlarmsRequest, context: Context) -> pb.ListAlarmsResponse:
        return pb.ListAlarmsResponse(alarms=map(describe.alarm, self._operations.this_node.alarms(operator())))

    @answers_errors
    async def SetLogLevel(self, request: pb.SetLogLevelRequest, context: Context) -> pb.SetLogLevelResponse:
        self._operations.this_node.set_log_level(operator(), request.level)
        return pb.SetLogLevelResponse()

    @answers_errors
    async def GetQueueStatus(self, request: pb.GetQueueStatusRequest, context: Context) -> pb.GetQueueStatusResponse:
        vhost = request.vhost or DEFAULT_VHOST
        resources = self._operations.resources
        await look_at(resources, [resources.queue(operator(), vhost, request.name).record])
        view = resources.queue(operator(), vhost, request.name)
        figures = view.figures
        assert figures is not None, f"{view.record.label} is looked at without its figures"
        group = await self.members.group(vhost, request.name) if self.members is not None else None
        return stub_of(pb.GetQueueStatusResponse, figures, queue=describe.queue(view), group=group_stub(group))

    # ------------------------------------------------------------------ connections

    @answers_errors
    async def ListConnections(self, request: pb.ListConnectionsRequest, context: Context) -> pb.ListConnectionsResponse:
        found = self._operations.clients.connections(operator())
        return pb.ListConnectionsResponse(connections=[describe.connection(one) async for one in made_in_slices(found)])

    @answers_errors
    async def CloseConnection(self, request: pb.CloseConnectionRequest, context: Context) -> pb.CloseConnectionResponse:
        self._operations.clients.close_connection(operator(), request.id, request.reason)
        self.front.broker.end_turn()
        return pb.CloseConnectionResponse()

    @answers_errors
    async def ListChannels(self, request: pb.ListChannelsRequest, context: Context) -> pb.ListChannelsResponse:
        found = self._operations.clients.channels(operator())
        return pb.ListChannelsResponse(channels=[describe.channel(one) async for one in made_in_slices(found)])

    @answers_errors
    async def ListConsumers(self, request: pb.ListConsumersRequest, context: Context) -> pb.ListConsumersResponse:
        found = self._operations.clients.consumers(operator(), vhost_asked_for(request))
        return pb.ListConsumersResponse(consumers=[describe.consumer(one) async for one in made_in_slices(found)])

    @answers_errors
    async def ListStreamPublishers(
        self, request: pb.ListStreamPublishersRequest, context: Context
    ) -> pb.ListStreamPublishersResponse:
        users = self._operations.stream_users
        found = users.publishers(operator(), vhost_asked_for(request), request.stream or None)
        return pb.ListStreamPublishersResponse(
            publishers=[describe.stream_publisher(one) async for one in made_in_slices(found)]
        )

    @answers_errors
    async def ListStreamConsumers(
        self, request: pb.ListStreamConsumersRequest, context: Context
    ) -> pb.ListStreamConsumersResponse:
        users = self._operations.stream_users
        found = users.subscriptions(operator(), vhost_asked_for(request), request.stream or None)
        return pb.ListStreamConsumersResponse(
            consumers=[describe.stream_consumer(one) async for one in made_in_slices(found)]
        )

    # ------------------------------------------------------------------ vhosts

    @answers_errors
    async def ListVhosts(self, request: pb.ListVhostsRequest, context: Context) -> pb.ListVhostsResponse:
        return pb.ListVhostsResponse(vhosts=map(describe.vhost, self._operations.vhosts.listed(operator())))

    @answers_errors
    async def PutVhost(self, request: pb.PutVhostRequest, context: Context) -> pb.PutVhostResponse:
        wanted = request.vhost
        record = VhostRecord(
            wanted.name,
            description=wanted.description,
            tags=tuple(wanted.tags),
            default_queue_type=wanted.default_queue_type or "classic",
            protected_from_deletion=wanted.protected_from_deletion,
            tracing=self._operations.vhosts.is_traced(wanted.name),
        )
        await self.front.answer(self._operations.vhosts.put(operator(), record, wanted.limits))
        return pb.PutVhostResponse()

    @answers_errors
    async def TraceVhost(self, request: pb.TraceVhostRequest, context: Context) -> pb.TraceVhostResponse:
        await self.front.answer(self._operations.vhosts.trace(operator(), request.name, on=request.on))
        return pb.TraceVhostResponse()

    @answers_errors
    async def DeleteVhost(self, request: pb.DeleteVhostRequest, context: Context) -> pb.DeleteVhostResponse:
        await self.front.answer(self._operations.vhosts.delete(operator(), request.name))
        return pb.DeleteVhostResponse()

    # ------------------------------------------------------------------ users

    @answers_errors
    async def ListUsers(self, request: pb.ListUsersRequest, context: Context) -> pb.ListUsersResponse:
        return pb.ListUsersResponse(users=map(describe.user, self._operations.users.listed(operator())))

    @answers_errors
    async def PutUser(self, request: pb.PutUserRequest, context: Context) -> pb.PutUserResponse:
        change = UserChange(
            request.name,
            tags=tuple(request.tags.tags) if request.HasField("tags") else None,
            password=request.password if request.HasField("password") else None,
            clear_password=request.clear_password,
            create_only=request.create_only,
            change_only=request.change_only,
        )
        await self.front.answer(self._operations.users.put(operator(), change))
        return pb.PutUserResponse()

    @answers_errors
    async def DeleteUser(self, request: pb.DeleteUserRequest, context: Context) -> pb.DeleteUserResponse:
        await self.front.answer(self._operations.users.delete(operator(), request.name))
        return pb.DeleteUserResponse()

    # ------------------------------------------------------------------ limits

    @answers_errors
    async def SetVhostLimits(self, request: pb.SetVhostLimitsRequest, context: Context) -> pb.SetVhostLimitsResponse:
        vhost = request.vhost or DEFAULT_VHOST
        await self.front.answer(self._operations.vhosts.set_limits(operator(), vhost, request.limits))
        return pb.SetVhostLimitsResponse()

    @answers_errors
    async def SetUserLimits(self, request: pb.SetUserLimitsRequest, context: Context) -> pb.SetUserLimitsResponse:
        user = request.user
        await self.front.answer(self._operations.users.set_limits(operator(), user, request.limits))
        return pb.SetUserLimitsResponse()

    # ------------------------------------------------------------------ definitions

    @answers_errors
    async def ExportDefinitions(
        self, request: pb.ExportDefinitionsRequest, context: Context
    ) -> pb.ExportDefinitionsResponse:
        raw = await export_definitions(
            self._operations.documents, operator(), request.vhost or None, password_hashes=request.password_hashes
        )
        return pb.ExportDefinitionsResponse(definitions=raw)

    @answers_errors
    async def ImportDefinitions(
        self, request: pb.ImportDefinitionsRequest, context: Context
    ) -> pb.ImportDefinitionsResponse:
        documents, vhost, raw = self._operations.documents, request.vhost or None, request.definitions
        if request.dry_run:
            report = await check_definitions(documents, operator(), raw, vhost)
        else:
            report = await import_definitions(documents, operator(), raw, vhost, self.front.broker.end_turn)
        told = made_in_slices(stub_of(pb.DefinitionEffect, one) for one in report.effects)
        effects = [stub async for stub in told]
        return pb.ImportDefinitionsResponse(applied=report.changes, effects=effects, counts=report.counts)

    # ------------------------------------------------------------------ permissions

    @answers_errors
    async def ListPermissions(self, request: pb.ListPermissionsRequest, context: Context) -> pb.ListPermissionsResponse:
        found = self._operations.rights.listed(operator(), vhost_asked_for(request), request.user or None)
        return pb.ListPermissionsResponse(permissions=map(describe.permissions, found))

    @answers_errors
    async def SetPermissions(self, request: pb.SetPermissionsRequest, context: Context) -> pb.SetPermissionsResponse:
        wanted = request.permissions
        record = PermissionRecord(
            wanted.user, wanted.vhost or DEFAULT_VHOST, wanted.configure, wanted.write, wanted.read
        )
        await self.front.answer(self._operations.rights.set(operator(), record))
        return pb.SetPermissionsResponse()

    @answers_errors
    async def ClearPermissions(
        self, request: pb.ClearPermissionsRequest, context: Context
    ) -> pb.ClearPermissionsResponse:
        vhost, user = request.vhost or DEFAULT_VHOST, request.user
        await self.front.answer(self._operations.rights.clear(operator(), vhost, user))
        return pb.ClearPermissionsResponse()

    @answers_errors
    async def ListTopicPermissions(
        self, request: pb.ListTopicPermissionsRequest, context: Context
    ) -> pb.ListTopicPermissionsResponse:
        found = self._operations.rights.listed_topics(operator(), vhost_asked_for(request), request.user or None)
        return pb.ListTopicPermissionsResponse(permissions=map(describe.topic_permissions, found))

    @answers_errors
    async def SetTopicPermissions(
        self, request: pb.SetTopicPermissionsRequest, context: Context
    ) -> pb.SetTopicPermissionsResponse:
        wanted = request.permissions
        record = TopicPermissionRecord(
            wanted.user, wanted.vhost or DEFAULT_VHOST, wanted.exchange, wanted.write, wanted.read
        )
        await self.front.answer(self._operations.rights.set_topic(operator(), record))
        return pb.SetTopicPermissionsResponse()

    @answers_errors
    async def ClearTopicPermissions(
        self, request: pb.ClearTopicPermissionsRequest, context: Context
    ) -> pb.ClearTopicPermissionsResponse:
        vhost, user = request.vhost or DEFAULT_VHOST, request.user
        await self.front.answer(self._operations.rights.clear_topics(operator(), vhost, user, request.exchange or None))
        return pb.ClearTopicPermissionsResponse()

    # ------------------------------------------------------------------ policies

    @answers_errors
    async def ListPolicies(self, request: pb.ListPoliciesRequest, context: Context) -> pb.ListPoliciesResponse:
        found = self._operations.policies.listed(operator(), vhost_asked_for(request), operator=request.operator)
        return pb.ListPoliciesResponse(policies=map(describe.policy, found))

    @answers_errors
    async def SetPolicy(self, request: pb.SetPolicyRequest, context: Context) -> pb.SetPolicyResponse:
        wanted = request.policy
        record = PolicyRecord(
            vhost=wanted.vhost or DEFAULT_VHOST,
            name=wanted.name,
            pattern=wanted.pattern,
            apply_to=wanted.apply_to or "all",
            priority=wanted.priority,
            definition=convert.plain_table(wanted.definition),
            operator=wanted.operator,
        )
        await self.front.answer(self._operations.policies.set(operator(), record))
        return pb.SetPolicyResponse()

    @answers_errors
    async def ClearPolicy(self, request: pb.ClearPolicyRequest, context: Context) -> pb.ClearPolicyResponse:
        vhost, name = request.vhost or DEFAULT_VHOST, request.name
        await self.front.answer(self._operations.policies.clear(operator(), vhost, name, operator=request.operator))
        return pb.ClearPolicyResponse()
