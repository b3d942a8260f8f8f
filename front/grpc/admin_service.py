"""For operators. Every method begins with what its caller must be; admin.proto lists the same for readers.

What is declared is read from the catalog and changed by its commands, which check themselves once more when they are
applied. What only the process knows, and what takes a thread or a disk, is asked of the `AdminPort`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from broker import catalog_commands as commands
from broker.definitions import PasswordHashes
from broker.errors import AccessRefused, ConnectionForced, NotFound, PreconditionFailed
from broker.pending import Pending
from broker.records import PermissionRecord, PolicyRecord, TopicPermissionRecord, UserRecord, VhostRecord
from front.answers import answered
from front.definitions import export_definitions, import_definitions, parsed
from front.grpc import convert, describe
from front.grpc.call import DEFAULT_VHOST, Context, Front, answers_errors
from front.grpc.caller import caller
from front.grpc.cluster_service import ClusterMethods, ClusterPort
from front.grpc.convert import InvalidRequest
from front.grpc.facts import AlarmFacts as AlarmFacts
from front.grpc.facts import ListenerFacts as ListenerFacts
from front.grpc.members_service import MembersMethods, QueueMembersPort, group_stub
from front.grpc.topology_service import check_may_see, may_see, vhosts_to_list
from front.slices import in_slices
from leveret.v1 import admin_pb2 as pb
from leveret.v1 import admin_pb2_grpc

LOG_LEVELS = ("debug", "info", "warning", "error")
PASSWORD_BYTES_MAX = 1024


@dataclass(slots=True, frozen=True)
class NodeFacts:
    """What the process knows of itself."""

    cluster_name: str
    version: str
    python_version: str
    kernels: str  # compiled or plain
    process_id: int
    started_at_ms: int
    data_dir: str
    memory_bytes: int
    memory_limit_bytes: int
    disk_free_bytes: int
    disk_free_limit_bytes: int
    log_level: str
    listeners: Sequence[ListenerFacts] = ()


class AdminPort(Protocol):
    """What the admin service needs beyond the broker. node/ fulfils it."""

    @property
    def node_name(self) -> str: ...

    def facts(self) -> NodeFacts: ...

    def alarms(self) -> Sequence[AlarmFacts]:
        """Those that are on now."""

    def set_log_level(self, level: str) -> None:
        """One of LOG_LEVELS, until the node stops."""

    def hash_password(self, password: bytes) -> Pending[str]:
        """As users' records keep it. Slow on purpose, so elsewhere than on the event loop."""

    @property
    def cluster(self) -> ClusterPort | None:
        """None: this node cannot be in one."""

    @property
    def members(self) -> QueueMembersPort | None:
        """None: there are no quorum queues."""

    @property
    def password_hashes(self) -> PasswordHashes:
        """How they are written into definitions."""

    def submit(self, command: commands.Command) -> Pending[Any]:
        """A change by an operator: applied and durable when it is answered."""


class AdminService(ClusterMethods, MembersMethods, admin_pb2_grpc.AdminServicer):
    """leveret.v1.Admin."""

    def __init__(self, front: Front, port: AdminPort) -> None:
        self.front = front
        self.cluster = port.cluster
        self.members = port.members
        self._port = port
        self._broker = front.broker
        self._catalog = front.broker.catalog

    async def _change(self, command: commands.Command) -> Any:
        answer = await self.front.answer(self._port.submit(command))
        self.front.logger.info("user %r: %s", caller().user, type(command).__name__)
        return answer

    # ------------------------------------------------------------------ the node

    @answers_errors
    async def WhoAmI(self, request: pb.WhoAmIRequest, context: Context) -> pb.WhoAmIResponse:
        who = caller()
        return pb.WhoAmIResponse(user=convert.text(who.user), tags=who.tags)

    @answers_errors
    async def GetNodeStatus(self, request: pb.GetNodeStatusRequest, context: Context) -> pb.GetNodeStatusResponse:
        caller().require_tag("management")
        facts = self._port.facts()
        statistics = [queue.statistics() async for queue in in_slices(self._broker.queues())]
        return pb.GetNodeStatusResponse(
            name=self._port.node_name,
            cluster_name=facts.cluster_name,
            version=facts.version,
            python_version=facts.python_version,
            kernels=facts.kernels,
            process_id=facts.process_id,
            started_at_ms=facts.started_at_ms,
            data_dir=facts.data_dir,
            memory_bytes=facts.memory_bytes,
            memory_limit_bytes=facts.memory_limit_bytes,
            disk_free_bytes=facts.disk_free_bytes,
            disk_free_limit_bytes=facts.disk_free_limit_bytes,
            log_level=facts.log_level,
            listeners=[
                pb.Listener(protocol=item.protocol, address=item.address, tls=item.tls) for item in facts.listeners
            ],
            alarms=self._alarms(),
            connections=_count(self._broker.connections()),
            channels=_count(self._broker.sessions()),
            consumers=_count(self._broker.consumers()),
            queues=len(statistics),
            messages_ready=sum(figures.ready for figures in statistics),
            messages_unacknowledged=sum(figures.unacknowledged for figures in statistics),
        )

    @answers_errors
    async def ListAlarms(self, request: pb.ListAlarmsRequest, context: Context) -> pb.ListAlarmsResponse:
        caller().require_tag("management")
        return pb.ListAlarmsResponse(alarms=self._alarms())

    def _alarms(self) -> list[pb.Alarm]:
        return [pb.Alarm(kind=item.kind, reason=item.reason, since_ms=item.since_ms) for item in self._port.alarms()]

    @answers_errors
    async def SetLogLevel(self, request: pb.SetLogLevelRequest, context: Context) -> pb.SetLogLevelResponse:
        caller().require_tag("administrator")
        if request.level not in LOG_LEVELS:
            raise InvalidRequest(f"log level '{request.level}' is none of {', '.join(LOG_LEVELS)}")
        self._port.set_log_level(request.level)
        what = f"set the log level of node '{self._port.node_name}' to {request.level}"
        self._broker.audit.changed("SetLogLevel", what)
        return pb.SetLogLevelResponse()

    @answers_errors
    async def GetQueueStatus(self, request: pb.GetQueueStatusRequest, context: Context) -> pb.GetQueueStatusResponse:
        caller().require_tag("management")
        vhost = request.vhost or DEFAULT_VHOST
        check_may_see(self.front, vhost)
        queue = self._broker.queue(vhost, request.name)
        figures = queue.statistics()
        group = await self.members.group(vhost, request.name) if self.members is not None else None
        return pb.GetQueueStatusResponse(
            queue=describe.queue(self.front, queue.record, figures),
            persistent=figures.persistent,
            ram=figures.ram,
            consumer_capacity=figures.consumer_capacity,
            disk_reads=figures.disk_reads,
            disk_writes=figures.disk_writes,
            published=figures.published,
            delivered=figures.delivered,
            delivered_no_ack=figures.delivered_no_ack,
            redelivered=figures.redelivered,
            acknowledged=figures.acknowledged,
            got=figures.got,
            single_active_consumer_tag=convert.text(figures.single_active_consumer_tag or ""),
            details=convert.table(figures.details),
            group=group_stub(group),
        )

    # ------------------------------------------------------------------ connections

    def _visible(self, user: str) -> bool:
        who = caller()
        return who.has_tag("monitoring") or who.user == user

    @answers_errors
    async def ListConnections(self, request: pb.ListConnectionsRequest, context: Context) -> pb.ListConnectionsResponse:
        caller().require_tag("management")
        return pb.ListConnectionsResponse(
            connections=[
                describe.connection(item)
                async for item in in_slices(self._broker.connections())
                if self._visible(item.user)
            ]
        )

    @answers_errors
    async def CloseConnection(self, request: pb.CloseConnectionRequest, context: Context) -> pb.CloseConnectionResponse:
        who = caller()
        who.require_tag("management")
        found = [
            item
            for item in self._broker.connections()
            if request.id in (item.id, item.name) and (who.has_tag("administrator") or item.user == who.user)
        ]
        audit = self._broker.audit
        if not found:
            error = NotFound(f"no connection '{request.id}' that user '{who.user}' may close")
            audit.changed("CloseConnection", f"close connection '{request.id}'", error)
            raise error
        reason = request.reason or f"closed by user '{who.user}'"
        for connection in found:
            connection.close(ConnectionForced(reason))
            audit.changed(
                "CloseConnection", f"close connection '{connection.name}' of user '{connection.user}': {reason}"
            )
        self.front.broker.end_turn()
        return pb.CloseConnectionResponse()

    @answers_errors
    async def ListChannels(self, request: pb.ListChannelsRequest, context: Context) -> pb.ListChannelsResponse:
        caller().require_tag("management")
        return pb.ListChannelsResponse(
            channels=[
                pb.Channel(
                    connection=convert.text(session.connection.name),
                    number=session.number,
                    user=convert.text(session.user),
                    vhost=convert.text(session.vhost),
                    statistics=convert.table(session.statistics()),
                )
                async for session in in_slices(self._broker.sessions())
                if self._visible(session.user)
            ]
        )

    @answers_errors
    async def ListConsumers(self, request: pb.ListConsumersRequest, context: Context) -> pb.ListConsumersResponse:
        vhosts = set(vhosts_to_list(self.front, request.vhost, request.all_vhosts))
        return pb.ListConsumersResponse(
            consumers=[
                describe.consumer(item)
                async for item in in_slices(self._broker.consumers())
                if item.queue.record.vhost in vhosts and self._visible(getattr(item.sink, "user", ""))
            ]
        )

    # ------------------------------------------------------------------ vhosts

    @answers_errors
    async def ListVhosts(self, request: pb.ListVhostsRequest, context: Context) -> pb.ListVhostsResponse:
        caller().require_tag("management")
        return pb.ListVhostsResponse(
            vhosts=[
                describe.vhost(record) for name, record in self._catalog.vhosts.items() if may_see(self.front, name)
            ]
        )

    @answers_errors
    async def PutVhost(self, request: pb.PutVhostRequest, context: Context) -> pb.PutVhostResponse:
        caller().require_tag("administrator")
        wanted = request.vhost
        record = VhostRecord(
            _named("vhost", wanted.name),
            description=wanted.description,
            tags=tuple(wanted.tags),
            default_queue_type=wanted.default_queue_type or "classic",
            protected_from_deletion=wanted.protected_from_deletion,
        )
        await self._change(commands.PutVhost(record))
        if wanted.limits:
            await self._change(commands.SetVhostLimits(record.name, dict(wanted.limits)))
        return pb.PutVhostResponse()

    @answers_errors
    async def DeleteVhost(self, request: pb.DeleteVhostRequest, context: Context) -> pb.DeleteVhostResponse:
        caller().require_tag("administrator")
        await self._change(commands.DeleteVhost(_named("vhost", request.name)))
        return pb.DeleteVhostResponse()

    # ------------------------------------------------------------------ users

    @answers_errors
    async def ListUsers(self, request: pb.ListUsersRequest, context: Context) -> pb.ListUsersResponse:
        caller().require_tag("administrator")
        return pb.ListUsersResponse(users=[describe.user(record) for record in self._catalog.users.values()])

    @answers_errors
    async def PutUser(self, request: pb.PutUserRequest, context: Context) -> pb.PutUserResponse:
        caller().require_tag("administrator")
        current = self._catalog.users.get(_named("user", request.name))
        if request.create_only and current is not None:
            raise PreconditionFailed(f"user '{request.name}' exists already")
        if request.change_only and current is None:
            raise NotFound(f"no user '{request.name}'")
        record = current or UserRecord(request.name, password_hash=None)
        if request.HasField("tags"):
            record = replace(record, tags=tuple(request.tags.tags))
        if request.HasField("password"):
            record = replace(record, password_hash=await self._hash(request.password))
        elif request.clear_password:
            record = replace(record, password_hash=None)
        await self._change(commands.PutUser(record))
        return pb.PutUserResponse()

    async def _hash(self, password: str) -> str:
        raw = password.encode()
        if not 0 < len(raw) <= PASSWORD_BYTES_MAX:
            raise PreconditionFailed(f"a password has 1 to {PASSWORD_BYTES_MAX} bytes, not {len(raw)}")
        return await answered(self._port.hash_password(raw))

    @answers_errors
    async def DeleteUser(self, request: pb.DeleteUserRequest, context: Context) -> pb.DeleteUserResponse:
        caller().require_tag("administrator")
        await self._change(commands.DeleteUser(_named("user", request.name)))
        return pb.DeleteUserResponse()

    # ------------------------------------------------------------------ limits

    @answers_errors
    async def SetVhostLimits(self, request: pb.SetVhostLimitsRequest, context: Context) -> pb.SetVhostLimitsResponse:
        caller().require_tag("administrator")
        await self._change(commands.SetVhostLimits(request.vhost or DEFAULT_VHOST, dict(request.limits)))
        return pb.SetVhostLimitsResponse()

    @answers_errors
    async def SetUserLimits(self, request: pb.SetUserLimitsRequest, context: Context) -> pb.SetUserLimitsResponse:
        caller().require_tag("administrator")
        await self._change(commands.SetUserLimits(_named("user", request.user), dict(request.limits)))
        return pb.SetUserLimitsResponse()

    # ------------------------------------------------------------------ definitions

    @answers_errors
    async def ExportDefinitions(
        self, request: pb.ExportDefinitionsRequest, context: Context
    ) -> pb.ExportDefinitionsResponse:
        caller().require_tag("administrator")
        facts = self._port.facts()
        identity = {"product_name": "Leveret", "product_version": facts.version, "cluster_name": facts.cluster_name}
        hashes = self._port.password_hashes if request.password_hashes else None
        raw = await export_definitions(self._catalog, hashes, identity, request.vhost or None)
        return pb.ExportDefinitionsResponse(definitions=raw)

    @answers_errors
    async def ImportDefinitions(
        self, request: pb.ImportDefinitionsRequest, context: Context
    ) -> pb.ImportDefinitionsResponse:
        caller().require_tag("administrator")
        document = parsed(request.definitions)
        applied = await import_definitions(
            self._broker, self._port.submit, self._port.password_hashes, document, request.vhost or None
        )
        self.front.logger.info("user %r: imported definitions, %d changes", caller().user, applied)
        return pb.ImportDefinitionsResponse(applied=applied)

    # ------------------------------------------------------------------ permissions

    @answers_errors
    async def ListPermissions(self, request: pb.ListPermissionsRequest, context: Context) -> pb.ListPermissionsResponse:
        caller().require_tag("administrator")
        return pb.ListPermissionsResponse(
            permissions=[describe.permissions(record) for record in _selected(self._catalog.all_permissions(), request)]
        )

    @answers_errors
    async def SetPermissions(self, request: pb.SetPermissionsRequest, context: Context) -> pb.SetPermissionsResponse:
        caller().require_tag("administrator")
        wanted = request.permissions
        record = PermissionRecord(
            _named("user", wanted.user), wanted.vhost or DEFAULT_VHOST, wanted.configure, wanted.write, wanted.read
        )
        await self._change(commands.PutPermission(record))
        return pb.SetPermissionsResponse()

    @answers_errors
    async def ClearPermissions(
        self, request: pb.ClearPermissionsRequest, context: Context
    ) -> pb.ClearPermissionsResponse:
        caller().require_tag("administrator")
        await self._change(commands.DeletePermission(_named("user", request.user), request.vhost or DEFAULT_VHOST))
        return pb.ClearPermissionsResponse()

    @answers_errors
    async def ListTopicPermissions(
        self, request: pb.ListTopicPermissionsRequest, context: Context
    ) -> pb.ListTopicPermissionsResponse:
        caller().require_tag("administrator")
        found = _selected(self._catalog.all_topic_permissions(), request)
        return pb.ListTopicPermissionsResponse(permissions=[describe.topic_permissions(record) for record in found])

    @answers_errors
    async def SetTopicPermissions(
        self, request: pb.SetTopicPermissionsRequest, context: Context
    ) -> pb.SetTopicPermissionsResponse:
        caller().require_tag("administrator")
        wanted = request.permissions
        record = TopicPermissionRecord(
            _named("user", wanted.user), wanted.vhost or DEFAULT_VHOST, wanted.exchange, wanted.write, wanted.read
        )
        await self._change(commands.PutTopicPermission(record))
        return pb.SetTopicPermissionsResponse()

    @answers_errors
    async def ClearTopicPermissions(
        self, request: pb.ClearTopicPermissionsRequest, context: Context
    ) -> pb.ClearTopicPermissionsResponse:
        caller().require_tag("administrator")
        vhost, exchange = request.vhost or DEFAULT_VHOST, request.exchange or None
        await self._change(commands.DeleteTopicPermission(_named("user", request.user), vhost, exchange))
        return pb.ClearTopicPermissionsResponse()

    # ------------------------------------------------------------------ policies

    def _check_policies(self, operator: bool) -> None:
        caller().require_tag("administrator" if operator else "policymaker")

    @answers_errors
    async def ListPolicies(self, request: pb.ListPoliciesRequest, context: Context) -> pb.ListPoliciesResponse:
        self._check_policies(
            operator=False
        )  # reading an operator policy explains a queue; changing it is another thing
        return pb.ListPoliciesResponse(
            policies=[
                describe.policy(record)
                for vhost in vhosts_to_list(self.front, request.vhost, request.all_vhosts)
                for record in self._catalog.policies(vhost, request.operator)
            ]
        )

    @answers_errors
    async def SetPolicy(self, request: pb.SetPolicyRequest, context: Context) -> pb.SetPolicyResponse:
        wanted = request.policy
        self._check_policies(wanted.operator)
        vhost = self._policy_vhost(wanted.vhost)
        record = PolicyRecord(
            vhost=vhost,
            name=_named("policy", wanted.name),
            pattern=wanted.pattern,
            apply_to=wanted.apply_to or "all",
            priority=wanted.priority,
            definition=convert.plain_table(wanted.definition),
            operator=wanted.operator,
        )
        await self._change(commands.PutPolicy(record))
        return pb.SetPolicyResponse()

    @answers_errors
    async def ClearPolicy(self, request: pb.ClearPolicyRequest, context: Context) -> pb.ClearPolicyResponse:
        self._check_policies(request.operator)
        vhost = self._policy_vhost(request.vhost)
        await self._change(commands.DeletePolicy(vhost, _named("policy", request.name), request.operator))
        return pb.ClearPolicyResponse()

    def _policy_vhost(self, vhost: str) -> str:
        """Who makes policies makes them where they may go themselves; monitoring alone is only for looking."""
        who, vhost = caller(), vhost or DEFAULT_VHOST
        if not who.has_tag("administrator") and self._catalog.permissions(who.user, vhost) is None:
            raise AccessRefused(f"user '{who.user}' has no access to vhost '{vhost}'")
        return vhost


def _named(what: str, name: str) -> str:
    if not name:
        raise InvalidRequest(f"the name of the {what} is missing")
    return name


def _count(items: Iterable[object]) -> int:
    return sum(1 for _ in items)


def _selected(records: Iterable[Any], request: Any) -> list[Any]:
    """Those of the user asked for, if any, in the vhost asked for, or in all."""
    vhost = request.vhost or DEFAULT_VHOST
    return [
        record
        for record in records
        if (request.all_vhosts or record.vhost == vhost) and (not request.user or record.user == request.user)
    ]
