from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DeliveryMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DELIVERY_MODE_UNSPECIFIED: _ClassVar[DeliveryMode]
    DELIVERY_MODE_TRANSIENT: _ClassVar[DeliveryMode]
    DELIVERY_MODE_PERSISTENT: _ClassVar[DeliveryMode]
DELIVERY_MODE_UNSPECIFIED: DeliveryMode
DELIVERY_MODE_TRANSIENT: DeliveryMode
DELIVERY_MODE_PERSISTENT: DeliveryMode

class Value(_message.Message):
    __slots__ = ("boolean", "integer", "number", "text", "binary", "timestamp_s", "decimal", "list", "table", "unsigned")
    BOOLEAN_FIELD_NUMBER: _ClassVar[int]
    INTEGER_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    BINARY_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_S_FIELD_NUMBER: _ClassVar[int]
    DECIMAL_FIELD_NUMBER: _ClassVar[int]
    LIST_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    UNSIGNED_FIELD_NUMBER: _ClassVar[int]
    boolean: bool
    integer: int
    number: float
    text: str
    binary: bytes
    timestamp_s: int
    decimal: Decimal
    list: List
    table: Table
    unsigned: int
    def __init__(self, boolean: _Optional[bool] = ..., integer: _Optional[int] = ..., number: _Optional[float] = ..., text: _Optional[str] = ..., binary: _Optional[bytes] = ..., timestamp_s: _Optional[int] = ..., decimal: _Optional[_Union[Decimal, _Mapping]] = ..., list: _Optional[_Union[List, _Mapping]] = ..., table: _Optional[_Union[Table, _Mapping]] = ..., unsigned: _Optional[int] = ...) -> None: ...

class Decimal(_message.Message):
    __slots__ = ("scale", "unscaled")
    SCALE_FIELD_NUMBER: _ClassVar[int]
    UNSCALED_FIELD_NUMBER: _ClassVar[int]
    scale: int
    unscaled: int
    def __init__(self, scale: _Optional[int] = ..., unscaled: _Optional[int] = ...) -> None: ...

class List(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedCompositeFieldContainer[Value]
    def __init__(self, values: _Optional[_Iterable[_Union[Value, _Mapping]]] = ...) -> None: ...

class Table(_message.Message):
    __slots__ = ("entries",)
    class EntriesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.MessageMap[str, Value]
    def __init__(self, entries: _Optional[_Mapping[str, Value]] = ...) -> None: ...

class Properties(_message.Message):
    __slots__ = ("content_type", "content_encoding", "headers", "delivery_mode", "priority", "correlation_id", "reply_to", "expiration_ms", "message_id", "timestamp_s", "type", "user_id", "app_id", "cluster_id")
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_ENCODING_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_MODE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    REPLY_TO_FIELD_NUMBER: _ClassVar[int]
    EXPIRATION_MS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_S_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    APP_ID_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    content_type: str
    content_encoding: str
    headers: Table
    delivery_mode: DeliveryMode
    priority: int
    correlation_id: str
    reply_to: str
    expiration_ms: int
    message_id: str
    timestamp_s: int
    type: str
    user_id: str
    app_id: str
    cluster_id: str
    def __init__(self, content_type: _Optional[str] = ..., content_encoding: _Optional[str] = ..., headers: _Optional[_Union[Table, _Mapping]] = ..., delivery_mode: _Optional[_Union[DeliveryMode, str]] = ..., priority: _Optional[int] = ..., correlation_id: _Optional[str] = ..., reply_to: _Optional[str] = ..., expiration_ms: _Optional[int] = ..., message_id: _Optional[str] = ..., timestamp_s: _Optional[int] = ..., type: _Optional[str] = ..., user_id: _Optional[str] = ..., app_id: _Optional[str] = ..., cluster_id: _Optional[str] = ...) -> None: ...

class Message(_message.Message):
    __slots__ = ("properties", "body")
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    properties: Properties
    body: bytes
    def __init__(self, properties: _Optional[_Union[Properties, _Mapping]] = ..., body: _Optional[bytes] = ...) -> None: ...

class Range(_message.Message):
    __slots__ = ("first", "last")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    first: int
    last: int
    def __init__(self, first: _Optional[int] = ..., last: _Optional[int] = ...) -> None: ...

class Open(_message.Message):
    __slots__ = ("vhost", "name", "client_properties")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CLIENT_PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    name: str
    client_properties: Table
    def __init__(self, vhost: _Optional[str] = ..., name: _Optional[str] = ..., client_properties: _Optional[_Union[Table, _Mapping]] = ...) -> None: ...

class Opened(_message.Message):
    __slots__ = ("node", "message_bytes_max")
    NODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    node: str
    message_bytes_max: int
    def __init__(self, node: _Optional[str] = ..., message_bytes_max: _Optional[int] = ...) -> None: ...
