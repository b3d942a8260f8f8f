"""What a node tells about itself, as plain data. Field names are also the keys of `leveretctl --json`: they stay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from leveret.conversion_records import QueueConversion as QueueConversion
from leveret.decommission_records import DecommissionPlan as DecommissionPlan
from leveret.decommission_records import DecommissionProgress as DecommissionProgress
from leveret.decommission_records import ForgetPlan as ForgetPlan
from leveret.decommission_records import ForgottenQueue as ForgottenQueue
from leveret.decommission_records import LostQueue as LostQueue
from leveret.decommission_records import PlannedMove as PlannedMove
from leveret.life_records import LIFE_RECORDS
from leveret.link_records import FederationLink as FederationLink
from leveret.link_records import FederationLinks as FederationLinks
from leveret.link_records import Shovel as Shovel
from leveret.link_records import ShovelEnd as ShovelEnd
from leveret.link_records import Shovels as Shovels
from leveret.replay_records import REPLAY_RECORDS
from leveret.v1 import message_pb2
from leveret.values import from_table

R = TypeVar("R")


@dataclass(slots=True, frozen=True)
class Exchange:
    vhost: str
    name: str
    kind: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class Binding:
    vhost: str
    source: str
    destination: str
    destination_kind: str  # queue or exchange
    routing_key: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class Queue:
    vhost: str
    name: str
    kind: str
    state: str
    ready: int
    unacknowledged: int
    consumers: int
    durable: bool
    exclusive: bool
    auto_delete: bool
    ready_bytes: int
    unacknowledged_bytes: int
    memory_bytes: int
    home: str
    policy: str
    operator_policy: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    mirroring_notice: str = ""  # why it is not mirrored though it should be


@dataclass(slots=True, frozen=True)
class DeclaredQueue:
    name: str
    ready: int
    consumers: int


@dataclass(slots=True, frozen=True)
class QueueReader:
    """A consumer of a stream."""

    consumer_tag: str
    offset: int  # of the message that it is given next
    lag: int  # messages that there are for it
    bytes_sent: int
    lag_s: float  # so much newer than the chunk that it came to last is that of the stream


@dataclass(slots=True, frozen=True)
class QueueMember:
    """One copy of a quorum queue or stream. `state`: leader, follower, candidate, pre-candidate, learner, as it says; down, if
    its node is not reached; silent, if that does not answer; starting, if that has none yet; replaced, if it has a later one.
    `membership`: voter; promotable, which is a voter once it has caught up; learner."""

    node: str
    member: str
    state: str
    membership: str
    away_since_ms: int  # 0: it is not away
    term: int
    first: int
    last: int
    commit: int
    applied: int
    snapshot: int
    lag: int  # entries of the leader's log that it has not confirmed to have
    machine_version: int
    digest: str  # of its state at `applied`: equal on all members
    snapshot_sent_bytes: int  # of one that it is sent now
    first_offset: int  # this and what follows: of a stream's member
    committed_offset: int  # of the last message that readers there may have; -1: there is none
    segments: int
    bytes: int
    readers: tuple[QueueReader, ...]  # the first thousand of those that read there


@dataclass(slots=True, frozen=True)
class QueueGroup:
    """The Raft group of a quorum queue or stream."""

    leader: str  # node; empty: nobody leads
    term: int
    commit: int
    open_entries: int  # of the leader's log, that are not committed
    open_bytes: int
    change_pending: bool  # of the members
    needed: int  # voters, to confirm anything
    members: tuple[QueueMember, ...]


@dataclass(slots=True, frozen=True)
class QueueMemberMove:
    """A copy of a quorum queue or stream that goes to another node; loads are those before the move, in what was asked for."""

    vhost: str
    queue: str
    source: str  # node
    target: str  # node; empty: the queue has one copy too many, as after a move that was cut short
    load: int
    source_load: int
    target_load: int
    number: int  # of the move, from 1 to `total`
    total: int
    state: str  # planned, copying, moved or failed
    error: str  # why it failed; it is the last one then


@dataclass(slots=True, frozen=True)
class LogGap:
    """Numbers of files that are missing from a log."""

    first: int
    last: int


@dataclass(slots=True, frozen=True)
class LogFile:
    """A file of a node's log, or a snapshot of a group; see admin.proto."""

    name: str
    bytes: int
    first_us: int
    last_us: int
    open: bool


@dataclass(slots=True, frozen=True)
class LogListing:
    """What a node has of its log: `files` in the order in which to export them."""

    node: str
    log_id: str
    first_us: int
    gaps: tuple[LogGap, ...]
    files: tuple[LogFile, ...]


@dataclass(slots=True, frozen=True)
class QueueChange:
    """What was done with one queue of many; or why not, in `error`."""

    vhost: str
    queue: str
    done: str
    error: str


@dataclass(slots=True, frozen=True)
class RedriveCause:
    """Messages of a dead-letter queue that died alike and go to the same place. See admin.proto."""

    fate: str
    reason: str
    died_in: str
    exchange: str
    routing_key: str
    to_exchange: str
    to_routing_key: str
    messages: int


@dataclass(slots=True, frozen=True)
class RedriveProgress:
    """How far a redrive is, or what a dry run found. `causes` come with the last one."""

    state: str
    error: str
    ready: int
    seen: int
    moved: int
    causes: tuple[RedriveCause, ...]


@dataclass(slots=True, frozen=True)
class QueueStatus:
    """A queue and what it is made of; `details` depends on its kind."""

    queue: Queue
    persistent: int
    ram: int
    consumer_capacity: float
    disk_reads: int
    disk_writes: int
    published: int
    delivered: int
    delivered_no_ack: int
    redelivered: int
    acknowledged: int
    got: int
    single_active_consumer_tag: str
    details: Mapping[str, Any] = field(default_factory=dict)
    group: QueueGroup | None = None  # of a quorum queue or stream


@dataclass(slots=True, frozen=True)
class Listener:
    protocol: str
    address: str
    tls: bool


@dataclass(slots=True, frozen=True)
class Alarm:
    kind: str
    reason: str
    since_ms: int


@dataclass(slots=True, frozen=True)
class NodeStatus:
    name: str
    cluster_name: str
    version: str
    python_version: str
    kernels: str
    process_id: int
    started_at_ms: int
    data_dir: str
    memory_bytes: int
    memory_limit_bytes: int
    disk_free_bytes: int
    disk_free_limit_bytes: int
    connections: int
    channels: int
    consumers: int
    queues: int
    messages_ready: int
    messages_unacknowledged: int
    log_level: str
    listeners: tuple[Listener, ...] = ()
    alarms: tuple[Alarm, ...] = ()


@dataclass(slots=True, frozen=True)
class ClusterNode:
    """A node as the one that was asked sees it. `since_ms`: since when it is up, or down; 0: that is not known."""

    name: str
    number: int
    kind: str  # disk or ram
    address: str  # of its listener for other nodes
    zone: str
    draining: bool
    up: bool
    since_ms: int
    version: str
    listeners: tuple[Listener, ...] = ()
    alarms: tuple[Alarm, ...] = ()


@dataclass(slots=True, frozen=True)
class ClusterStatus:
    """`missing`: disk nodes that are down, when the others are no majority and nothing can be declared or changed."""

    cluster_id: str
    cluster_name: str
    seen_by: str
    nodes: tuple[ClusterNode, ...]
    metadata_leader: str
    metadata_term: int
    metadata_voters: tuple[str, ...]
    missing: tuple[str, ...]
    problems: tuple[str, ...]


@dataclass(slots=True, frozen=True)
class Connection:
    id: str
    name: str
    user: str
    vhost: str
    protocol: str
    connected_at_ms: int
    client_properties: Mapping[str, Any] = field(default_factory=dict)
    statistics: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class Channel:
    connection: str
    number: int
    user: str
    vhost: str
    statistics: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class ConsumerInfo:
    vhost: str
    queue: str
    consumer_tag: str
    connection: str
    channel: int
    no_ack: bool
    exclusive: bool
    prefetch: int
    outstanding: int
    priority: int
    active: bool
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class StreamPublisher:
    """Publishes over the stream protocol."""

    vhost: str
    stream: str
    connection: str
    user: str
    publisher_id: int
    reference: str  # empty: it has no name
    published: int  # messages, as what follows
    confirmed: int
    refused: int


@dataclass(slots=True, frozen=True)
class StreamConsumer:
    """Reads over the stream protocol. `activity`: up; single_active or waiting, in a group of single active consumers."""

    vhost: str
    stream: str
    connection: str
    user: str
    subscription_id: int
    group: str  # empty: it is in none
    super_stream: str
    active: bool
    activity: str
    credit: int  # chunks that it has room for
    delivered: int  # messages
    offset: int  # of the message that it is given next
    lag: int  # messages that there are for it
    lag_s: float  # so much newer than the chunk that it came to last is that of the stream


@dataclass(slots=True, frozen=True)
class Vhost:
    name: str
    description: str = ""
    tags: tuple[str, ...] = ()
    default_queue_type: str = "classic"
    protected_from_deletion: bool = False
    limits: Mapping[str, int] = field(default_factory=dict)
    tracing: bool = False  # only told: Admin.trace_vhost changes it


@dataclass(slots=True, frozen=True)
class User:
    name: str
    tags: tuple[str, ...] = ()
    has_password: bool = True
    limits: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class OfUser:
    """What a user may do in a vhost."""

    user: str
    vhost: str


@dataclass(slots=True, frozen=True)
class Permissions(OfUser):
    configure: str
    write: str
    read: str


@dataclass(slots=True, frozen=True)
class TopicPermissions(OfUser):
    exchange: str
    write: str
    read: str


@dataclass(slots=True, frozen=True)
class DefinitionEffect:
    """What became of one entry of definitions, or would."""

    where: str
    what: str
    effect: str  # made, overwritten, kept, skipped
    text: str = ""


@dataclass(slots=True, frozen=True)
class DefinitionsReport:
    """What became of definitions, or would. What is kept as it should be is counted only."""

    applied: int  # what was made or overwritten
    effects: tuple[DefinitionEffect, ...]
    counts: Mapping[str, int]  # of all entries, by effect


@dataclass(slots=True, frozen=True)
class Policy:
    vhost: str
    name: str
    pattern: str
    apply_to: str
    priority: int
    definition: Mapping[str, Any]
    operator: bool = False


_RECORDS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        Alarm,
        ClusterNode,
        DefinitionEffect,
        FederationLink,
        Listener,
        ForgottenQueue,
        LostQueue,
        PlannedMove,
        Queue,
        QueueMember,
        QueueReader,
        RedriveCause,
        Shovel,
        ShovelEnd,
        *LIFE_RECORDS,
        *REPLAY_RECORDS,
    )
}  # records within records, by the name of their stub


def from_stub(kind: type[R], stub: Any, **given: Any) -> R:
    """The record of a stub whose fields have the same names; `given` is for those that have not."""
    return kind(**{name: _plain(getattr(stub, name)) for name in _names(kind) if name not in given}, **given)


def _names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(part.name for part in fields(kind))


def _plain(value: Any) -> Any:
    if isinstance(value, message_pb2.Table):
        return from_table(value)
    if isinstance(value, (str, bytes, bool, int, float)):
        return value
    if type(value).__name__ in _RECORDS:
        return from_stub(_RECORDS[type(value).__name__], value)
    if hasattr(value, "items"):
        return dict(value.items())
    return tuple(_plain(item) for item in value)
