from leveret.v1 import message_pb2 as _message_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StoreOffsetRequest(_message.Message):
    __slots__ = ("vhost", "stream", "reference", "offset")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    stream: str
    reference: str
    offset: int
    def __init__(self, vhost: _Optional[str] = ..., stream: _Optional[str] = ..., reference: _Optional[str] = ..., offset: _Optional[int] = ...) -> None: ...

class StoreOffsetResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStoredOffsetRequest(_message.Message):
    __slots__ = ("vhost", "stream", "reference")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    stream: str
    reference: str
    def __init__(self, vhost: _Optional[str] = ..., stream: _Optional[str] = ..., reference: _Optional[str] = ...) -> None: ...

class GetStoredOffsetResponse(_message.Message):
    __slots__ = ("offset",)
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    offset: int
    def __init__(self, offset: _Optional[int] = ...) -> None: ...

class GetLastNumberRequest(_message.Message):
    __slots__ = ("vhost", "stream", "publisher")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    PUBLISHER_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    stream: str
    publisher: str
    def __init__(self, vhost: _Optional[str] = ..., stream: _Optional[str] = ..., publisher: _Optional[str] = ...) -> None: ...

class GetLastNumberResponse(_message.Message):
    __slots__ = ("number",)
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    number: int
    def __init__(self, number: _Optional[int] = ...) -> None: ...

class CreateSuperStreamRequest(_message.Message):
    __slots__ = ("vhost", "name", "partitions", "binding_keys", "arguments")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    BINDING_KEYS_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    name: str
    partitions: int
    binding_keys: _containers.RepeatedScalarFieldContainer[str]
    arguments: _message_pb2.Table
    def __init__(self, vhost: _Optional[str] = ..., name: _Optional[str] = ..., partitions: _Optional[int] = ..., binding_keys: _Optional[_Iterable[str]] = ..., arguments: _Optional[_Union[_message_pb2.Table, _Mapping]] = ...) -> None: ...

class CreateSuperStreamResponse(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, partitions: _Optional[_Iterable[str]] = ...) -> None: ...

class DeleteSuperStreamRequest(_message.Message):
    __slots__ = ("vhost", "name")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    name: str
    def __init__(self, vhost: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class DeleteSuperStreamResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListPartitionsRequest(_message.Message):
    __slots__ = ("vhost", "name")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    name: str
    def __init__(self, vhost: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class ListPartitionsResponse(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, partitions: _Optional[_Iterable[str]] = ...) -> None: ...
