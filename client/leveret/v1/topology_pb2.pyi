from leveret.v1 import message_pb2 as _message_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DelayedOrder(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DELAYED_ORDER_DUE: _ClassVar[DelayedOrder]
    DELAYED_ORDER_PUBLISHED: _ClassVar[DelayedOrder]

class DestinationKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DESTINATION_KIND_QUEUE: _ClassVar[DestinationKind]
    DESTINATION_KIND_EXCHANGE: _ClassVar[DestinationKind]
DELAYED_ORDER_DUE: DelayedOrder
DELAYED_ORDER_PUBLISHED: DelayedOrder
DESTINATION_KIND_QUEUE: DestinationKind
DESTINATION_KIND_EXCHANGE: DestinationKind

class Exchange(_message.Message):
    __slots__ = ("vhost", "name", "kind", "durable", "auto_delete", "internal", "arguments")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    DURABLE_FIELD_NUMBER: _ClassVar[int]
    AUTO_DELETE_FIELD_NUMBER: _ClassVar[int]
    INTERNAL_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    name: str
    kind: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: _message_pb2.Table
    def __init__(self, vhost: _Optional[str] = ..., name: _Optional[str] = ..., kind: _Optional[str] = ..., durable: _Optional[bool] = ..., auto_delete: _Optional[bool] = ..., internal: _Optional[bool] = ..., arguments: _Optional[_Union[_message_pb2.Table, _Mapping]] = ...) -> None: ...

class DeclareExchangeRequest(_message.Message):
    __slots__ = ("vhost", "name", "kind", "passive", "transient", "auto_delete", "internal", "arguments")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PASSIVE_FIELD_NUMBER: _ClassVar[int]
    TRANSIENT_FIELD_NUMBER: _ClassVar[int]
    AUTO_DELETE_FIELD_NUMBER: _ClassVar[int]
    INTERNAL_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    name: str
    kind: str
    passive: bool
    transient: bool
    auto_delete: bool
    internal: bool
    arguments: _message_pb2.Table
    def __init__(self, vhost: _Optional[str] = ..., name: _Optional[str] = ..., kind: _Optional[str] = ..., passive: _Optional[bool] = ..., transient: _Optional[bool] = ..., auto_delete: _Optional[bool] = ..., internal: _Optional[bool] = ..., arguments: _Optional[_Union[_message_pb2.Table, _Mapping]] = ...) -> None: ...

class DeclareExchangeResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeleteExchangeRequest(_message.Message):
    __slots__ = ("vhost", "name", "if_unused")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    IF_UNUSED_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    name: str
    if_unused: bool
    def __init__(self, vhost: _Optional[str] = ..., name: _Optional[str] = ..., if_unused: _Optional[bool] = ...) -> None: ...

class DeleteExchangeResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeclareQueueRequest(_message.Message):
    __slots__ = ("vhost", "name", "kind", "passive", "transient", "auto_delete", "arguments")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PASSIVE_FIELD_NUMBER: _ClassVar[int]
    TRANSIENT_FIELD_NUMBER: _ClassVar[int]
    AUTO_DELETE_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    name: str
    kind: str
    passive: bool
    transient: bool
    auto_delete: bool
    arguments: _message_pb2.Table
    def __init__(self, vhost: _Optional[str] = ..., name: _Optional[str] = ..., kind: _Optional[str] = ..., passive: _Optional[bool] = ..., transient: _Optional[bool] = ..., auto_delete: _Optional[bool] = ..., arguments: _Optional[_Union[_message_pb2.Table, _Mapping]] = ...) -> None: ...

class DeclareQueueResponse(_message.Message):
    __slots__ = ("name", "ready", "consumers")
    NAME_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    ready: int
    consumers: int
    def __init__(self, name: _Optional[str] = ..., ready: _Optional[int] = ..., consumers: _Optional[int] = ...) -> None: ...

class DeleteQueueRequest(_message.Message):
    __slots__ = ("vhost", "name", "if_unused", "if_empty")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    IF_UNUSED_FIELD_NUMBER: _ClassVar[int]
    IF_EMPTY_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    name: str
    if_unused: bool
    if_empty: bool
    def __init__(self, vhost: _Optional[str] = ..., name: _Optional[str] = ..., if_unused: _Optional[bool] = ..., if_empty: _Optional[bool] = ...) -> None: ...

class DeleteQueueResponse(_message.Message):
    __slots__ = ("messages",)
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    messages: int
    def __init__(self, messages: _Optional[int] = ...) -> None: ...

class PurgeQueueRequest(_message.Message):
    __slots__ = ("vhost", "name")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    name: str
    def __init__(self, vhost: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class PurgeQueueResponse(_message.Message):
    __slots__ = ("messages",)
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    messages: int
    def __init__(self, messages: _Optional[int] = ...) -> None: ...

class ListDelayedRequest(_message.Message):
    __slots__ = ("vhost", "exchange", "limit", "order", "after", "queue")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    EXCHANGE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    exchange: str
    limit: int
    order: DelayedOrder
    after: str
    queue: str
    def __init__(self, vhost: _Optional[str] = ..., exchange: _Optional[str] = ..., limit: _Optional[int] = ..., order: _Optional[_Union[DelayedOrder, str]] = ..., after: _Optional[str] = ..., queue: _Optional[str] = ...) -> None: ...

class ListDelayedResponse(_message.Message):
    __slots__ = ("messages",)
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[DelayedMessage]
    def __init__(self, messages: _Optional[_Iterable[_Union[DelayedMessage, _Mapping]]] = ...) -> None: ...

class DelayedMessage(_message.Message):
    __slots__ = ("id", "due_ms", "message", "routing_key", "exchange")
    ID_FIELD_NUMBER: _ClassVar[int]
    DUE_MS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ROUTING_KEY_FIELD_NUMBER: _ClassVar[int]
    EXCHANGE_FIELD_NUMBER: _ClassVar[int]
    id: str
    due_ms: int
    message: _message_pb2.Message
    routing_key: str
    exchange: str
    def __init__(self, id: _Optional[str] = ..., due_ms: _Optional[int] = ..., message: _Optional[_Union[_message_pb2.Message, _Mapping]] = ..., routing_key: _Optional[str] = ..., exchange: _Optional[str] = ...) -> None: ...

class CancelDelayedRequest(_message.Message):
    __slots__ = ("vhost", "exchange", "id", "queue")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    EXCHANGE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    exchange: str
    id: str
    queue: str
    def __init__(self, vhost: _Optional[str] = ..., exchange: _Optional[str] = ..., id: _Optional[str] = ..., queue: _Optional[str] = ...) -> None: ...

class CancelDelayedResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Binding(_message.Message):
    __slots__ = ("vhost", "source", "destination", "destination_kind", "routing_key", "arguments")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    DESTINATION_FIELD_NUMBER: _ClassVar[int]
    DESTINATION_KIND_FIELD_NUMBER: _ClassVar[int]
    ROUTING_KEY_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    source: str
    destination: str
    destination_kind: DestinationKind
    routing_key: str
    arguments: _message_pb2.Table
    def __init__(self, vhost: _Optional[str] = ..., source: _Optional[str] = ..., destination: _Optional[str] = ..., destination_kind: _Optional[_Union[DestinationKind, str]] = ..., routing_key: _Optional[str] = ..., arguments: _Optional[_Union[_message_pb2.Table, _Mapping]] = ...) -> None: ...

class BindRequest(_message.Message):
    __slots__ = ("binding",)
    BINDING_FIELD_NUMBER: _ClassVar[int]
    binding: Binding
    def __init__(self, binding: _Optional[_Union[Binding, _Mapping]] = ...) -> None: ...

class BindResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class UnbindRequest(_message.Message):
    __slots__ = ("binding",)
    BINDING_FIELD_NUMBER: _ClassVar[int]
    binding: Binding
    def __init__(self, binding: _Optional[_Union[Binding, _Mapping]] = ...) -> None: ...

class UnbindResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Queue(_message.Message):
    __slots__ = ("vhost", "name", "kind", "durable", "exclusive", "auto_delete", "arguments", "state", "home", "policy", "operator_policy", "ready", "unacknowledged", "ready_bytes", "unacknowledged_bytes", "consumers", "memory_bytes", "mirroring_notice")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    DURABLE_FIELD_NUMBER: _ClassVar[int]
    EXCLUSIVE_FIELD_NUMBER: _ClassVar[int]
    AUTO_DELETE_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    HOME_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_POLICY_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    UNACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    READY_BYTES_FIELD_NUMBER: _ClassVar[int]
    UNACKNOWLEDGED_BYTES_FIELD_NUMBER: _ClassVar[int]
    CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    MIRRORING_NOTICE_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    name: str
    kind: str
    durable: bool
    exclusive: bool
    auto_delete: bool
    arguments: _message_pb2.Table
    state: str
    home: str
    policy: str
    operator_policy: str
    ready: int
    unacknowledged: int
    ready_bytes: int
    unacknowledged_bytes: int
    consumers: int
    memory_bytes: int
    mirroring_notice: str
    def __init__(self, vhost: _Optional[str] = ..., name: _Optional[str] = ..., kind: _Optional[str] = ..., durable: _Optional[bool] = ..., exclusive: _Optional[bool] = ..., auto_delete: _Optional[bool] = ..., arguments: _Optional[_Union[_message_pb2.Table, _Mapping]] = ..., state: _Optional[str] = ..., home: _Optional[str] = ..., policy: _Optional[str] = ..., operator_policy: _Optional[str] = ..., ready: _Optional[int] = ..., unacknowledged: _Optional[int] = ..., ready_bytes: _Optional[int] = ..., unacknowledged_bytes: _Optional[int] = ..., consumers: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., mirroring_notice: _Optional[str] = ...) -> None: ...

class ListExchangesRequest(_message.Message):
    __slots__ = ("vhost", "all_vhosts")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    ALL_VHOSTS_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    all_vhosts: bool
    def __init__(self, vhost: _Optional[str] = ..., all_vhosts: _Optional[bool] = ...) -> None: ...

class ListExchangesResponse(_message.Message):
    __slots__ = ("exchanges",)
    EXCHANGES_FIELD_NUMBER: _ClassVar[int]
    exchanges: _containers.RepeatedCompositeFieldContainer[Exchange]
    def __init__(self, exchanges: _Optional[_Iterable[_Union[Exchange, _Mapping]]] = ...) -> None: ...

class ListQueuesRequest(_message.Message):
    __slots__ = ("vhost", "all_vhosts")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    ALL_VHOSTS_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    all_vhosts: bool
    def __init__(self, vhost: _Optional[str] = ..., all_vhosts: _Optional[bool] = ...) -> None: ...

class ListQueuesResponse(_message.Message):
    __slots__ = ("queues",)
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedCompositeFieldContainer[Queue]
    def __init__(self, queues: _Optional[_Iterable[_Union[Queue, _Mapping]]] = ...) -> None: ...

class ListBindingsRequest(_message.Message):
    __slots__ = ("vhost", "all_vhosts", "queue", "source")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    ALL_VHOSTS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    all_vhosts: bool
    queue: str
    source: str
    def __init__(self, vhost: _Optional[str] = ..., all_vhosts: _Optional[bool] = ..., queue: _Optional[str] = ..., source: _Optional[str] = ...) -> None: ...

class ListBindingsResponse(_message.Message):
    __slots__ = ("bindings",)
    BINDINGS_FIELD_NUMBER: _ClassVar[int]
    bindings: _containers.RepeatedCompositeFieldContainer[Binding]
    def __init__(self, bindings: _Optional[_Iterable[_Union[Binding, _Mapping]]] = ...) -> None: ...
