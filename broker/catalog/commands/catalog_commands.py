"""Every change to what is declared, as plain data: the entries of the metadata log.

A command says what is wanted; `Catalog.apply` decides, the same way on every node and every time it is replayed. As bytes:

    version u8 | msgpack array: [number of the command, its fields in order]

Records within a command are arrays of their fields in order, and AMQP tables travel as AMQP tables. Fields are only ever
added, at the end and with a default, so a newer node reads what an older one wrote.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from broker.catalog.arguments import encoded_arguments
from broker.errors import PreconditionFailed
from broker.records import (
    Arguments,
    BindingRecord,
    CatalogHead,
    ClaimBeatRecord,
    ClaimRecord,
    ExchangeRecord,
    NodeRecord,
    ParameterRecord,
    PermissionRecord,
    PolicyRecord,
    QueueRecord,
    TopicPermissionRecord,
    UserRecord,
    VhostRecord,
)
from wire.amqp.tables import TableError, decode_table

VERSION = 1


@dataclass(slots=True, frozen=True)
class PutVhost:
    """Creates the vhost with its predeclared exchanges, or replaces its properties. Limits that exist are kept."""

    record: VhostRecord


@dataclass(slots=True, frozen=True)
class DeleteVhost:
    """Deletes the vhost and everything in it. Answers the records of its queues."""

    name: str


@dataclass(slots=True, frozen=True)
class PutUser:
    """Creates the user or replaces its password and tags. Limits that exist are kept."""

    record: UserRecord


@dataclass(slots=True, frozen=True)
class DeleteUser:
    """Deletes the user and its permissions."""

    name: str


@dataclass(slots=True, frozen=True)
class PutPermission:
    record: PermissionRecord


@dataclass(slots=True, frozen=True)
class DeletePermission:
    user: str
    vhost: str


@dataclass(slots=True, frozen=True)
class PutTopicPermission:
    record: TopicPermissionRecord


@dataclass(slots=True, frozen=True)
class DeleteTopicPermission:
    """Deletes the user's topic permission on one exchange, or on all of the vhost when none is named."""

    user: str
    vhost: str
    exchange: str | None = None


@dataclass(slots=True, frozen=True)
class DeclareExchange:
    """Answers the record as it is now."""

    record: ExchangeRecord


@dataclass(slots=True, frozen=True)
class DeleteExchange:
    """Answers the record, or None when there was none."""

    vhost: str
    name: str
    if_unused: bool = False


@dataclass(slots=True, frozen=True)
class DeclareQueue:
    """Answers the record as it is now. An empty kind is the default of the vhost. `counted`: it is a use of a queue that
    is there already (parts/queue_uses.py)."""

    vhost: str
    name: str
    kind: str = ""
    durable: bool = True
    exclusive: bool = False
    auto_delete: bool = False
    arguments: Arguments = field(default_factory=dict)
    home: str = ""
    owner: str | None = None
    members: tuple[int, ...] = ()
    counted: bool = False


@dataclass(slots=True, frozen=True)
class DeleteQueue:
    """Answers the record, or None when there was none. With an id, only that very queue goes; with `uses`, only if it was not
    used since it had so many (parts/queue_uses.py)."""

    vhost: str
    name: str
    id: int | None = None
    uses: int | None = None


@dataclass(slots=True, frozen=True)
class UseQueue:
    """Deletions for lack of use that were decided before it are not carried out behind it (parts/queue_uses.py). Answers the
    record as it is now, or None when that very queue is no more."""

    vhost: str
    name: str
    id: int


@dataclass(slots=True, frozen=True)
class ConvertQueue:
    """The queue becomes the one that was declared for it and has its messages (parts/catalog_conversions.py). Answers both
    records, as it was and as it is, or None when one of these very queues is no more."""

    vhost: str
    name: str
    id: int
    becomes: int  # id of the other one


@dataclass(slots=True, frozen=True)
class Bind:
    """`owner` is the connection that asks: an exclusive queue is bound by its own connection only. Answers the record as it is
    now."""

    record: BindingRecord
    owner: str | None = None


@dataclass(slots=True, frozen=True)
class Unbind:
    """Answers whether there was such a binding."""

    record: BindingRecord


@dataclass(slots=True, frozen=True)
class PutPolicy:
    record: PolicyRecord


@dataclass(slots=True, frozen=True)
class DeletePolicy:
    vhost: str
    name: str
    operator: bool = False


@dataclass(slots=True, frozen=True)
class SetParameter:
    record: ParameterRecord


@dataclass(slots=True, frozen=True)
class ClearParameter:
    """`vhost` is empty for a global parameter."""

    vhost: str
    component: str
    name: str


@dataclass(slots=True, frozen=True)
class SetVhostLimits:
    """Replaces all limits of the vhost; -1 takes a limit away."""

    vhost: str
    limits: dict[str, int]


@dataclass(slots=True, frozen=True)
class SetUserLimits:
    user: str
    limits: dict[str, int]


@dataclass(slots=True, frozen=True)
class SetQueueMembers:
    """The members of this very queue's group are others now. Answers the record, or None when it is no more. `formed`: the
    index in the group's log that made them so; what an earlier one has made is not believed any more, unless the group
    begins `anew` with what is left of it."""

    vhost: str
    name: str
    id: int
    members: tuple[int, ...]
    formed: int = 0
    anew: bool = False


@dataclass(slots=True, frozen=True)
class SetClusterId:
    """Said once, by the founder. Answers the id; another one than the cluster has is refused."""

    id: str


@dataclass(slots=True, frozen=True)
class AddNode:
    """Of earlier builds, whose nodes numbered their own disks; see JoinNode. Answers the record with its number. A node that is
    known and comes with another disk has lost what it had: it keeps its number."""

    record: NodeRecord


@dataclass(slots=True, frozen=True)
class JoinNode:
    """A node with a data directory that has no life yet: it is new, or has lost the one before. Grants it a life of its own
    (broker/catalog/parts/disk_lives.py), and answers its record. A node that is known keeps its number. `joiner` is drawn by
    the process that asks: asking again is answered again, and grants nothing. A process that a later one has followed is
    refused, however late its request is carried out. Whoever submits this makes sure that no other node has the name."""

    record: NodeRecord  # its number and disk_id are the catalog's to say
    joiner: str
    incarnation: int  # of the process that asks


@dataclass(slots=True, frozen=True)
class PutNode:
    """Replaces address, kind, zone and draining of a node. Answers its record."""

    record: NodeRecord


@dataclass(slots=True, frozen=True)
class RemoveNode:
    """The node belongs to the cluster no more, and neither do the queues that live there. Answers their records."""

    name: str


@dataclass(slots=True, frozen=True)
class NodeStarted:
    """A new process of this node, before anything else that it submits. Exclusive and transient queues that an earlier one left
    go; on a cluster of one node, which was all gone meanwhile, transient exchanges too. Answers the records of these queues.
    `limits`, if any are given, hold for the whole cluster from here on."""

    name: str
    disk_id: int
    incarnation: int
    limits: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class NodeLost:
    """This process of a node was away too long: its exclusive and transient queues go. Answers their records."""

    name: str
    incarnation: int


@dataclass(slots=True, frozen=True)
class TakeClaim:
    """The node of the record runs this link from now on. Where another one holds the claim, `node_seen`, the epoch of the
    record and `beat_seen` say what is known of it: refused if that is not the last word. Answers the record with its epoch."""

    record: ClaimRecord
    node_seen: str = ""
    beat_seen: int = 0


@dataclass(slots=True, frozen=True)
class RenewClaims:
    """The node is there, and holds what it has claimed. Answers its beat."""

    node: str


@dataclass(slots=True, frozen=True)
class ReleaseClaim:
    """Its node has ended this link. Answers whether it was held just so."""

    record: ClaimRecord


Command = (
    PutVhost | DeleteVhost | PutUser | DeleteUser | PutPermission | DeletePermission | PutTopicPermission
    | DeleteTopicPermission | DeclareExchange | DeleteExchange | DeclareQueue | DeleteQueue | Bind | Unbind | PutPolicy
    | DeletePolicy | SetParameter | ClearParameter | SetVhostLimits | SetUserLimits | SetQueueMembers | SetClusterId
    | AddNode | PutNode | RemoveNode | NodeStarted | NodeLost | JoinNode
    | TakeClaim | RenewClaims | ReleaseClaim | ConvertQueue | UseQueue
)  # fmt: skip

# Numbers are for ever: a command that is no longer made keeps its number.
NUMBERS: dict[int, type[Any]] = {
    1: PutVhost,
    2: DeleteVhost,
    3: PutUser,
    4: DeleteUser,
    5: PutPermission,
    6: DeletePermission,
    7: PutTopicPermission,
    8: DeleteTopicPermission,
    9: DeclareExchange,
    10: DeleteExchange,
    11: DeclareQueue,
    12: DeleteQueue,
    13: Bind,
    14: Unbind,
    15: PutPolicy,
    16: DeletePolicy,
    17: SetParameter,
    18: ClearParameter,
    19: SetVhostLimits,
    20: SetUserLimits,
    21: SetQueueMembers,
    22: SetClusterId,
    23: AddNode,
    24: PutNode,
    25: RemoveNode,
    26: NodeStarted,
    27: NodeLost,
    28: JoinNode,
    29: TakeClaim,
    30: RenewClaims,
    31: ReleaseClaim,
    32: ConvertQueue,
    33: UseQueue,
}
_NUMBER_OF = {kind: number for number, kind in NUMBERS.items()}

Record = (
    VhostRecord | UserRecord | PermissionRecord | TopicPermissionRecord | ExchangeRecord | QueueRecord | BindingRecord
    | PolicyRecord | ParameterRecord | NodeRecord | ClaimRecord | ClaimBeatRecord
)  # fmt: skip
R = TypeVar("R")


class UnknownVersion(Exception):
    """Raised when bytes were written by a later version, or are no command or record at all."""


def encode_command(command: Command) -> bytes:
    """Raises PreconditionFailed when something in it cannot be kept: whatever a client said ends up here."""
    try:
        plain = [_NUMBER_OF[type(command)], *_to_plain(command)]
        return bytes((VERSION,)) + msgspec.msgpack.encode(plain)
    except (OverflowError, UnicodeEncodeError, TypeError, RecursionError) as error:
        raise PreconditionFailed(f"{type(command).__name__} cannot be kept: {_why_not_kept(error)}") from error


def _why_not_kept(error: Exception) -> str:
    match error:
        case OverflowError():
            return "a number in it has more than 64 bits"
        case UnicodeEncodeError():
            return "a text in it holds half a character (a lone surrogate)"
        case RecursionError():
            return "it is nested too deeply"
        case _:
            return str(error)


def decode_command(data: bytes) -> Command:
    """Raises UnknownVersion."""
    number, *values = _body(data) or [None]
    if type(number) is not int or number not in NUMBERS:
        raise UnknownVersion(f"no command has the number {number}: a later version wrote it")
    try:
        command: Command = _from_plain(NUMBERS[number], values)
    except (TypeError, ValueError) as error:
        raise UnknownVersion(f"the fields of {NUMBERS[number].__name__} cannot be read: {error}") from error
    return command


def encode_record(record: Record | CatalogHead) -> bytes:
    return bytes((VERSION,)) + msgspec.msgpack.encode(_to_plain(record))


def decode_record(kind: type[R], data: bytes) -> R:
    """Raises UnknownVersion."""
    try:
        return _from_plain(kind, _body(data))
    except TableError as error:
        raise UnknownVersion(f"the fields of {kind.__name__} cannot be read: {error}") from error


def _body(data: bytes) -> list[Any]:
    if not data or data[0] != VERSION:
        raise UnknownVersion(f"version {data[:1].hex() or 'missing'} of the catalog's format, and {VERSION} is known")
    try:
        body = msgspec.msgpack.decode(memoryview(data)[1:])
    except msgspec.DecodeError as error:
        raise UnknownVersion(f"the fields of a record cannot be read: {error}") from error
    if not isinstance(body, list):
        raise UnknownVersion(f"a {type(body).__name__} where the fields of a record should be")
    return body


def _shape_of_field(hint: Any) -> Any:
    if hint == Arguments:
        return "table"
    if get_origin(hint) is tuple:
        return "tuple"
    if get_origin(hint) in (Union, UnionType):
        return _shape_of_field(next(option for option in get_args(hint) if option is not type(None)))
    return hint if hint in _RECORDS else "plain"


_RECORDS = frozenset(get_args(Record))
# The fields of each command and record class, each with what it takes to bring it back from msgpack.
_SHAPES: dict[type[Any], list[tuple[str, Any]]] = {
    kind: [(name, _shape_of_field(hint)) for name, hint in get_type_hints(kind).items()]
    for kind in (*NUMBERS.values(), *_RECORDS, CatalogHead)
}


def _to_plain(value: Any) -> list[Any]:
    plain = []
    for name, shape in _SHAPES[type(value)]:
        part = getattr(value, name)
        if shape == "table":
            part = encoded_arguments(part)
        elif shape in _RECORDS:
            part = _to_plain(part)
        plain.append(part)
    return plain


def _from_plain(kind: type[R], plain: list[Any]) -> R:
    values = {}
    for (name, how), part in zip(_SHAPES[kind], plain, strict=False):
        if how == "table":
            part = decode_table(part)[0]
        elif how == "tuple":
            part = tuple(part)
        elif how in _RECORDS:
            part = _from_plain(how, part)
        values[name] = part
    missing = [part.name for part in fields(kind) if part.name not in values and _required(part)]  # type: ignore[arg-type]
    if missing:
        raise UnknownVersion(f"{kind.__name__} without {', '.join(missing)}")
    return kind(**values)


def _required(part: Any) -> bool:
    return part.default is MISSING and part.default_factory is MISSING
