"""The methods of AMQP 0-9-1 with RabbitMQ's extensions, as one table; decoding and encoding are derived from it.

A method payload is `class u16 | method u16 | arguments in the table's order`. Arguments travel inside the front as a dict
by name. What the protocol reserves is called reserved_N, read over, and written as its zero.
"""

from __future__ import annotations

import struct
from typing import Any

from wire.amqp.argument_types import TYPES, MalformedArguments, Reader, Writer, read_octet, write_octet

Arguments = dict[str, Any]

_TABLE = """
connection.start            10.10   version_major:octet version_minor:octet server_properties:table mechanisms:longstr locales:longstr
connection.start-ok         10.11   client_properties:table mechanism:shortstr response:longstr locale:shortstr
connection.secure           10.20   challenge:longstr
connection.secure-ok        10.21   response:longstr
connection.tune             10.30   channel_max:short frame_max:long heartbeat:short
connection.tune-ok          10.31   channel_max:short frame_max:long heartbeat:short
connection.open             10.40   virtual_host:shortstr reserved_1:shortstr reserved_2:bit
connection.open-ok          10.41   reserved_1:shortstr
connection.close            10.50   reply_code:short reply_text:shortstr class_id:short method_id:short
connection.close-ok         10.51
connection.blocked          10.60   reason:shortstr
connection.unblocked        10.61
connection.update-secret    10.70   new_secret:longstr reason:shortstr
connection.update-secret-ok 10.71
channel.open                20.10   reserved_1:shortstr
channel.open-ok             20.11   reserved_1:longstr
channel.flow                20.20   active:bit
channel.flow-ok             20.21   active:bit
channel.close               20.40   reply_code:short reply_text:shortstr class_id:short method_id:short
channel.close-ok            20.41
access.request              30.10   realm:shortstr exclusive:bit passive:bit active:bit write:bit read:bit
access.request-ok           30.11   ticket:short
exchange.declare            40.10   reserved_1:short exchange:shortstr type:shortstr passive:bit durable:bit auto_delete:bit internal:bit no_wait:bit arguments:table
exchange.declare-ok         40.11
exchange.delete             40.20   reserved_1:short exchange:shortstr if_unused:bit no_wait:bit
exchange.delete-ok          40.21
exchange.bind               40.30   reserved_1:short destination:shortstr source:shortstr routing_key:shortstr no_wait:bit arguments:table
exchange.bind-ok            40.31
exchange.unbind             40.40   reserved_1:short destination:shortstr source:shortstr routing_key:shortstr no_wait:bit arguments:table
exchange.unbind-ok          40.51
queue.declare               50.10   reserved_1:short queue:shortstr passive:bit durable:bit exclusive:bit auto_delete:bit no_wait:bit arguments:table
queue.declare-ok            50.11   queue:shortstr message_count:long consumer_count:long
queue.bind                  50.20   reserved_1:short queue:shortstr exchange:shortstr routing_key:shortstr no_wait:bit arguments:table
queue.bind-ok               50.21
queue.purge                 50.30   reserved_1:short queue:shortstr no_wait:bit
queue.purge-ok              50.31   message_count:long
queue.delete                50.40   reserved_1:short queue:shortstr if_unused:bit if_empty:bit no_wait:bit
queue.delete-ok             50.41   message_count:long
queue.unbind                50.50   reserved_1:short queue:shortstr exchange:shortstr routing_key:shortstr arguments:table
queue.unbind-ok             50.51
basic.qos                   60.10   prefetch_size:long prefetch_count:short global:bit
basic.qos-ok                60.11
basic.consume               60.20   reserved_1:short queue:shortstr consumer_tag:shortstr no_local:bit no_ack:bit exclusive:bit no_wait:bit arguments:table
basic.consume-ok            60.21   consumer_tag:shortstr
basic.cancel                60.30   consumer_tag:shortstr no_wait:bit
basic.cancel-ok             60.31   consumer_tag:shortstr
basic.publish               60.40   reserved_1:short exchange:shortstr routing_key:shortstr mandatory:bit immediate:bit
basic.return                60.50   reply_code:short reply_text:shortstr exchange:shortstr routing_key:shortstr
basic.deliver               60.60   consumer_tag:shortstr delivery_tag:longlong redelivered:bit exchange:shortstr routing_key:shortstr
basic.get                   60.70   reserved_1:short queue:shortstr no_ack:bit
basic.get-ok                60.71   delivery_tag:longlong redelivered:bit exchange:shortstr routing_key:shortstr message_count:long
basic.get-empty             60.72   reserved_1:shortstr
basic.ack                   60.80   delivery_tag:longlong multiple:bit
basic.reject                60.90   delivery_tag:longlong requeue:bit
basic.recover-async         60.100  requeue:bit
basic.recover               60.110  requeue:bit
basic.recover-ok            60.111
basic.nack                  60.120  delivery_tag:longlong multiple:bit requeue:bit
confirm.select              85.10   no_wait:bit
confirm.select-ok           85.11
tx.select                   90.10
tx.select-ok                90.11
tx.commit                   90.20
tx.commit-ok                90.21
tx.rollback                 90.30
tx.rollback-ok              90.31
"""  # noqa: E501  (a table is read by its columns)

_ZERO: dict[str, Any] = {"short": 0, "shortstr": "", "longstr": b"", "bit": False}


class UnknownMethod(ValueError):
    """Raised when no method has these numbers."""

    def __init__(self, class_id: int, method_id: int) -> None:
        super().__init__(f"unknown method {class_id}.{method_id}")


class Method:
    """One row of the table."""

    __slots__ = ("class_id", "head", "method_id", "name", "steps")

    def __init__(self, name: str, class_id: int, method_id: int, fields: list[tuple[str, str]]) -> None:
        self.name = name
        self.class_id = class_id
        self.method_id = method_id
        self.head = struct.pack(">HH", class_id, method_id)
        self.steps = _steps(fields)

    def __str__(self) -> str:
        return self.name


class _Step:
    """One argument, or the bits that share an octet (then `kind` is bit)."""

    __slots__ = ("kind", "names", "read", "write")

    def __init__(self, kind: str, name: str, read: Reader, write: Writer) -> None:
        self.kind = kind
        self.names = [name]
        self.read = read
        self.write = write


def _steps(fields: list[tuple[str, str]]) -> list[_Step]:
    steps: list[_Step] = []
    for name, kind in fields:
        if kind == "bit" and steps and steps[-1].kind == "bit" and len(steps[-1].names) < 8:
            steps[-1].names.append(name)
        else:
            steps.append(_Step(kind, name, *TYPES.get(kind, (read_octet, write_octet))))
    return steps


def _rows(table: str) -> list[Method]:
    methods = []
    for row in table.strip().splitlines():
        name, numbers, *fields = row.split()
        class_id, method_id = numbers.split(".")
        pairs = [(field.split(":")[0], field.split(":")[1]) for field in fields]
        methods.append(Method(name, int(class_id), int(method_id), pairs))
    return methods


METHODS: dict[str, Method] = {method.name: method for method in _rows(_TABLE)}
_BY_HEAD: dict[bytes, Method] = {method.head: method for method in METHODS.values()}


def method_of(payload: bytes) -> Method:
    """The method that a payload begins with. Raises UnknownMethod, or MalformedArguments when there is no beginning."""
    method = _BY_HEAD.get(payload[:4])
    if method is None:
        if len(payload) < 4:
            raise MalformedArguments(f"a method frame of {len(payload)} bytes")
        raise UnknownMethod(*struct.unpack_from(">HH", payload))
    return method


def decode(method: Method, payload: bytes) -> Arguments:
    """The arguments of a method. Raises MalformedArguments, also for bytes after the last of them."""
    arguments: Arguments = {}
    position = 4
    for step in method.steps:
        value, position = step.read(payload, position)
        if step.kind == "bit":
            for place, name in enumerate(step.names):
                arguments[name] = bool(value >> place & 1)
        else:
            arguments[step.names[0]] = value
    if position != len(payload):
        raise MalformedArguments(f"{len(payload) - position} bytes after the arguments")
    return arguments


def encode(name: str, /, **arguments: Any) -> bytes:
    """The payload of a method; reserved arguments are filled in, all others must be given."""
    method = METHODS[name]
    parts = [method.head]
    for step in method.steps:
        values = [arguments.pop(name) if name in arguments else _reserved(step, name) for name in step.names]
        value = sum(bool(bit) << place for place, bit in enumerate(values)) if step.kind == "bit" else values[0]
        parts.append(step.write(value))
    assert not arguments, f"{name} has no argument {', '.join(arguments)}"
    return b"".join(parts)


def _reserved(step: _Step, name: str) -> Any:
    assert name.startswith("reserved_"), f"argument {name} is missing"
    return _ZERO[step.kind]
