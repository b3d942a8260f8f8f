from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class KnownNode(_message.Message):
    __slots__ = ("number", "name", "address", "kind")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    number: int
    name: str
    address: str
    kind: str
    def __init__(self, number: _Optional[int] = ..., name: _Optional[str] = ..., address: _Optional[str] = ..., kind: _Optional[str] = ...) -> None: ...

class Greeting(_message.Message):
    __slots__ = ("instance", "name", "address", "knows", "founding", "cluster_id", "number", "incarnation", "disk_id", "earlier_incarnation")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    KNOWS_FIELD_NUMBER: _ClassVar[int]
    FOUNDING_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    DISK_ID_FIELD_NUMBER: _ClassVar[int]
    EARLIER_INCARNATION_FIELD_NUMBER: _ClassVar[int]
    instance: str
    name: str
    address: str
    knows: _containers.RepeatedScalarFieldContainer[str]
    founding: str
    cluster_id: str
    number: int
    incarnation: int
    disk_id: int
    earlier_incarnation: int
    def __init__(self, instance: _Optional[str] = ..., name: _Optional[str] = ..., address: _Optional[str] = ..., knows: _Optional[_Iterable[str]] = ..., founding: _Optional[str] = ..., cluster_id: _Optional[str] = ..., number: _Optional[int] = ..., incarnation: _Optional[int] = ..., disk_id: _Optional[int] = ..., earlier_incarnation: _Optional[int] = ...) -> None: ...

class Bound(_message.Message):
    __slots__ = ("cluster_id", "address", "instance", "exists")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    EXISTS_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    address: str
    instance: str
    exists: bool
    def __init__(self, cluster_id: _Optional[str] = ..., address: _Optional[str] = ..., instance: _Optional[str] = ..., exists: _Optional[bool] = ...) -> None: ...

class Greeted(_message.Message):
    __slots__ = ("instance", "name", "version", "cluster_id", "may_found", "founding", "bound", "knows", "promised", "refusal", "removed", "nodes")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    MAY_FOUND_FIELD_NUMBER: _ClassVar[int]
    FOUNDING_FIELD_NUMBER: _ClassVar[int]
    BOUND_FIELD_NUMBER: _ClassVar[int]
    KNOWS_FIELD_NUMBER: _ClassVar[int]
    PROMISED_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    instance: str
    name: str
    version: str
    cluster_id: str
    may_found: bool
    founding: str
    bound: Bound
    knows: _containers.RepeatedScalarFieldContainer[str]
    promised: bool
    refusal: str
    removed: str
    nodes: _containers.RepeatedCompositeFieldContainer[KnownNode]
    def __init__(self, instance: _Optional[str] = ..., name: _Optional[str] = ..., version: _Optional[str] = ..., cluster_id: _Optional[str] = ..., may_found: _Optional[bool] = ..., founding: _Optional[str] = ..., bound: _Optional[_Union[Bound, _Mapping]] = ..., knows: _Optional[_Iterable[str]] = ..., promised: _Optional[bool] = ..., refusal: _Optional[str] = ..., removed: _Optional[str] = ..., nodes: _Optional[_Iterable[_Union[KnownNode, _Mapping]]] = ...) -> None: ...

class JoinRequest(_message.Message):
    __slots__ = ("cluster_id", "name", "address", "kind", "zone", "version", "incarnation", "catalog_entries", "joiner")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    CATALOG_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    JOINER_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    name: str
    address: str
    kind: str
    zone: str
    version: str
    incarnation: int
    catalog_entries: int
    joiner: str
    def __init__(self, cluster_id: _Optional[str] = ..., name: _Optional[str] = ..., address: _Optional[str] = ..., kind: _Optional[str] = ..., zone: _Optional[str] = ..., version: _Optional[str] = ..., incarnation: _Optional[int] = ..., catalog_entries: _Optional[int] = ..., joiner: _Optional[str] = ...) -> None: ...

class JoinResponse(_message.Message):
    __slots__ = ("number", "cluster_id", "nodes", "refusal", "later", "disk_id", "incarnation")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    LATER_FIELD_NUMBER: _ClassVar[int]
    DISK_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    number: int
    cluster_id: str
    nodes: _containers.RepeatedCompositeFieldContainer[KnownNode]
    refusal: str
    later: bool
    disk_id: int
    incarnation: int
    def __init__(self, number: _Optional[int] = ..., cluster_id: _Optional[str] = ..., nodes: _Optional[_Iterable[_Union[KnownNode, _Mapping]]] = ..., refusal: _Optional[str] = ..., later: _Optional[bool] = ..., disk_id: _Optional[int] = ..., incarnation: _Optional[int] = ...) -> None: ...
