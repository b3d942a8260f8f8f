"""For operators: the node, who is connected, users and what they may do, policies, what a queue is made of."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Any

from leveret.errors import NotFound
from leveret.life_records import FoundLives
from leveret.member_admin import MemberAdmin
from leveret.records import (
    Alarm,
    Channel,
    ClusterStatus,
    Connection,
    ConsumerInfo,
    DecommissionPlan,
    DecommissionProgress,
    DefinitionsReport,
    FederationLinks,
    ForgetPlan,
    NodeStatus,
    Permissions,
    Policy,
    QueueConversion,
    QueueGroup,
    QueueStatus,
    RedriveProgress,
    Shovel,
    Shovels,
    StreamConsumer,
    StreamPublisher,
    TopicPermissions,
    User,
    Vhost,
    from_stub,
)
from leveret.replay_records import ReplayCoverage, ReplayProgress
from leveret.v1 import admin_pb2 as pb
from leveret.values import to_table


class Admin(MemberAdmin):
    """`node.admin`. What each call needs of its user stands in admin.proto. A vhost not given is the connection's."""

    # ------------------------------------------------------------------ the node

    async def who_am_i(self) -> User:
        answer = await self._call("WhoAmI", pb.WhoAmIRequest())
        return User(answer.user, tuple(answer.tags))

    async def node_status(self) -> NodeStatus:
        return from_stub(NodeStatus, await self._call("GetNodeStatus", pb.GetNodeStatusRequest()))

    async def alarms(self) -> list[Alarm]:
        answer = await self._call("ListAlarms", pb.ListAlarmsRequest())
        return [from_stub(Alarm, alarm) for alarm in answer.alarms]

    async def set_log_level(self, level: str) -> None:
        """debug, info, warning or error; until the node stops."""
        await self._call("SetLogLevel", pb.SetLogLevelRequest(level=level))

    async def export_definitions(self, *, vhost: str | None = None, password_hashes: bool = False) -> bytes:
        """Everything declared, or what lies in one vhost, as JSON in RabbitMQ's form."""
        request = pb.ExportDefinitionsRequest(vhost=vhost or "", password_hashes=password_hashes)
        return bytes((await self._call("ExportDefinitions", request)).definitions)

    async def import_definitions(
        self, definitions: bytes, *, vhost: str | None = None, dry_run: bool = False
    ) -> DefinitionsReport:
        """Add what these have; queues and exchanges that exist stay as they are. With `dry_run` nothing is changed."""
        request = pb.ImportDefinitionsRequest(definitions=definitions, vhost=vhost or "", dry_run=dry_run)
        return from_stub(DefinitionsReport, await self._call("ImportDefinitions", request))

    async def queue_status(self, name: str, *, vhost: str | None = None) -> QueueStatus:
        request = pb.GetQueueStatusRequest(vhost=self._vhost(vhost), name=name)
        answer = await self._call("GetQueueStatus", request)
        group = from_stub(QueueGroup, answer.group) if answer.HasField("group") else None
        return from_stub(QueueStatus, answer, group=group)

    async def redrive(
        self,
        queue: str,
        *,
        exchange: str | None = None,
        routing_key: str | None = None,
        reason: str = "",
        died_in: str = "",
        limit: int = 0,
        dry_run: bool = False,
        vhost: str | None = None,
    ) -> AsyncGenerator[RedriveProgress, None]:
        """Move messages of a dead-letter queue to the queues where they died, or to an exchange. The last answer has the
        result. Leaving the loop earlier cancels it; what was moved stays moved."""
        request = pb.RedriveQueueRequest(
            vhost=self._vhost(vhost),
            queue=queue,
            exchange=exchange,
            routing_key=routing_key,
            reason=reason,
            died_in=died_in,
            limit=limit,
            dry_run=dry_run,
        )
        async with aclosing(self._node.answers("admin", "RedriveQueue", request)) as answers:
            async for answer in answers:
                yield from_stub(RedriveProgress, answer)

    async def replay(
        self,
        queue: str,
        exchange: str,
        *,
        routing_key: str | None = None,
        ends: Sequence[str] = (),
        since: datetime | None = None,
        until: datetime | None = None,
        after: str = "",
        published_key: str | None = None,
        consumer: str = "",
        limit: int = 0,
        rate: int | None = None,
        dry_run: bool = False,
        vhost: str | None = None,
    ) -> AsyncGenerator[ReplayProgress, None]:
        """Publish messages again that have left a queue, as the log of this node has them. The last answer has the result and
        what that stands on. Leaving the loop earlier cancels it; what was published stays published."""
        request = pb.ReplayQueueRequest(
            vhost=self._vhost(vhost),
            queue=queue,
            exchange=exchange,
            routing_key=routing_key,
            ends=ends,
            since_ms=_ms(since),
            until_ms=_ms(until),
            after=after,
            published_key=published_key,
            consumer=consumer,
            limit=limit,
            rate=rate,
            dry_run=dry_run,
        )
        async with aclosing(self._node.answers("admin", "ReplayQueue", request)) as answers:
            async for answer in answers:
                coverage = from_stub(ReplayCoverage, answer.coverage) if answer.HasField("coverage") else None
                yield from_stub(ReplayProgress, answer, coverage=coverage)

    # ------------------------------------------------------------------ the cluster

    async def cluster_status(self) -> ClusterStatus:
        """The nodes, and whether they can agree on anything, as the connected node sees it."""
        return from_stub(ClusterStatus, await self._call("GetClusterStatus", pb.GetClusterStatusRequest()))

    async def check_node(self, name: str = "") -> tuple[str, tuple[str, ...]]:
        """Whether this node, or the connected one, may be stopped now: its name, and what would have no majority without it."""
        answer = await self._call("CheckNode", pb.CheckNodeRequest(name=name))
        return answer.name, tuple(answer.critical)

    async def join_cluster(self, address: str) -> None:
        """Have the connected node, which must be empty and alone, start again in the cluster of the node that listens for nodes
        at this address."""
        await self._call("JoinCluster", pb.JoinClusterRequest(address=address))

    async def leave_cluster(self, *, lose_queues: bool = False) -> None:
        """Have the connected node leave its cluster, and stop. Refused where queues would be lost with it; `lose_queues`
        accepts that of classic queues."""
        await self._call("LeaveCluster", pb.LeaveClusterRequest(lose_queues=lose_queues))

    async def plan_forget(self, name: str, *, limit: int = 0) -> ForgetPlan:
        """What would go with a node that is down. `limit`: of queues that are named, 100 if not given. Changes nothing."""
        return from_stub(ForgetPlan, await self._call("PlanForget", pb.PlanForgetRequest(name=name, limit=limit)))

    async def forget_node(self, name: str, *, anyway: bool = False) -> None:
        """Take a node that is down out of the cluster. What only it had is lost. `anyway`: also where quorum queues have no
        majority without it, and are lost too."""
        await self._call("ForgetNode", pb.ForgetNodeRequest(name=name, anyway=anyway))

    async def change_node_kind(self, kind: str) -> None:
        """Have the connected node start again as a disk or RAM node."""
        await self._call("ChangeNodeKind", pb.ChangeNodeKindRequest(kind=kind))

    async def convert_queue(self, queue: str, *, dry_run: bool = False, vhost: str | None = None) -> QueueConversion:
        """Have a classic queue become a quorum queue, while it is used: begins it, and answers how far it is. Raises
        PreconditionFailed where it has what quorum queues lack. `dry_run`: only tell what would come of it."""
        request = pb.ConvertQueueRequest(vhost=self._vhost(vhost), queue=queue, dry_run=dry_run)
        return from_stub(QueueConversion, await self._call("ConvertQueue", request))

    async def queue_conversion(self, queue: str, *, vhost: str | None = None) -> QueueConversion:
        """How far it is; its state is `quorum` in the end."""
        request = pb.GetQueueConversionRequest(vhost=self._vhost(vhost), queue=queue)
        return from_stub(QueueConversion, await self._call("GetQueueConversion", request))

    async def cancel_queue_conversion(self, queue: str, *, vhost: str | None = None) -> None:
        """The queue stays a classic one, with all it has."""
        request = pb.CancelQueueConversionRequest(vhost=self._vhost(vhost), queue=queue)
        await self._call("CancelQueueConversion", request)

    async def plan_decommission(self) -> DecommissionPlan:
        """What would happen if the connected node left its cluster for good. Changes nothing."""
        answer = await self._call("PlanDecommission", pb.PlanDecommissionRequest())
        return from_stub(DecommissionPlan, answer)

    async def decommission_node(self, confirm: str = "", *, lose_queues: bool = False) -> DecommissionProgress:
        """Have the connected node leave its cluster for good: `confirm` is its name. Without it, only ask how far it is. What
        is in its way is waited for, and when it is started again it goes on."""
        request = pb.DecommissionNodeRequest(confirm=confirm, lose_queues=lose_queues)
        return from_stub(DecommissionProgress, await self._call("DecommissionNode", request))

    async def cancel_decommission(self) -> DecommissionProgress:
        """The connected node stays in its cluster. Refused where it is being removed already."""
        answer = await self._call("CancelDecommission", pb.CancelDecommissionRequest())
        return from_stub(DecommissionProgress, answer)

    async def drain_node(self) -> None:
        """Have the connected node hand over what it leads, and send its clients away."""
        await self._call("DrainNode", pb.DrainNodeRequest())

    async def revive_node(self) -> None:
        """Have it serve clients again."""
        await self._call("ReviveNode", pb.ReviveNodeRequest())

    # ------------------------------------------------------------------ connections

    async def connections(self) -> list[Connection]:
        answer = await self._call("ListConnections", pb.ListConnectionsRequest())
        return [from_stub(Connection, connection) for connection in answer.connections]

    async def close_connection(self, id_or_name: str, reason: str = "") -> None:
        await self._call("CloseConnection", pb.CloseConnectionRequest(id=id_or_name, reason=reason))

    async def channels(self) -> list[Channel]:
        answer = await self._call("ListChannels", pb.ListChannelsRequest())
        return [from_stub(Channel, channel) for channel in answer.channels]

    async def consumers(self, *, vhost: str | None = None, all_vhosts: bool = False) -> list[ConsumerInfo]:
        request = pb.ListConsumersRequest(vhost=self._vhost(vhost), all_vhosts=all_vhosts)
        answer = await self._call("ListConsumers", request)
        return [from_stub(ConsumerInfo, consumer) for consumer in answer.consumers]

    async def stream_publishers(
        self, stream: str = "", *, vhost: str | None = None, all_vhosts: bool = False
    ) -> list[StreamPublisher]:
        """Of one stream, or of all, over the stream protocol, through the node that is asked."""
        request = pb.ListStreamPublishersRequest(vhost=self._vhost(vhost), all_vhosts=all_vhosts, stream=stream)
        answer = await self._call("ListStreamPublishers", request)
        return [from_stub(StreamPublisher, one) for one in answer.publishers]

    async def stream_consumers(
        self, stream: str = "", *, vhost: str | None = None, all_vhosts: bool = False
    ) -> list[StreamConsumer]:
        """As `stream_publishers`."""
        request = pb.ListStreamConsumersRequest(vhost=self._vhost(vhost), all_vhosts=all_vhosts, stream=stream)
        answer = await self._call("ListStreamConsumers", request)
        return [from_stub(StreamConsumer, one) for one in answer.consumers]

    # ------------------------------------------------------------------ vhosts

    async def vhosts(self) -> list[Vhost]:
        answer = await self._call("ListVhosts", pb.ListVhostsRequest())
        return [from_stub(Vhost, vhost) for vhost in answer.vhosts]

    async def put_vhost(self, vhost: Vhost) -> None:
        """Create it, or give it this description, tags, default kind and protection. Limits: as they are."""
        record = pb.Vhost(
            name=vhost.name,
            description=vhost.description,
            tags=vhost.tags,
            default_queue_type=vhost.default_queue_type,
            protected_from_deletion=vhost.protected_from_deletion,
            limits=dict(vhost.limits),
        )
        await self._call("PutVhost", pb.PutVhostRequest(vhost=record))

    async def set_vhost_limits(self, name: str, limits: Mapping[str, int]) -> None:
        """max-connections, max-queues, max-message-rate and max-byte-rate; what is not named is lifted."""
        await self._call("SetVhostLimits", pb.SetVhostLimitsRequest(vhost=name, limits=dict(limits)))

    async def trace_vhost(self, name: str, on: bool) -> None:
        """Whether copies of its messages go to its exchange amq.rabbitmq.trace."""
        await self._call("TraceVhost", pb.TraceVhostRequest(name=name, on=on))

    async def delete_vhost(self, name: str) -> None:
        """Delete it with everything in it; its connections are closed."""
        await self._call("DeleteVhost", pb.DeleteVhostRequest(name=name))

    # ------------------------------------------------------------------ users

    async def users(self) -> list[User]:
        answer = await self._call("ListUsers", pb.ListUsersRequest())
        return [from_stub(User, user) for user in answer.users]

    async def add_user(self, name: str, password: str | None, tags: Iterable[str] = ()) -> None:
        """Without a password, nobody can log in with one. Raises PreconditionFailed when the user exists."""
        tag_list = pb.Tags(tags=list(tags))
        await self._call("PutUser", pb.PutUserRequest(name=name, password=password, tags=tag_list, create_only=True))

    async def set_password(self, name: str, password: str | None) -> None:
        """None takes the password away."""
        request = pb.PutUserRequest(name=name, password=password, clear_password=password is None, change_only=True)
        await self._call("PutUser", request)

    async def set_tags(self, name: str, tags: Iterable[str]) -> None:
        await self._call("PutUser", pb.PutUserRequest(name=name, tags=pb.Tags(tags=list(tags)), change_only=True))

    async def set_limits(self, name: str, limits: Mapping[str, int]) -> None:
        """max-connections, max-channels, max-message-rate and max-byte-rate; what is not named is lifted."""
        await self._call("SetUserLimits", pb.SetUserLimitsRequest(user=name, limits=dict(limits)))

    async def delete_user(self, name: str) -> None:
        await self._call("DeleteUser", pb.DeleteUserRequest(name=name))

    # ------------------------------------------------------------------ permissions

    async def permissions(
        self, *, user: str = "", vhost: str | None = None, all_vhosts: bool = False
    ) -> list[Permissions]:
        request = pb.ListPermissionsRequest(user=user, vhost=self._vhost(vhost), all_vhosts=all_vhosts)
        answer = await self._call("ListPermissions", request)
        return [from_stub(Permissions, permission) for permission in answer.permissions]

    async def set_permissions(
        self, user: str, configure: str, write: str, read: str, *, vhost: str | None = None
    ) -> None:
        """Three regular expressions on the names of what the user may configure, write to and read from."""
        record = pb.Permissions(user=user, vhost=self._vhost(vhost), configure=configure, write=write, read=read)
        await self._call("SetPermissions", pb.SetPermissionsRequest(permissions=record))

    async def clear_permissions(self, user: str, *, vhost: str | None = None) -> None:
        await self._call("ClearPermissions", pb.ClearPermissionsRequest(user=user, vhost=self._vhost(vhost)))

    async def topic_permissions(
        self, *, user: str = "", vhost: str | None = None, all_vhosts: bool = False
    ) -> list[TopicPermissions]:
        request = pb.ListTopicPermissionsRequest(user=user, vhost=self._vhost(vhost), all_vhosts=all_vhosts)
        answer = await self._call("ListTopicPermissions", request)
        return [from_stub(TopicPermissions, permission) for permission in answer.permissions]

    async def set_topic_permissions(
        self, user: str, exchange: str, write: str, read: str, *, vhost: str | None = None
    ) -> None:
        record = pb.TopicPermissions(user=user, vhost=self._vhost(vhost), exchange=exchange, write=write, read=read)
        await self._call("SetTopicPermissions", pb.SetTopicPermissionsRequest(permissions=record))

    async def clear_topic_permissions(self, user: str, exchange: str = "", *, vhost: str | None = None) -> None:
        """On one exchange, or on all."""
        request = pb.ClearTopicPermissionsRequest(user=user, vhost=self._vhost(vhost), exchange=exchange)
        await self._call("ClearTopicPermissions", request)

    # ------------------------------------------------------------------ policies

    async def policies(
        self, *, operator: bool = False, vhost: str | None = None, all_vhosts: bool = False
    ) -> list[Policy]:
        request = pb.ListPoliciesRequest(vhost=self._vhost(vhost), all_vhosts=all_vhosts, operator=operator)
        answer = await self._call("ListPolicies", request)
        return [from_stub(Policy, policy) for policy in answer.policies]

    async def set_policy(
        self,
        name: str,
        pattern: str,
        definition: Mapping[str, Any],
        *,
        apply_to: str = "all",
        priority: int = 0,
        operator: bool = False,
        vhost: str | None = None,
    ) -> None:
        record = pb.Policy(
            vhost=self._vhost(vhost),
            name=name,
            pattern=pattern,
            apply_to=apply_to,
            priority=priority,
            definition=to_table(definition),
            operator=operator,
        )
        await self._call("SetPolicy", pb.SetPolicyRequest(policy=record))

    async def clear_policy(self, name: str, *, operator: bool = False, vhost: str | None = None) -> None:
        await self._call("ClearPolicy", pb.ClearPolicyRequest(vhost=self._vhost(vhost), name=name, operator=operator))

    # ------------------------------------------------------------------ shovels

    async def shovels(self, *, vhost: str | None = None, all_vhosts: bool = False) -> Shovels:
        """Those that run, on whichever node."""
        request = pb.ListShovelsRequest(vhost=self._vhost(vhost), all_vhosts=all_vhosts)
        return from_stub(Shovels, await self._call("ListShovels", request))

    async def shovel(self, name: str, *, vhost: str | None = None) -> Shovel:
        """Raises NotFound."""
        found = await self.shovels(vhost=vhost)
        for one in found.shovels:
            if one.name == name:
                return one
        silent = f"; these nodes did not answer: {', '.join(found.missing_nodes)}" if found.missing_nodes else ""
        raise NotFound(f"no shovel '{name}' runs in vhost '{self._vhost(vhost)}'{silent}")

    async def put_shovel(
        self, name: str, definition: Mapping[str, Any], *, create_only: bool = False, vhost: str | None = None
    ) -> None:
        """`definition`: src-uri, src-queue, dest-uri and so on. `create_only`: raises PreconditionFailed when there is one."""
        request = pb.PutShovelRequest(
            vhost=self._vhost(vhost), name=name, definition=to_table(definition), create_only=create_only
        )
        await self._call("PutShovel", request)

    async def delete_shovel(self, name: str, *, vhost: str | None = None) -> None:
        await self._call("DeleteShovel", pb.DeleteShovelRequest(vhost=self._vhost(vhost), name=name))

    async def restart_shovel(self, name: str, *, vhost: str | None = None) -> None:
        await self._call("RestartShovel", pb.RestartShovelRequest(vhost=self._vhost(vhost), name=name))

    # ------------------------------------------------------------------ federation

    async def federation_links(self, *, vhost: str | None = None, all_vhosts: bool = False) -> FederationLinks:
        """Those that there should be, as the nodes say that run them."""
        request = pb.ListFederationLinksRequest(vhost=self._vhost(vhost), all_vhosts=all_vhosts)
        return from_stub(FederationLinks, await self._call("ListFederationLinks", request))

    async def restart_federation_link(self, link_id: str, node: str, *, vhost: str | None = None) -> None:
        """Raises NotFound."""
        request = pb.RestartFederationLinkRequest(vhost=self._vhost(vhost), id=link_id, node=node)
        await self._call("RestartFederationLink", request)

    # ------------------------------------------------------------------ lives of messages

    async def message_lives(self, queue: str, *, vhost: str | None = None, **by: str) -> FoundLives:
        """`by`: one of message_id, correlation_id, place, body_sha256. Nodes search their logs, for up to half a minute."""
        request = pb.FindMessageLivesRequest(vhost=self._vhost(vhost), queue=queue, **by)
        return from_stub(FoundLives, await self._call("FindMessageLives", request))


def _ms(at: datetime | None) -> int | None:
    return None if at is None else int(at.timestamp() * 1_000)
