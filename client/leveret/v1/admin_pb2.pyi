from leveret.v1 import message_pb2 as _message_pb2
from leveret.v1 import topology_pb2 as _topology_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class WhoAmIRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WhoAmIResponse(_message.Message):
    __slots__ = ("user", "tags")
    USER_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    user: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, user: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ...) -> None: ...

class GetNodeStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Listener(_message.Message):
    __slots__ = ("protocol", "address", "tls")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    TLS_FIELD_NUMBER: _ClassVar[int]
    protocol: str
    address: str
    tls: bool
    def __init__(self, protocol: _Optional[str] = ..., address: _Optional[str] = ..., tls: _Optional[bool] = ...) -> None: ...

class GetNodeStatusResponse(_message.Message):
    __slots__ = ("name", "cluster_name", "version", "python_version", "kernels", "process_id", "started_at_ms", "data_dir", "memory_bytes", "memory_limit_bytes", "disk_free_bytes", "disk_free_limit_bytes", "listeners", "alarms", "connections", "channels", "consumers", "queues", "messages_ready", "messages_unacknowledged", "log_level")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PYTHON_VERSION_FIELD_NUMBER: _ClassVar[int]
    KERNELS_FIELD_NUMBER: _ClassVar[int]
    PROCESS_ID_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    DATA_DIR_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_LIMIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISK_FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISK_FREE_LIMIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    LISTENERS_FIELD_NUMBER: _ClassVar[int]
    ALARMS_FIELD_NUMBER: _ClassVar[int]
    CONNECTIONS_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_READY_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_UNACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    LOG_LEVEL_FIELD_NUMBER: _ClassVar[int]
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
    listeners: _containers.RepeatedCompositeFieldContainer[Listener]
    alarms: _containers.RepeatedCompositeFieldContainer[Alarm]
    connections: int
    channels: int
    consumers: int
    queues: int
    messages_ready: int
    messages_unacknowledged: int
    log_level: str
    def __init__(self, name: _Optional[str] = ..., cluster_name: _Optional[str] = ..., version: _Optional[str] = ..., python_version: _Optional[str] = ..., kernels: _Optional[str] = ..., process_id: _Optional[int] = ..., started_at_ms: _Optional[int] = ..., data_dir: _Optional[str] = ..., memory_bytes: _Optional[int] = ..., memory_limit_bytes: _Optional[int] = ..., disk_free_bytes: _Optional[int] = ..., disk_free_limit_bytes: _Optional[int] = ..., listeners: _Optional[_Iterable[_Union[Listener, _Mapping]]] = ..., alarms: _Optional[_Iterable[_Union[Alarm, _Mapping]]] = ..., connections: _Optional[int] = ..., channels: _Optional[int] = ..., consumers: _Optional[int] = ..., queues: _Optional[int] = ..., messages_ready: _Optional[int] = ..., messages_unacknowledged: _Optional[int] = ..., log_level: _Optional[str] = ...) -> None: ...

class Alarm(_message.Message):
    __slots__ = ("kind", "reason", "since_ms")
    KIND_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    kind: str
    reason: str
    since_ms: int
    def __init__(self, kind: _Optional[str] = ..., reason: _Optional[str] = ..., since_ms: _Optional[int] = ...) -> None: ...

class ListAlarmsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListAlarmsResponse(_message.Message):
    __slots__ = ("alarms",)
    ALARMS_FIELD_NUMBER: _ClassVar[int]
    alarms: _containers.RepeatedCompositeFieldContainer[Alarm]
    def __init__(self, alarms: _Optional[_Iterable[_Union[Alarm, _Mapping]]] = ...) -> None: ...

class GetQueueStatusRequest(_message.Message):
    __slots__ = ("vhost", "name")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    name: str
    def __init__(self, vhost: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class GetQueueStatusResponse(_message.Message):
    __slots__ = ("queue", "persistent", "ram", "consumer_capacity", "disk_reads", "disk_writes", "published", "delivered", "delivered_no_ack", "redelivered", "acknowledged", "got", "single_active_consumer_tag", "details", "group")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PERSISTENT_FIELD_NUMBER: _ClassVar[int]
    RAM_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_CAPACITY_FIELD_NUMBER: _ClassVar[int]
    DISK_READS_FIELD_NUMBER: _ClassVar[int]
    DISK_WRITES_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_NO_ACK_FIELD_NUMBER: _ClassVar[int]
    REDELIVERED_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    GOT_FIELD_NUMBER: _ClassVar[int]
    SINGLE_ACTIVE_CONSUMER_TAG_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    queue: _topology_pb2.Queue
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
    details: _message_pb2.Table
    group: QueueGroup
    def __init__(self, queue: _Optional[_Union[_topology_pb2.Queue, _Mapping]] = ..., persistent: _Optional[int] = ..., ram: _Optional[int] = ..., consumer_capacity: _Optional[float] = ..., disk_reads: _Optional[int] = ..., disk_writes: _Optional[int] = ..., published: _Optional[int] = ..., delivered: _Optional[int] = ..., delivered_no_ack: _Optional[int] = ..., redelivered: _Optional[int] = ..., acknowledged: _Optional[int] = ..., got: _Optional[int] = ..., single_active_consumer_tag: _Optional[str] = ..., details: _Optional[_Union[_message_pb2.Table, _Mapping]] = ..., group: _Optional[_Union[QueueGroup, _Mapping]] = ...) -> None: ...

class QueueGroup(_message.Message):
    __slots__ = ("leader", "term", "commit", "open_entries", "open_bytes", "change_pending", "needed", "members")
    LEADER_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    OPEN_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    OPEN_BYTES_FIELD_NUMBER: _ClassVar[int]
    CHANGE_PENDING_FIELD_NUMBER: _ClassVar[int]
    NEEDED_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    leader: str
    term: int
    commit: int
    open_entries: int
    open_bytes: int
    change_pending: bool
    needed: int
    members: _containers.RepeatedCompositeFieldContainer[QueueMember]
    def __init__(self, leader: _Optional[str] = ..., term: _Optional[int] = ..., commit: _Optional[int] = ..., open_entries: _Optional[int] = ..., open_bytes: _Optional[int] = ..., change_pending: _Optional[bool] = ..., needed: _Optional[int] = ..., members: _Optional[_Iterable[_Union[QueueMember, _Mapping]]] = ...) -> None: ...

class QueueMember(_message.Message):
    __slots__ = ("node", "member", "state", "membership", "away_since_ms", "term", "first", "last", "commit", "applied", "snapshot", "lag", "machine_version", "digest", "snapshot_sent_bytes", "first_offset", "committed_offset", "segments", "bytes", "readers")
    NODE_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    MEMBERSHIP_FIELD_NUMBER: _ClassVar[int]
    AWAY_SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    APPLIED_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    MACHINE_VERSION_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_SENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_OFFSET_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    READERS_FIELD_NUMBER: _ClassVar[int]
    node: str
    member: str
    state: str
    membership: str
    away_since_ms: int
    term: int
    first: int
    last: int
    commit: int
    applied: int
    snapshot: int
    lag: int
    machine_version: int
    digest: str
    snapshot_sent_bytes: int
    first_offset: int
    committed_offset: int
    segments: int
    bytes: int
    readers: _containers.RepeatedCompositeFieldContainer[QueueReader]
    def __init__(self, node: _Optional[str] = ..., member: _Optional[str] = ..., state: _Optional[str] = ..., membership: _Optional[str] = ..., away_since_ms: _Optional[int] = ..., term: _Optional[int] = ..., first: _Optional[int] = ..., last: _Optional[int] = ..., commit: _Optional[int] = ..., applied: _Optional[int] = ..., snapshot: _Optional[int] = ..., lag: _Optional[int] = ..., machine_version: _Optional[int] = ..., digest: _Optional[str] = ..., snapshot_sent_bytes: _Optional[int] = ..., first_offset: _Optional[int] = ..., committed_offset: _Optional[int] = ..., segments: _Optional[int] = ..., bytes: _Optional[int] = ..., readers: _Optional[_Iterable[_Union[QueueReader, _Mapping]]] = ...) -> None: ...

class QueueReader(_message.Message):
    __slots__ = ("consumer_tag", "offset", "lag", "bytes_sent", "lag_s")
    CONSUMER_TAG_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    BYTES_SENT_FIELD_NUMBER: _ClassVar[int]
    LAG_S_FIELD_NUMBER: _ClassVar[int]
    consumer_tag: str
    offset: int
    lag: int
    bytes_sent: int
    lag_s: float
    def __init__(self, consumer_tag: _Optional[str] = ..., offset: _Optional[int] = ..., lag: _Optional[int] = ..., bytes_sent: _Optional[int] = ..., lag_s: _Optional[float] = ...) -> None: ...

class FindMessageLivesRequest(_message.Message):
    __slots__ = ("vhost", "queue", "message_id", "correlation_id", "place", "body_sha256")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    BODY_SHA256_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    queue: str
    message_id: str
    correlation_id: str
    place: str
    body_sha256: str
    def __init__(self, vhost: _Optional[str] = ..., queue: _Optional[str] = ..., message_id: _Optional[str] = ..., correlation_id: _Optional[str] = ..., place: _Optional[str] = ..., body_sha256: _Optional[str] = ...) -> None: ...

class FindMessageLivesResponse(_message.Message):
    __slots__ = ("lives", "nodes", "more")
    LIVES_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    lives: _containers.RepeatedCompositeFieldContainer[MessageLife]
    nodes: _containers.RepeatedCompositeFieldContainer[LogRead]
    more: bool
    def __init__(self, lives: _Optional[_Iterable[_Union[MessageLife, _Mapping]]] = ..., nodes: _Optional[_Iterable[_Union[LogRead, _Mapping]]] = ..., more: _Optional[bool] = ...) -> None: ...

class MessageLife(_message.Message):
    __slots__ = ("queue", "place", "published_at", "exchange", "routing_key", "message_id", "correlation_id", "body_bytes", "publisher", "steps", "steps_left_out", "death_reason", "was", "became", "committed", "unknown")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_AT_FIELD_NUMBER: _ClassVar[int]
    EXCHANGE_FIELD_NUMBER: _ClassVar[int]
    ROUTING_KEY_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    BODY_BYTES_FIELD_NUMBER: _ClassVar[int]
    PUBLISHER_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    STEPS_LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    DEATH_REASON_FIELD_NUMBER: _ClassVar[int]
    WAS_FIELD_NUMBER: _ClassVar[int]
    BECAME_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    queue: str
    place: str
    published_at: str
    exchange: str
    routing_key: str
    message_id: str
    correlation_id: str
    body_bytes: int
    publisher: str
    steps: _containers.RepeatedCompositeFieldContainer[LifeStep]
    steps_left_out: int
    death_reason: str
    was: LifePlace
    became: _containers.RepeatedCompositeFieldContainer[LifePlace]
    committed: bool
    unknown: str
    def __init__(self, queue: _Optional[str] = ..., place: _Optional[str] = ..., published_at: _Optional[str] = ..., exchange: _Optional[str] = ..., routing_key: _Optional[str] = ..., message_id: _Optional[str] = ..., correlation_id: _Optional[str] = ..., body_bytes: _Optional[int] = ..., publisher: _Optional[str] = ..., steps: _Optional[_Iterable[_Union[LifeStep, _Mapping]]] = ..., steps_left_out: _Optional[int] = ..., death_reason: _Optional[str] = ..., was: _Optional[_Union[LifePlace, _Mapping]] = ..., became: _Optional[_Iterable[_Union[LifePlace, _Mapping]]] = ..., committed: _Optional[bool] = ..., unknown: _Optional[str] = ...) -> None: ...

class LifeStep(_message.Message):
    __slots__ = ("at", "event", "reason", "who")
    AT_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    WHO_FIELD_NUMBER: _ClassVar[int]
    at: str
    event: str
    reason: str
    who: str
    def __init__(self, at: _Optional[str] = ..., event: _Optional[str] = ..., reason: _Optional[str] = ..., who: _Optional[str] = ...) -> None: ...

class LifePlace(_message.Message):
    __slots__ = ("queue", "place")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    queue: str
    place: str
    def __init__(self, queue: _Optional[str] = ..., place: _Optional[str] = ...) -> None: ...

class LogRead(_message.Message):
    __slots__ = ("node", "error", "files", "file_bytes", "skipped", "first", "last", "damaged_bytes")
    NODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    FILE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    DAMAGED_BYTES_FIELD_NUMBER: _ClassVar[int]
    node: str
    error: str
    files: int
    file_bytes: int
    skipped: int
    first: str
    last: str
    damaged_bytes: int
    def __init__(self, node: _Optional[str] = ..., error: _Optional[str] = ..., files: _Optional[int] = ..., file_bytes: _Optional[int] = ..., skipped: _Optional[int] = ..., first: _Optional[str] = ..., last: _Optional[str] = ..., damaged_bytes: _Optional[int] = ...) -> None: ...

class RedriveQueueRequest(_message.Message):
    __slots__ = ("vhost", "queue", "exchange", "routing_key", "reason", "died_in", "limit", "dry_run")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    EXCHANGE_FIELD_NUMBER: _ClassVar[int]
    ROUTING_KEY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DIED_IN_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    queue: str
    exchange: str
    routing_key: str
    reason: str
    died_in: str
    limit: int
    dry_run: bool
    def __init__(self, vhost: _Optional[str] = ..., queue: _Optional[str] = ..., exchange: _Optional[str] = ..., routing_key: _Optional[str] = ..., reason: _Optional[str] = ..., died_in: _Optional[str] = ..., limit: _Optional[int] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class ConvertQueueRequest(_message.Message):
    __slots__ = ("vhost", "queue", "dry_run")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    queue: str
    dry_run: bool
    def __init__(self, vhost: _Optional[str] = ..., queue: _Optional[str] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class GetQueueConversionRequest(_message.Message):
    __slots__ = ("vhost", "queue")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    queue: str
    def __init__(self, vhost: _Optional[str] = ..., queue: _Optional[str] = ...) -> None: ...

class QueueConversion(_message.Message):
    __slots__ = ("vhost", "queue", "state", "messages", "copied", "arguments", "waits_for")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    COPIED_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    queue: str
    state: str
    messages: int
    copied: int
    arguments: _message_pb2.Table
    waits_for: str
    def __init__(self, vhost: _Optional[str] = ..., queue: _Optional[str] = ..., state: _Optional[str] = ..., messages: _Optional[int] = ..., copied: _Optional[int] = ..., arguments: _Optional[_Union[_message_pb2.Table, _Mapping]] = ..., waits_for: _Optional[str] = ...) -> None: ...

class CancelQueueConversionRequest(_message.Message):
    __slots__ = ("vhost", "queue")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    queue: str
    def __init__(self, vhost: _Optional[str] = ..., queue: _Optional[str] = ...) -> None: ...

class CancelQueueConversionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RedriveProgress(_message.Message):
    __slots__ = ("state", "error", "ready", "seen", "moved", "causes")
    STATE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    MOVED_FIELD_NUMBER: _ClassVar[int]
    CAUSES_FIELD_NUMBER: _ClassVar[int]
    state: str
    error: str
    ready: int
    seen: int
    moved: int
    causes: _containers.RepeatedCompositeFieldContainer[RedriveCause]
    def __init__(self, state: _Optional[str] = ..., error: _Optional[str] = ..., ready: _Optional[int] = ..., seen: _Optional[int] = ..., moved: _Optional[int] = ..., causes: _Optional[_Iterable[_Union[RedriveCause, _Mapping]]] = ...) -> None: ...

class RedriveCause(_message.Message):
    __slots__ = ("fate", "reason", "died_in", "exchange", "routing_key", "to_exchange", "to_routing_key", "messages")
    FATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DIED_IN_FIELD_NUMBER: _ClassVar[int]
    EXCHANGE_FIELD_NUMBER: _ClassVar[int]
    ROUTING_KEY_FIELD_NUMBER: _ClassVar[int]
    TO_EXCHANGE_FIELD_NUMBER: _ClassVar[int]
    TO_ROUTING_KEY_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    fate: str
    reason: str
    died_in: str
    exchange: str
    routing_key: str
    to_exchange: str
    to_routing_key: str
    messages: int
    def __init__(self, fate: _Optional[str] = ..., reason: _Optional[str] = ..., died_in: _Optional[str] = ..., exchange: _Optional[str] = ..., routing_key: _Optional[str] = ..., to_exchange: _Optional[str] = ..., to_routing_key: _Optional[str] = ..., messages: _Optional[int] = ...) -> None: ...

class ReplayQueueRequest(_message.Message):
    __slots__ = ("vhost", "queue", "exchange", "routing_key", "ends", "since_ms", "until_ms", "after", "published_key", "consumer", "limit", "rate", "dry_run")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    EXCHANGE_FIELD_NUMBER: _ClassVar[int]
    ROUTING_KEY_FIELD_NUMBER: _ClassVar[int]
    ENDS_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_KEY_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    queue: str
    exchange: str
    routing_key: str
    ends: _containers.RepeatedScalarFieldContainer[str]
    since_ms: int
    until_ms: int
    after: str
    published_key: str
    consumer: str
    limit: int
    rate: int
    dry_run: bool
    def __init__(self, vhost: _Optional[str] = ..., queue: _Optional[str] = ..., exchange: _Optional[str] = ..., routing_key: _Optional[str] = ..., ends: _Optional[_Iterable[str]] = ..., since_ms: _Optional[int] = ..., until_ms: _Optional[int] = ..., after: _Optional[str] = ..., published_key: _Optional[str] = ..., consumer: _Optional[str] = ..., limit: _Optional[int] = ..., rate: _Optional[int] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class ReplayProgress(_message.Message):
    __slots__ = ("state", "error", "chosen", "published", "unroutable", "is_replay", "gone", "unreadable", "answered_to", "id", "coverage")
    STATE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    CHOSEN_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    UNROUTABLE_FIELD_NUMBER: _ClassVar[int]
    IS_REPLAY_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    UNREADABLE_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_TO_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    COVERAGE_FIELD_NUMBER: _ClassVar[int]
    state: str
    error: str
    chosen: int
    published: int
    unroutable: int
    is_replay: int
    gone: int
    unreadable: int
    answered_to: str
    id: str
    coverage: ReplayCoverage
    def __init__(self, state: _Optional[str] = ..., error: _Optional[str] = ..., chosen: _Optional[int] = ..., published: _Optional[int] = ..., unroutable: _Optional[int] = ..., is_replay: _Optional[int] = ..., gone: _Optional[int] = ..., unreadable: _Optional[int] = ..., answered_to: _Optional[str] = ..., id: _Optional[str] = ..., coverage: _Optional[_Union[ReplayCoverage, _Mapping]] = ...) -> None: ...

class ReplayCoverage(_message.Message):
    __slots__ = ("messages", "first", "last", "causes", "skipped", "uncommitted", "unnamed", "more", "unknown", "files", "files_skipped", "from_time", "to_time", "damaged_bytes")
    class SkippedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    CAUSES_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    UNCOMMITTED_FIELD_NUMBER: _ClassVar[int]
    UNNAMED_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    FILES_SKIPPED_FIELD_NUMBER: _ClassVar[int]
    FROM_TIME_FIELD_NUMBER: _ClassVar[int]
    TO_TIME_FIELD_NUMBER: _ClassVar[int]
    DAMAGED_BYTES_FIELD_NUMBER: _ClassVar[int]
    messages: int
    first: str
    last: str
    causes: _containers.RepeatedCompositeFieldContainer[ReplayCause]
    skipped: _containers.ScalarMap[str, int]
    uncommitted: int
    unnamed: int
    more: bool
    unknown: str
    files: int
    files_skipped: int
    from_time: str
    to_time: str
    damaged_bytes: int
    def __init__(self, messages: _Optional[int] = ..., first: _Optional[str] = ..., last: _Optional[str] = ..., causes: _Optional[_Iterable[_Union[ReplayCause, _Mapping]]] = ..., skipped: _Optional[_Mapping[str, int]] = ..., uncommitted: _Optional[int] = ..., unnamed: _Optional[int] = ..., more: _Optional[bool] = ..., unknown: _Optional[str] = ..., files: _Optional[int] = ..., files_skipped: _Optional[int] = ..., from_time: _Optional[str] = ..., to_time: _Optional[str] = ..., damaged_bytes: _Optional[int] = ...) -> None: ...

class ReplayCause(_message.Message):
    __slots__ = ("end", "exchange", "routing_key", "messages")
    END_FIELD_NUMBER: _ClassVar[int]
    EXCHANGE_FIELD_NUMBER: _ClassVar[int]
    ROUTING_KEY_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    end: str
    exchange: str
    routing_key: str
    messages: int
    def __init__(self, end: _Optional[str] = ..., exchange: _Optional[str] = ..., routing_key: _Optional[str] = ..., messages: _Optional[int] = ...) -> None: ...

class Connection(_message.Message):
    __slots__ = ("id", "name", "user", "vhost", "protocol", "connected_at_ms", "client_properties", "statistics")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    VHOST_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    STATISTICS_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    user: str
    vhost: str
    protocol: str
    connected_at_ms: int
    client_properties: _message_pb2.Table
    statistics: _message_pb2.Table
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., user: _Optional[str] = ..., vhost: _Optional[str] = ..., protocol: _Optional[str] = ..., connected_at_ms: _Optional[int] = ..., client_properties: _Optional[_Union[_message_pb2.Table, _Mapping]] = ..., statistics: _Optional[_Union[_message_pb2.Table, _Mapping]] = ...) -> None: ...

class ListConnectionsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListConnectionsResponse(_message.Message):
    __slots__ = ("connections",)
    CONNECTIONS_FIELD_NUMBER: _ClassVar[int]
    connections: _containers.RepeatedCompositeFieldContainer[Connection]
    def __init__(self, connections: _Optional[_Iterable[_Union[Connection, _Mapping]]] = ...) -> None: ...

class CloseConnectionRequest(_message.Message):
    __slots__ = ("id", "reason")
    ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    id: str
    reason: str
    def __init__(self, id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class CloseConnectionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Channel(_message.Message):
    __slots__ = ("connection", "number", "user", "vhost", "statistics")
    CONNECTION_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    VHOST_FIELD_NUMBER: _ClassVar[int]
    STATISTICS_FIELD_NUMBER: _ClassVar[int]
    connection: str
    number: int
    user: str
    vhost: str
    statistics: _message_pb2.Table
    def __init__(self, connection: _Optional[str] = ..., number: _Optional[int] = ..., user: _Optional[str] = ..., vhost: _Optional[str] = ..., statistics: _Optional[_Union[_message_pb2.Table, _Mapping]] = ...) -> None: ...

class ListChannelsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListChannelsResponse(_message.Message):
    __slots__ = ("channels",)
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    channels: _containers.RepeatedCompositeFieldContainer[Channel]
    def __init__(self, channels: _Optional[_Iterable[_Union[Channel, _Mapping]]] = ...) -> None: ...

class ConsumerInfo(_message.Message):
    __slots__ = ("vhost", "queue", "consumer_tag", "connection", "channel", "no_ack", "exclusive", "prefetch", "outstanding", "priority", "active", "arguments")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_TAG_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    NO_ACK_FIELD_NUMBER: _ClassVar[int]
    EXCLUSIVE_FIELD_NUMBER: _ClassVar[int]
    PREFETCH_FIELD_NUMBER: _ClassVar[int]
    OUTSTANDING_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
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
    arguments: _message_pb2.Table
    def __init__(self, vhost: _Optional[str] = ..., queue: _Optional[str] = ..., consumer_tag: _Optional[str] = ..., connection: _Optional[str] = ..., channel: _Optional[int] = ..., no_ack: _Optional[bool] = ..., exclusive: _Optional[bool] = ..., prefetch: _Optional[int] = ..., outstanding: _Optional[int] = ..., priority: _Optional[int] = ..., active: _Optional[bool] = ..., arguments: _Optional[_Union[_message_pb2.Table, _Mapping]] = ...) -> None: ...

class ListConsumersRequest(_message.Message):
    __slots__ = ("vhost", "all_vhosts")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    ALL_VHOSTS_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    all_vhosts: bool
    def __init__(self, vhost: _Optional[str] = ..., all_vhosts: _Optional[bool] = ...) -> None: ...

class ListConsumersResponse(_message.Message):
    __slots__ = ("consumers",)
    CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    consumers: _containers.RepeatedCompositeFieldContainer[ConsumerInfo]
    def __init__(self, consumers: _Optional[_Iterable[_Union[ConsumerInfo, _Mapping]]] = ...) -> None: ...

class StreamPublisher(_message.Message):
    __slots__ = ("vhost", "stream", "connection", "user", "publisher_id", "reference", "published", "confirmed", "refused")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    PUBLISHER_ID_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    stream: str
    connection: str
    user: str
    publisher_id: int
    reference: str
    published: int
    confirmed: int
    refused: int
    def __init__(self, vhost: _Optional[str] = ..., stream: _Optional[str] = ..., connection: _Optional[str] = ..., user: _Optional[str] = ..., publisher_id: _Optional[int] = ..., reference: _Optional[str] = ..., published: _Optional[int] = ..., confirmed: _Optional[int] = ..., refused: _Optional[int] = ...) -> None: ...

class ListStreamPublishersRequest(_message.Message):
    __slots__ = ("vhost", "all_vhosts", "stream")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    ALL_VHOSTS_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    all_vhosts: bool
    stream: str
    def __init__(self, vhost: _Optional[str] = ..., all_vhosts: _Optional[bool] = ..., stream: _Optional[str] = ...) -> None: ...

class ListStreamPublishersResponse(_message.Message):
    __slots__ = ("publishers",)
    PUBLISHERS_FIELD_NUMBER: _ClassVar[int]
    publishers: _containers.RepeatedCompositeFieldContainer[StreamPublisher]
    def __init__(self, publishers: _Optional[_Iterable[_Union[StreamPublisher, _Mapping]]] = ...) -> None: ...

class StreamConsumer(_message.Message):
    __slots__ = ("vhost", "stream", "connection", "user", "subscription_id", "group", "super_stream", "active", "activity", "credit", "delivered", "offset", "lag", "lag_s")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SUPER_STREAM_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    ACTIVITY_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    LAG_S_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    stream: str
    connection: str
    user: str
    subscription_id: int
    group: str
    super_stream: str
    active: bool
    activity: str
    credit: int
    delivered: int
    offset: int
    lag: int
    lag_s: float
    def __init__(self, vhost: _Optional[str] = ..., stream: _Optional[str] = ..., connection: _Optional[str] = ..., user: _Optional[str] = ..., subscription_id: _Optional[int] = ..., group: _Optional[str] = ..., super_stream: _Optional[str] = ..., active: _Optional[bool] = ..., activity: _Optional[str] = ..., credit: _Optional[int] = ..., delivered: _Optional[int] = ..., offset: _Optional[int] = ..., lag: _Optional[int] = ..., lag_s: _Optional[float] = ...) -> None: ...

class ListStreamConsumersRequest(_message.Message):
    __slots__ = ("vhost", "all_vhosts", "stream")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    ALL_VHOSTS_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    all_vhosts: bool
    stream: str
    def __init__(self, vhost: _Optional[str] = ..., all_vhosts: _Optional[bool] = ..., stream: _Optional[str] = ...) -> None: ...

class ListStreamConsumersResponse(_message.Message):
    __slots__ = ("consumers",)
    CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    consumers: _containers.RepeatedCompositeFieldContainer[StreamConsumer]
    def __init__(self, consumers: _Optional[_Iterable[_Union[StreamConsumer, _Mapping]]] = ...) -> None: ...

class Vhost(_message.Message):
    __slots__ = ("name", "description", "tags", "default_queue_type", "protected_from_deletion", "limits", "tracing")
    class LimitsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_QUEUE_TYPE_FIELD_NUMBER: _ClassVar[int]
    PROTECTED_FROM_DELETION_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    TRACING_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    default_queue_type: str
    protected_from_deletion: bool
    limits: _containers.ScalarMap[str, int]
    tracing: bool
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., default_queue_type: _Optional[str] = ..., protected_from_deletion: _Optional[bool] = ..., limits: _Optional[_Mapping[str, int]] = ..., tracing: _Optional[bool] = ...) -> None: ...

class ListVhostsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListVhostsResponse(_message.Message):
    __slots__ = ("vhosts",)
    VHOSTS_FIELD_NUMBER: _ClassVar[int]
    vhosts: _containers.RepeatedCompositeFieldContainer[Vhost]
    def __init__(self, vhosts: _Optional[_Iterable[_Union[Vhost, _Mapping]]] = ...) -> None: ...

class PutVhostRequest(_message.Message):
    __slots__ = ("vhost",)
    VHOST_FIELD_NUMBER: _ClassVar[int]
    vhost: Vhost
    def __init__(self, vhost: _Optional[_Union[Vhost, _Mapping]] = ...) -> None: ...

class PutVhostResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TraceVhostRequest(_message.Message):
    __slots__ = ("name", "on")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ON_FIELD_NUMBER: _ClassVar[int]
    name: str
    on: bool
    def __init__(self, name: _Optional[str] = ..., on: _Optional[bool] = ...) -> None: ...

class TraceVhostResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeleteVhostRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DeleteVhostResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class User(_message.Message):
    __slots__ = ("name", "tags", "has_password", "limits")
    class LimitsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    HAS_PASSWORD_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    name: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    has_password: bool
    limits: _containers.ScalarMap[str, int]
    def __init__(self, name: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., has_password: _Optional[bool] = ..., limits: _Optional[_Mapping[str, int]] = ...) -> None: ...

class ListUsersRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListUsersResponse(_message.Message):
    __slots__ = ("users",)
    USERS_FIELD_NUMBER: _ClassVar[int]
    users: _containers.RepeatedCompositeFieldContainer[User]
    def __init__(self, users: _Optional[_Iterable[_Union[User, _Mapping]]] = ...) -> None: ...

class Tags(_message.Message):
    __slots__ = ("tags",)
    TAGS_FIELD_NUMBER: _ClassVar[int]
    tags: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, tags: _Optional[_Iterable[str]] = ...) -> None: ...

class PutUserRequest(_message.Message):
    __slots__ = ("name", "password", "clear_password", "tags", "create_only", "change_only")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PASSWORD_FIELD_NUMBER: _ClassVar[int]
    CLEAR_PASSWORD_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    CREATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    CHANGE_ONLY_FIELD_NUMBER: _ClassVar[int]
    name: str
    password: str
    clear_password: bool
    tags: Tags
    create_only: bool
    change_only: bool
    def __init__(self, name: _Optional[str] = ..., password: _Optional[str] = ..., clear_password: _Optional[bool] = ..., tags: _Optional[_Union[Tags, _Mapping]] = ..., create_only: _Optional[bool] = ..., change_only: _Optional[bool] = ...) -> None: ...

class PutUserResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeleteUserRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DeleteUserResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Permissions(_message.Message):
    __slots__ = ("user", "vhost", "configure", "write", "read")
    USER_FIELD_NUMBER: _ClassVar[int]
    VHOST_FIELD_NUMBER: _ClassVar[int]
    CONFIGURE_FIELD_NUMBER: _ClassVar[int]
    WRITE_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    user: str
    vhost: str
    configure: str
    write: str
    read: str
    def __init__(self, user: _Optional[str] = ..., vhost: _Optional[str] = ..., configure: _Optional[str] = ..., write: _Optional[str] = ..., read: _Optional[str] = ...) -> None: ...

class ListPermissionsRequest(_message.Message):
    __slots__ = ("user", "vhost", "all_vhosts")
    USER_FIELD_NUMBER: _ClassVar[int]
    VHOST_FIELD_NUMBER: _ClassVar[int]
    ALL_VHOSTS_FIELD_NUMBER: _ClassVar[int]
    user: str
    vhost: str
    all_vhosts: bool
    def __init__(self, user: _Optional[str] = ..., vhost: _Optional[str] = ..., all_vhosts: _Optional[bool] = ...) -> None: ...

class ListPermissionsResponse(_message.Message):
    __slots__ = ("permissions",)
    PERMISSIONS_FIELD_NUMBER: _ClassVar[int]
    permissions: _containers.RepeatedCompositeFieldContainer[Permissions]
    def __init__(self, permissions: _Optional[_Iterable[_Union[Permissions, _Mapping]]] = ...) -> None: ...

class SetPermissionsRequest(_message.Message):
    __slots__ = ("permissions",)
    PERMISSIONS_FIELD_NUMBER: _ClassVar[int]
    permissions: Permissions
    def __init__(self, permissions: _Optional[_Union[Permissions, _Mapping]] = ...) -> None: ...

class SetPermissionsResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ClearPermissionsRequest(_message.Message):
    __slots__ = ("user", "vhost")
    USER_FIELD_NUMBER: _ClassVar[int]
    VHOST_FIELD_NUMBER: _ClassVar[int]
    user: str
    vhost: str
    def __init__(self, user: _Optional[str] = ..., vhost: _Optional[str] = ...) -> None: ...

class ClearPermissionsResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TopicPermissions(_message.Message):
    __slots__ = ("user", "vhost", "exchange", "write", "read")
    USER_FIELD_NUMBER: _ClassVar[int]
    VHOST_FIELD_NUMBER: _ClassVar[int]
    EXCHANGE_FIELD_NUMBER: _ClassVar[int]
    WRITE_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    user: str
    vhost: str
    exchange: str
    write: str
    read: str
    def __init__(self, user: _Optional[str] = ..., vhost: _Optional[str] = ..., exchange: _Optional[str] = ..., write: _Optional[str] = ..., read: _Optional[str] = ...) -> None: ...

class ListTopicPermissionsRequest(_message.Message):
    __slots__ = ("user", "vhost", "all_vhosts")
    USER_FIELD_NUMBER: _ClassVar[int]
    VHOST_FIELD_NUMBER: _ClassVar[int]
    ALL_VHOSTS_FIELD_NUMBER: _ClassVar[int]
    user: str
    vhost: str
    all_vhosts: bool
    def __init__(self, user: _Optional[str] = ..., vhost: _Optional[str] = ..., all_vhosts: _Optional[bool] = ...) -> None: ...

class ListTopicPermissionsResponse(_message.Message):
    __slots__ = ("permissions",)
    PERMISSIONS_FIELD_NUMBER: _ClassVar[int]
    permissions: _containers.RepeatedCompositeFieldContainer[TopicPermissions]
    def __init__(self, permissions: _Optional[_Iterable[_Union[TopicPermissions, _Mapping]]] = ...) -> None: ...

class SetTopicPermissionsRequest(_message.Message):
    __slots__ = ("permissions",)
    PERMISSIONS_FIELD_NUMBER: _ClassVar[int]
    permissions: TopicPermissions
    def __init__(self, permissions: _Optional[_Union[TopicPermissions, _Mapping]] = ...) -> None: ...

class SetTopicPermissionsResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ClearTopicPermissionsRequest(_message.Message):
    __slots__ = ("user", "vhost", "exchange")
    USER_FIELD_NUMBER: _ClassVar[int]
    VHOST_FIELD_NUMBER: _ClassVar[int]
    EXCHANGE_FIELD_NUMBER: _ClassVar[int]
    user: str
    vhost: str
    exchange: str
    def __init__(self, user: _Optional[str] = ..., vhost: _Optional[str] = ..., exchange: _Optional[str] = ...) -> None: ...

class ClearTopicPermissionsResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Policy(_message.Message):
    __slots__ = ("vhost", "name", "pattern", "apply_to", "priority", "definition", "operator")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    APPLY_TO_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    name: str
    pattern: str
    apply_to: str
    priority: int
    definition: _message_pb2.Table
    operator: bool
    def __init__(self, vhost: _Optional[str] = ..., name: _Optional[str] = ..., pattern: _Optional[str] = ..., apply_to: _Optional[str] = ..., priority: _Optional[int] = ..., definition: _Optional[_Union[_message_pb2.Table, _Mapping]] = ..., operator: _Optional[bool] = ...) -> None: ...

class ListPoliciesRequest(_message.Message):
    __slots__ = ("vhost", "all_vhosts", "operator")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    ALL_VHOSTS_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    all_vhosts: bool
    operator: bool
    def __init__(self, vhost: _Optional[str] = ..., all_vhosts: _Optional[bool] = ..., operator: _Optional[bool] = ...) -> None: ...

class ListPoliciesResponse(_message.Message):
    __slots__ = ("policies",)
    POLICIES_FIELD_NUMBER: _ClassVar[int]
    policies: _containers.RepeatedCompositeFieldContainer[Policy]
    def __init__(self, policies: _Optional[_Iterable[_Union[Policy, _Mapping]]] = ...) -> None: ...

class SetPolicyRequest(_message.Message):
    __slots__ = ("policy",)
    POLICY_FIELD_NUMBER: _ClassVar[int]
    policy: Policy
    def __init__(self, policy: _Optional[_Union[Policy, _Mapping]] = ...) -> None: ...

class SetPolicyResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ClearPolicyRequest(_message.Message):
    __slots__ = ("vhost", "name", "operator")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    name: str
    operator: bool
    def __init__(self, vhost: _Optional[str] = ..., name: _Optional[str] = ..., operator: _Optional[bool] = ...) -> None: ...

class ClearPolicyResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ShovelEnd(_message.Message):
    __slots__ = ("uri", "protocol", "queue", "exchange", "exchange_key")
    URI_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    EXCHANGE_FIELD_NUMBER: _ClassVar[int]
    EXCHANGE_KEY_FIELD_NUMBER: _ClassVar[int]
    uri: str
    protocol: str
    queue: str
    exchange: str
    exchange_key: str
    def __init__(self, uri: _Optional[str] = ..., protocol: _Optional[str] = ..., queue: _Optional[str] = ..., exchange: _Optional[str] = ..., exchange_key: _Optional[str] = ...) -> None: ...

class Shovel(_message.Message):
    __slots__ = ("vhost", "name", "node", "type", "state", "reason", "since_ms", "source", "destination", "remaining", "pending", "unconfirmed", "forwarded", "returned", "restarts", "stalls")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    DESTINATION_FIELD_NUMBER: _ClassVar[int]
    REMAINING_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    UNCONFIRMED_FIELD_NUMBER: _ClassVar[int]
    FORWARDED_FIELD_NUMBER: _ClassVar[int]
    RETURNED_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_FIELD_NUMBER: _ClassVar[int]
    STALLS_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    name: str
    node: str
    type: str
    state: str
    reason: str
    since_ms: int
    source: ShovelEnd
    destination: ShovelEnd
    remaining: int
    pending: int
    unconfirmed: int
    forwarded: int
    returned: int
    restarts: int
    stalls: int
    def __init__(self, vhost: _Optional[str] = ..., name: _Optional[str] = ..., node: _Optional[str] = ..., type: _Optional[str] = ..., state: _Optional[str] = ..., reason: _Optional[str] = ..., since_ms: _Optional[int] = ..., source: _Optional[_Union[ShovelEnd, _Mapping]] = ..., destination: _Optional[_Union[ShovelEnd, _Mapping]] = ..., remaining: _Optional[int] = ..., pending: _Optional[int] = ..., unconfirmed: _Optional[int] = ..., forwarded: _Optional[int] = ..., returned: _Optional[int] = ..., restarts: _Optional[int] = ..., stalls: _Optional[int] = ...) -> None: ...

class ListShovelsRequest(_message.Message):
    __slots__ = ("vhost", "all_vhosts")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    ALL_VHOSTS_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    all_vhosts: bool
    def __init__(self, vhost: _Optional[str] = ..., all_vhosts: _Optional[bool] = ...) -> None: ...

class ListShovelsResponse(_message.Message):
    __slots__ = ("shovels", "missing_nodes")
    SHOVELS_FIELD_NUMBER: _ClassVar[int]
    MISSING_NODES_FIELD_NUMBER: _ClassVar[int]
    shovels: _containers.RepeatedCompositeFieldContainer[Shovel]
    missing_nodes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, shovels: _Optional[_Iterable[_Union[Shovel, _Mapping]]] = ..., missing_nodes: _Optional[_Iterable[str]] = ...) -> None: ...

class PutShovelRequest(_message.Message):
    __slots__ = ("vhost", "name", "definition", "create_only")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_FIELD_NUMBER: _ClassVar[int]
    CREATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    name: str
    definition: _message_pb2.Table
    create_only: bool
    def __init__(self, vhost: _Optional[str] = ..., name: _Optional[str] = ..., definition: _Optional[_Union[_message_pb2.Table, _Mapping]] = ..., create_only: _Optional[bool] = ...) -> None: ...

class PutShovelResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeleteShovelRequest(_message.Message):
    __slots__ = ("vhost", "name")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    name: str
    def __init__(self, vhost: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class DeleteShovelResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RestartShovelRequest(_message.Message):
    __slots__ = ("vhost", "name")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    name: str
    def __init__(self, vhost: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class RestartShovelResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FederationLink(_message.Message):
    __slots__ = ("vhost", "type", "name", "upstream", "upstream_name", "id", "node", "status", "error", "uri", "since_ms", "passed_on", "dropped", "refused", "unconfirmed", "restarts")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    UPSTREAM_FIELD_NUMBER: _ClassVar[int]
    UPSTREAM_NAME_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    URI_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    PASSED_ON_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    UNCONFIRMED_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    type: str
    name: str
    upstream: str
    upstream_name: str
    id: str
    node: str
    status: str
    error: str
    uri: str
    since_ms: int
    passed_on: int
    dropped: int
    refused: int
    unconfirmed: int
    restarts: int
    def __init__(self, vhost: _Optional[str] = ..., type: _Optional[str] = ..., name: _Optional[str] = ..., upstream: _Optional[str] = ..., upstream_name: _Optional[str] = ..., id: _Optional[str] = ..., node: _Optional[str] = ..., status: _Optional[str] = ..., error: _Optional[str] = ..., uri: _Optional[str] = ..., since_ms: _Optional[int] = ..., passed_on: _Optional[int] = ..., dropped: _Optional[int] = ..., refused: _Optional[int] = ..., unconfirmed: _Optional[int] = ..., restarts: _Optional[int] = ...) -> None: ...

class ListFederationLinksRequest(_message.Message):
    __slots__ = ("vhost", "all_vhosts")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    ALL_VHOSTS_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    all_vhosts: bool
    def __init__(self, vhost: _Optional[str] = ..., all_vhosts: _Optional[bool] = ...) -> None: ...

class ListFederationLinksResponse(_message.Message):
    __slots__ = ("links", "missing_nodes")
    LINKS_FIELD_NUMBER: _ClassVar[int]
    MISSING_NODES_FIELD_NUMBER: _ClassVar[int]
    links: _containers.RepeatedCompositeFieldContainer[FederationLink]
    missing_nodes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, links: _Optional[_Iterable[_Union[FederationLink, _Mapping]]] = ..., missing_nodes: _Optional[_Iterable[str]] = ...) -> None: ...

class RestartFederationLinkRequest(_message.Message):
    __slots__ = ("vhost", "id", "node")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    id: str
    node: str
    def __init__(self, vhost: _Optional[str] = ..., id: _Optional[str] = ..., node: _Optional[str] = ...) -> None: ...

class RestartFederationLinkResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SetLogLevelRequest(_message.Message):
    __slots__ = ("level",)
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    level: str
    def __init__(self, level: _Optional[str] = ...) -> None: ...

class SetLogLevelResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SetVhostLimitsRequest(_message.Message):
    __slots__ = ("vhost", "limits")
    class LimitsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    VHOST_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    limits: _containers.ScalarMap[str, int]
    def __init__(self, vhost: _Optional[str] = ..., limits: _Optional[_Mapping[str, int]] = ...) -> None: ...

class SetVhostLimitsResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SetUserLimitsRequest(_message.Message):
    __slots__ = ("user", "limits")
    class LimitsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    USER_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    user: str
    limits: _containers.ScalarMap[str, int]
    def __init__(self, user: _Optional[str] = ..., limits: _Optional[_Mapping[str, int]] = ...) -> None: ...

class SetUserLimitsResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ExportDefinitionsRequest(_message.Message):
    __slots__ = ("vhost", "password_hashes")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    PASSWORD_HASHES_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    password_hashes: bool
    def __init__(self, vhost: _Optional[str] = ..., password_hashes: _Optional[bool] = ...) -> None: ...

class ExportDefinitionsResponse(_message.Message):
    __slots__ = ("definitions",)
    DEFINITIONS_FIELD_NUMBER: _ClassVar[int]
    definitions: bytes
    def __init__(self, definitions: _Optional[bytes] = ...) -> None: ...

class ImportDefinitionsRequest(_message.Message):
    __slots__ = ("definitions", "vhost", "dry_run")
    DEFINITIONS_FIELD_NUMBER: _ClassVar[int]
    VHOST_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    definitions: bytes
    vhost: str
    dry_run: bool
    def __init__(self, definitions: _Optional[bytes] = ..., vhost: _Optional[str] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class DefinitionEffect(_message.Message):
    __slots__ = ("where", "what", "effect", "text")
    WHERE_FIELD_NUMBER: _ClassVar[int]
    WHAT_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    where: str
    what: str
    effect: str
    text: str
    def __init__(self, where: _Optional[str] = ..., what: _Optional[str] = ..., effect: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class ImportDefinitionsResponse(_message.Message):
    __slots__ = ("applied", "effects", "counts")
    class CountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    APPLIED_FIELD_NUMBER: _ClassVar[int]
    EFFECTS_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    applied: int
    effects: _containers.RepeatedCompositeFieldContainer[DefinitionEffect]
    counts: _containers.ScalarMap[str, int]
    def __init__(self, applied: _Optional[int] = ..., effects: _Optional[_Iterable[_Union[DefinitionEffect, _Mapping]]] = ..., counts: _Optional[_Mapping[str, int]] = ...) -> None: ...

class GetClusterStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ClusterNode(_message.Message):
    __slots__ = ("name", "number", "kind", "address", "zone", "draining", "up", "since_ms", "version", "listeners", "alarms")
    NAME_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    UP_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LISTENERS_FIELD_NUMBER: _ClassVar[int]
    ALARMS_FIELD_NUMBER: _ClassVar[int]
    name: str
    number: int
    kind: str
    address: str
    zone: str
    draining: bool
    up: bool
    since_ms: int
    version: str
    listeners: _containers.RepeatedCompositeFieldContainer[Listener]
    alarms: _containers.RepeatedCompositeFieldContainer[Alarm]
    def __init__(self, name: _Optional[str] = ..., number: _Optional[int] = ..., kind: _Optional[str] = ..., address: _Optional[str] = ..., zone: _Optional[str] = ..., draining: _Optional[bool] = ..., up: _Optional[bool] = ..., since_ms: _Optional[int] = ..., version: _Optional[str] = ..., listeners: _Optional[_Iterable[_Union[Listener, _Mapping]]] = ..., alarms: _Optional[_Iterable[_Union[Alarm, _Mapping]]] = ...) -> None: ...

class GetClusterStatusResponse(_message.Message):
    __slots__ = ("cluster_id", "cluster_name", "seen_by", "nodes", "metadata_leader", "metadata_term", "metadata_voters", "missing", "problems")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_NAME_FIELD_NUMBER: _ClassVar[int]
    SEEN_BY_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    METADATA_LEADER_FIELD_NUMBER: _ClassVar[int]
    METADATA_TERM_FIELD_NUMBER: _ClassVar[int]
    METADATA_VOTERS_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    cluster_name: str
    seen_by: str
    nodes: _containers.RepeatedCompositeFieldContainer[ClusterNode]
    metadata_leader: str
    metadata_term: int
    metadata_voters: _containers.RepeatedScalarFieldContainer[str]
    missing: _containers.RepeatedScalarFieldContainer[str]
    problems: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, cluster_id: _Optional[str] = ..., cluster_name: _Optional[str] = ..., seen_by: _Optional[str] = ..., nodes: _Optional[_Iterable[_Union[ClusterNode, _Mapping]]] = ..., metadata_leader: _Optional[str] = ..., metadata_term: _Optional[int] = ..., metadata_voters: _Optional[_Iterable[str]] = ..., missing: _Optional[_Iterable[str]] = ..., problems: _Optional[_Iterable[str]] = ...) -> None: ...

class JoinClusterRequest(_message.Message):
    __slots__ = ("address",)
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    address: str
    def __init__(self, address: _Optional[str] = ...) -> None: ...

class JoinClusterResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LeaveClusterRequest(_message.Message):
    __slots__ = ("lose_queues",)
    LOSE_QUEUES_FIELD_NUMBER: _ClassVar[int]
    lose_queues: bool
    def __init__(self, lose_queues: _Optional[bool] = ...) -> None: ...

class LeaveClusterResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PlanForgetRequest(_message.Message):
    __slots__ = ("name", "limit")
    NAME_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    name: str
    limit: int
    def __init__(self, name: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class ForgetPlan(_message.Message):
    __slots__ = ("node", "count", "lost", "obstacles")
    NODE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    OBSTACLES_FIELD_NUMBER: _ClassVar[int]
    node: str
    count: int
    lost: _containers.RepeatedCompositeFieldContainer[ForgottenQueue]
    obstacles: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, node: _Optional[str] = ..., count: _Optional[int] = ..., lost: _Optional[_Iterable[_Union[ForgottenQueue, _Mapping]]] = ..., obstacles: _Optional[_Iterable[str]] = ...) -> None: ...

class ForgottenQueue(_message.Message):
    __slots__ = ("vhost", "queue")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    queue: str
    def __init__(self, vhost: _Optional[str] = ..., queue: _Optional[str] = ...) -> None: ...

class ForgetNodeRequest(_message.Message):
    __slots__ = ("name", "anyway")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ANYWAY_FIELD_NUMBER: _ClassVar[int]
    name: str
    anyway: bool
    def __init__(self, name: _Optional[str] = ..., anyway: _Optional[bool] = ...) -> None: ...

class ForgetNodeResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ChangeNodeKindRequest(_message.Message):
    __slots__ = ("kind",)
    KIND_FIELD_NUMBER: _ClassVar[int]
    kind: str
    def __init__(self, kind: _Optional[str] = ...) -> None: ...

class ChangeNodeKindResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PlanDecommissionRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PlannedMove(_message.Message):
    __slots__ = ("vhost", "queue", "kind", "to", "copies", "copies_before", "leads", "bytes")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    COPIES_FIELD_NUMBER: _ClassVar[int]
    COPIES_BEFORE_FIELD_NUMBER: _ClassVar[int]
    LEADS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    queue: str
    kind: str
    to: str
    copies: int
    copies_before: int
    leads: bool
    bytes: int
    def __init__(self, vhost: _Optional[str] = ..., queue: _Optional[str] = ..., kind: _Optional[str] = ..., to: _Optional[str] = ..., copies: _Optional[int] = ..., copies_before: _Optional[int] = ..., leads: _Optional[bool] = ..., bytes: _Optional[int] = ...) -> None: ...

class LostQueue(_message.Message):
    __slots__ = ("vhost", "queue", "messages", "bytes")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    queue: str
    messages: int
    bytes: int
    def __init__(self, vhost: _Optional[str] = ..., queue: _Optional[str] = ..., messages: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class DecommissionPlan(_message.Message):
    __slots__ = ("node", "moves", "lost", "obstacles")
    NODE_FIELD_NUMBER: _ClassVar[int]
    MOVES_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    OBSTACLES_FIELD_NUMBER: _ClassVar[int]
    node: str
    moves: _containers.RepeatedCompositeFieldContainer[PlannedMove]
    lost: _containers.RepeatedCompositeFieldContainer[LostQueue]
    obstacles: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, node: _Optional[str] = ..., moves: _Optional[_Iterable[_Union[PlannedMove, _Mapping]]] = ..., lost: _Optional[_Iterable[_Union[LostQueue, _Mapping]]] = ..., obstacles: _Optional[_Iterable[str]] = ...) -> None: ...

class DecommissionNodeRequest(_message.Message):
    __slots__ = ("confirm", "lose_queues")
    CONFIRM_FIELD_NUMBER: _ClassVar[int]
    LOSE_QUEUES_FIELD_NUMBER: _ClassVar[int]
    confirm: str
    lose_queues: bool
    def __init__(self, confirm: _Optional[str] = ..., lose_queues: _Optional[bool] = ...) -> None: ...

class DecommissionProgress(_message.Message):
    __slots__ = ("node", "phase", "moved", "total", "error")
    NODE_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    MOVED_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    node: str
    phase: str
    moved: int
    total: int
    error: str
    def __init__(self, node: _Optional[str] = ..., phase: _Optional[str] = ..., moved: _Optional[int] = ..., total: _Optional[int] = ..., error: _Optional[str] = ...) -> None: ...

class CancelDecommissionRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DrainNodeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DrainNodeResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReviveNodeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReviveNodeResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AddQueueMemberRequest(_message.Message):
    __slots__ = ("vhost", "queue", "node")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    queue: str
    node: str
    def __init__(self, vhost: _Optional[str] = ..., queue: _Optional[str] = ..., node: _Optional[str] = ...) -> None: ...

class AddQueueMemberResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeleteQueueMemberRequest(_message.Message):
    __slots__ = ("vhost", "queue", "node", "anyway")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    ANYWAY_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    queue: str
    node: str
    anyway: bool
    def __init__(self, vhost: _Optional[str] = ..., queue: _Optional[str] = ..., node: _Optional[str] = ..., anyway: _Optional[bool] = ...) -> None: ...

class DeleteQueueMemberResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TransferQueueLeaderRequest(_message.Message):
    __slots__ = ("vhost", "queue", "node")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    queue: str
    node: str
    def __init__(self, vhost: _Optional[str] = ..., queue: _Optional[str] = ..., node: _Optional[str] = ...) -> None: ...

class TransferQueueLeaderResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GrowQueuesRequest(_message.Message):
    __slots__ = ("node", "even_only", "vhost_pattern", "queue_pattern", "count")
    NODE_FIELD_NUMBER: _ClassVar[int]
    EVEN_ONLY_FIELD_NUMBER: _ClassVar[int]
    VHOST_PATTERN_FIELD_NUMBER: _ClassVar[int]
    QUEUE_PATTERN_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    node: str
    even_only: bool
    vhost_pattern: str
    queue_pattern: str
    count: int
    def __init__(self, node: _Optional[str] = ..., even_only: _Optional[bool] = ..., vhost_pattern: _Optional[str] = ..., queue_pattern: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class ShrinkQueuesRequest(_message.Message):
    __slots__ = ("node", "vhost_pattern", "queue_pattern", "anyway")
    NODE_FIELD_NUMBER: _ClassVar[int]
    VHOST_PATTERN_FIELD_NUMBER: _ClassVar[int]
    QUEUE_PATTERN_FIELD_NUMBER: _ClassVar[int]
    ANYWAY_FIELD_NUMBER: _ClassVar[int]
    node: str
    vhost_pattern: str
    queue_pattern: str
    anyway: bool
    def __init__(self, node: _Optional[str] = ..., vhost_pattern: _Optional[str] = ..., queue_pattern: _Optional[str] = ..., anyway: _Optional[bool] = ...) -> None: ...

class RebalanceQueuesRequest(_message.Message):
    __slots__ = ("vhost_pattern", "queue_pattern", "kind", "by", "dry_run")
    VHOST_PATTERN_FIELD_NUMBER: _ClassVar[int]
    QUEUE_PATTERN_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    vhost_pattern: str
    queue_pattern: str
    kind: str
    by: str
    dry_run: bool
    def __init__(self, vhost_pattern: _Optional[str] = ..., queue_pattern: _Optional[str] = ..., kind: _Optional[str] = ..., by: _Optional[str] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class MoveQueueMembersRequest(_message.Message):
    __slots__ = ("vhost_pattern", "queue_pattern", "kind", "by", "dry_run")
    VHOST_PATTERN_FIELD_NUMBER: _ClassVar[int]
    QUEUE_PATTERN_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    vhost_pattern: str
    queue_pattern: str
    kind: str
    by: str
    dry_run: bool
    def __init__(self, vhost_pattern: _Optional[str] = ..., queue_pattern: _Optional[str] = ..., kind: _Optional[str] = ..., by: _Optional[str] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class QueueMemberMove(_message.Message):
    __slots__ = ("vhost", "queue", "source", "target", "load", "source_load", "target_load", "number", "total", "state", "error")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    SOURCE_LOAD_FIELD_NUMBER: _ClassVar[int]
    TARGET_LOAD_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    queue: str
    source: str
    target: str
    load: int
    source_load: int
    target_load: int
    number: int
    total: int
    state: str
    error: str
    def __init__(self, vhost: _Optional[str] = ..., queue: _Optional[str] = ..., source: _Optional[str] = ..., target: _Optional[str] = ..., load: _Optional[int] = ..., source_load: _Optional[int] = ..., target_load: _Optional[int] = ..., number: _Optional[int] = ..., total: _Optional[int] = ..., state: _Optional[str] = ..., error: _Optional[str] = ...) -> None: ...

class QueueChange(_message.Message):
    __slots__ = ("vhost", "queue", "done", "error")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    queue: str
    done: str
    error: str
    def __init__(self, vhost: _Optional[str] = ..., queue: _Optional[str] = ..., done: _Optional[str] = ..., error: _Optional[str] = ...) -> None: ...

class QueueChanges(_message.Message):
    __slots__ = ("changes",)
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    changes: _containers.RepeatedCompositeFieldContainer[QueueChange]
    def __init__(self, changes: _Optional[_Iterable[_Union[QueueChange, _Mapping]]] = ...) -> None: ...

class CheckNodeRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class CheckNodeResponse(_message.Message):
    __slots__ = ("name", "critical")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CRITICAL_FIELD_NUMBER: _ClassVar[int]
    name: str
    critical: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., critical: _Optional[_Iterable[str]] = ...) -> None: ...

class ListLogRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LogListing(_message.Message):
    __slots__ = ("node", "log_id", "first_us", "gaps", "files")
    NODE_FIELD_NUMBER: _ClassVar[int]
    LOG_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_US_FIELD_NUMBER: _ClassVar[int]
    GAPS_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    node: str
    log_id: bytes
    first_us: int
    gaps: _containers.RepeatedCompositeFieldContainer[LogGap]
    files: _containers.RepeatedCompositeFieldContainer[LogFile]
    def __init__(self, node: _Optional[str] = ..., log_id: _Optional[bytes] = ..., first_us: _Optional[int] = ..., gaps: _Optional[_Iterable[_Union[LogGap, _Mapping]]] = ..., files: _Optional[_Iterable[_Union[LogFile, _Mapping]]] = ...) -> None: ...

class LogGap(_message.Message):
    __slots__ = ("first", "last")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    first: int
    last: int
    def __init__(self, first: _Optional[int] = ..., last: _Optional[int] = ...) -> None: ...

class LogFile(_message.Message):
    __slots__ = ("name", "bytes", "first_us", "last_us", "open")
    NAME_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    FIRST_US_FIELD_NUMBER: _ClassVar[int]
    LAST_US_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    name: str
    bytes: int
    first_us: int
    last_us: int
    open: bool
    def __init__(self, name: _Optional[str] = ..., bytes: _Optional[int] = ..., first_us: _Optional[int] = ..., last_us: _Optional[int] = ..., open: _Optional[bool] = ...) -> None: ...

class ExportLogRequest(_message.Message):
    __slots__ = ("files", "without_bodies", "bytes_per_second_max")
    FILES_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_BODIES_FIELD_NUMBER: _ClassVar[int]
    BYTES_PER_SECOND_MAX_FIELD_NUMBER: _ClassVar[int]
    files: _containers.RepeatedCompositeFieldContainer[WantedLogFile]
    without_bodies: bool
    bytes_per_second_max: int
    def __init__(self, files: _Optional[_Iterable[_Union[WantedLogFile, _Mapping]]] = ..., without_bodies: _Optional[bool] = ..., bytes_per_second_max: _Optional[int] = ...) -> None: ...

class WantedLogFile(_message.Message):
    __slots__ = ("name", "offset", "sha256")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    name: str
    offset: int
    sha256: bytes
    def __init__(self, name: _Optional[str] = ..., offset: _Optional[int] = ..., sha256: _Optional[bytes] = ...) -> None: ...

class LogPiece(_message.Message):
    __slots__ = ("begin", "data", "end", "unread")
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    UNREAD_FIELD_NUMBER: _ClassVar[int]
    begin: LogFileBegin
    data: bytes
    end: LogFileEnd
    unread: LogFileUnread
    def __init__(self, begin: _Optional[_Union[LogFileBegin, _Mapping]] = ..., data: _Optional[bytes] = ..., end: _Optional[_Union[LogFileEnd, _Mapping]] = ..., unread: _Optional[_Union[LogFileUnread, _Mapping]] = ...) -> None: ...

class LogFileBegin(_message.Message):
    __slots__ = ("name", "offset")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    name: str
    offset: int
    def __init__(self, name: _Optional[str] = ..., offset: _Optional[int] = ...) -> None: ...

class LogFileEnd(_message.Message):
    __slots__ = ("bytes", "sha256", "open")
    BYTES_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    bytes: int
    sha256: bytes
    open: bool
    def __init__(self, bytes: _Optional[int] = ..., sha256: _Optional[bytes] = ..., open: _Optional[bool] = ...) -> None: ...

class LogFileUnread(_message.Message):
    __slots__ = ("name", "reason", "gone")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    name: str
    reason: str
    gone: bool
    def __init__(self, name: _Optional[str] = ..., reason: _Optional[str] = ..., gone: _Optional[bool] = ...) -> None: ...

class DumpLogRequest(_message.Message):
    __slots__ = ("from_us", "queue", "follow")
    FROM_US_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    from_us: int
    queue: str
    follow: bool
    def __init__(self, from_us: _Optional[int] = ..., queue: _Optional[str] = ..., follow: _Optional[bool] = ...) -> None: ...

class LogRows(_message.Message):
    __slots__ = ("rows",)
    ROWS_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, rows: _Optional[_Iterable[str]] = ...) -> None: ...
