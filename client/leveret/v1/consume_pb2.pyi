from leveret.v1 import message_pb2 as _message_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTCOME_UNSPECIFIED: _ClassVar[Outcome]
    OUTCOME_ACCEPTED: _ClassVar[Outcome]
    OUTCOME_REQUEUED: _ClassVar[Outcome]
    OUTCOME_REJECTED: _ClassVar[Outcome]
OUTCOME_UNSPECIFIED: Outcome
OUTCOME_ACCEPTED: Outcome
OUTCOME_REQUEUED: Outcome
OUTCOME_REJECTED: Outcome

class ConsumeRequest(_message.Message):
    __slots__ = ("open", "subscribe", "unsubscribe", "credit", "settle")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBE_FIELD_NUMBER: _ClassVar[int]
    UNSUBSCRIBE_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    SETTLE_FIELD_NUMBER: _ClassVar[int]
    open: _message_pb2.Open
    subscribe: Subscribe
    unsubscribe: Unsubscribe
    credit: Credit
    settle: Settle
    def __init__(self, open: _Optional[_Union[_message_pb2.Open, _Mapping]] = ..., subscribe: _Optional[_Union[Subscribe, _Mapping]] = ..., unsubscribe: _Optional[_Union[Unsubscribe, _Mapping]] = ..., credit: _Optional[_Union[Credit, _Mapping]] = ..., settle: _Optional[_Union[Settle, _Mapping]] = ...) -> None: ...

class Subscribe(_message.Message):
    __slots__ = ("queue", "consumer_tag", "no_ack", "prefetch", "exclusive", "arguments")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_TAG_FIELD_NUMBER: _ClassVar[int]
    NO_ACK_FIELD_NUMBER: _ClassVar[int]
    PREFETCH_FIELD_NUMBER: _ClassVar[int]
    EXCLUSIVE_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    queue: str
    consumer_tag: str
    no_ack: bool
    prefetch: int
    exclusive: bool
    arguments: _message_pb2.Table
    def __init__(self, queue: _Optional[str] = ..., consumer_tag: _Optional[str] = ..., no_ack: _Optional[bool] = ..., prefetch: _Optional[int] = ..., exclusive: _Optional[bool] = ..., arguments: _Optional[_Union[_message_pb2.Table, _Mapping]] = ...) -> None: ...

class Unsubscribe(_message.Message):
    __slots__ = ("consumer_tag",)
    CONSUMER_TAG_FIELD_NUMBER: _ClassVar[int]
    consumer_tag: str
    def __init__(self, consumer_tag: _Optional[str] = ...) -> None: ...

class Credit(_message.Message):
    __slots__ = ("consumer_tag", "prefetch")
    CONSUMER_TAG_FIELD_NUMBER: _ClassVar[int]
    PREFETCH_FIELD_NUMBER: _ClassVar[int]
    consumer_tag: str
    prefetch: int
    def __init__(self, consumer_tag: _Optional[str] = ..., prefetch: _Optional[int] = ...) -> None: ...

class Settle(_message.Message):
    __slots__ = ("tags", "outcome")
    TAGS_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    tags: _containers.RepeatedCompositeFieldContainer[_message_pb2.Range]
    outcome: Outcome
    def __init__(self, tags: _Optional[_Iterable[_Union[_message_pb2.Range, _Mapping]]] = ..., outcome: _Optional[_Union[Outcome, str]] = ...) -> None: ...

class ConsumeResponse(_message.Message):
    __slots__ = ("opened", "subscribed", "deliveries", "cancelled")
    OPENED_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBED_FIELD_NUMBER: _ClassVar[int]
    DELIVERIES_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    opened: _message_pb2.Opened
    subscribed: Subscribed
    deliveries: DeliveryBatch
    cancelled: Cancelled
    def __init__(self, opened: _Optional[_Union[_message_pb2.Opened, _Mapping]] = ..., subscribed: _Optional[_Union[Subscribed, _Mapping]] = ..., deliveries: _Optional[_Union[DeliveryBatch, _Mapping]] = ..., cancelled: _Optional[_Union[Cancelled, _Mapping]] = ...) -> None: ...

class Subscribed(_message.Message):
    __slots__ = ("consumer_tag", "queue")
    CONSUMER_TAG_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    consumer_tag: str
    queue: str
    def __init__(self, consumer_tag: _Optional[str] = ..., queue: _Optional[str] = ...) -> None: ...

class DeliveryBatch(_message.Message):
    __slots__ = ("consumer_tag", "first_tag", "exchange", "routing_key", "redelivered", "queue_headers", "messages", "first_offset")
    CONSUMER_TAG_FIELD_NUMBER: _ClassVar[int]
    FIRST_TAG_FIELD_NUMBER: _ClassVar[int]
    EXCHANGE_FIELD_NUMBER: _ClassVar[int]
    ROUTING_KEY_FIELD_NUMBER: _ClassVar[int]
    REDELIVERED_FIELD_NUMBER: _ClassVar[int]
    QUEUE_HEADERS_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    consumer_tag: str
    first_tag: int
    exchange: str
    routing_key: str
    redelivered: bool
    queue_headers: _message_pb2.Table
    messages: _containers.RepeatedCompositeFieldContainer[_message_pb2.Message]
    first_offset: int
    def __init__(self, consumer_tag: _Optional[str] = ..., first_tag: _Optional[int] = ..., exchange: _Optional[str] = ..., routing_key: _Optional[str] = ..., redelivered: _Optional[bool] = ..., queue_headers: _Optional[_Union[_message_pb2.Table, _Mapping]] = ..., messages: _Optional[_Iterable[_Union[_message_pb2.Message, _Mapping]]] = ..., first_offset: _Optional[int] = ...) -> None: ...

class Cancelled(_message.Message):
    __slots__ = ("consumer_tag", "by_node")
    CONSUMER_TAG_FIELD_NUMBER: _ClassVar[int]
    BY_NODE_FIELD_NUMBER: _ClassVar[int]
    consumer_tag: str
    by_node: bool
    def __init__(self, consumer_tag: _Optional[str] = ..., by_node: _Optional[bool] = ...) -> None: ...

class GetRequest(_message.Message):
    __slots__ = ("vhost", "queue", "count", "requeue")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    REQUEUE_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    queue: str
    count: int
    requeue: bool
    def __init__(self, vhost: _Optional[str] = ..., queue: _Optional[str] = ..., count: _Optional[int] = ..., requeue: _Optional[bool] = ...) -> None: ...

class GetResponse(_message.Message):
    __slots__ = ("messages", "remaining")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    REMAINING_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[GotMessage]
    remaining: int
    def __init__(self, messages: _Optional[_Iterable[_Union[GotMessage, _Mapping]]] = ..., remaining: _Optional[int] = ...) -> None: ...

class BrowseRequest(_message.Message):
    __slots__ = ("vhost", "queue", "skip", "limit", "stream_offset")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    SKIP_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    STREAM_OFFSET_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    queue: str
    skip: int
    limit: int
    stream_offset: _message_pb2.Value
    def __init__(self, vhost: _Optional[str] = ..., queue: _Optional[str] = ..., skip: _Optional[int] = ..., limit: _Optional[int] = ..., stream_offset: _Optional[_Union[_message_pb2.Value, _Mapping]] = ...) -> None: ...

class BrowseResponse(_message.Message):
    __slots__ = ("messages",)
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[GotMessage]
    def __init__(self, messages: _Optional[_Iterable[_Union[GotMessage, _Mapping]]] = ...) -> None: ...

class GotMessage(_message.Message):
    __slots__ = ("message", "exchange", "routing_key", "redelivered", "queue_headers")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    EXCHANGE_FIELD_NUMBER: _ClassVar[int]
    ROUTING_KEY_FIELD_NUMBER: _ClassVar[int]
    REDELIVERED_FIELD_NUMBER: _ClassVar[int]
    QUEUE_HEADERS_FIELD_NUMBER: _ClassVar[int]
    message: _message_pb2.Message
    exchange: str
    routing_key: str
    redelivered: bool
    queue_headers: _message_pb2.Table
    def __init__(self, message: _Optional[_Union[_message_pb2.Message, _Mapping]] = ..., exchange: _Optional[str] = ..., routing_key: _Optional[str] = ..., redelivered: _Optional[bool] = ..., queue_headers: _Optional[_Union[_message_pb2.Table, _Mapping]] = ...) -> None: ...
