from leveret.v1 import message_pb2 as _message_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PublishRequest(_message.Message):
    __slots__ = ("open", "batch")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    open: _message_pb2.Open
    batch: PublishBatch
    def __init__(self, open: _Optional[_Union[_message_pb2.Open, _Mapping]] = ..., batch: _Optional[_Union[PublishBatch, _Mapping]] = ...) -> None: ...

class PublishBatch(_message.Message):
    __slots__ = ("exchange", "routing_key", "messages", "mandatory", "first_sequence", "publisher", "first_number")
    EXCHANGE_FIELD_NUMBER: _ClassVar[int]
    ROUTING_KEY_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MANDATORY_FIELD_NUMBER: _ClassVar[int]
    FIRST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    PUBLISHER_FIELD_NUMBER: _ClassVar[int]
    FIRST_NUMBER_FIELD_NUMBER: _ClassVar[int]
    exchange: str
    routing_key: str
    messages: _containers.RepeatedCompositeFieldContainer[_message_pb2.Message]
    mandatory: bool
    first_sequence: int
    publisher: str
    first_number: int
    def __init__(self, exchange: _Optional[str] = ..., routing_key: _Optional[str] = ..., messages: _Optional[_Iterable[_Union[_message_pb2.Message, _Mapping]]] = ..., mandatory: _Optional[bool] = ..., first_sequence: _Optional[int] = ..., publisher: _Optional[str] = ..., first_number: _Optional[int] = ...) -> None: ...

class PublishResponse(_message.Message):
    __slots__ = ("opened", "confirms", "returned", "blocked")
    OPENED_FIELD_NUMBER: _ClassVar[int]
    CONFIRMS_FIELD_NUMBER: _ClassVar[int]
    RETURNED_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_FIELD_NUMBER: _ClassVar[int]
    opened: _message_pb2.Opened
    confirms: Confirms
    returned: Returned
    blocked: Blocked
    def __init__(self, opened: _Optional[_Union[_message_pb2.Opened, _Mapping]] = ..., confirms: _Optional[_Union[Confirms, _Mapping]] = ..., returned: _Optional[_Union[Returned, _Mapping]] = ..., blocked: _Optional[_Union[Blocked, _Mapping]] = ...) -> None: ...

class Confirms(_message.Message):
    __slots__ = ("accepted", "refused")
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    accepted: _containers.RepeatedCompositeFieldContainer[_message_pb2.Range]
    refused: _containers.RepeatedCompositeFieldContainer[Refusal]
    def __init__(self, accepted: _Optional[_Iterable[_Union[_message_pb2.Range, _Mapping]]] = ..., refused: _Optional[_Iterable[_Union[Refusal, _Mapping]]] = ...) -> None: ...

class Refusal(_message.Message):
    __slots__ = ("first", "last", "error", "text")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    first: int
    last: int
    error: str
    text: str
    def __init__(self, first: _Optional[int] = ..., last: _Optional[int] = ..., error: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class Returned(_message.Message):
    __slots__ = ("first", "last", "code", "text")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    first: int
    last: int
    code: int
    text: str
    def __init__(self, first: _Optional[int] = ..., last: _Optional[int] = ..., code: _Optional[int] = ..., text: _Optional[str] = ...) -> None: ...

class Blocked(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...
