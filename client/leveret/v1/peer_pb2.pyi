from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class Letters(_message.Message):
    __slots__ = ("letters",)
    LETTERS_FIELD_NUMBER: _ClassVar[int]
    letters: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, letters: _Optional[_Iterable[bytes]] = ...) -> None: ...
