"""Between the stubs and the broker's values: tables, properties, messages, ranges; and errors to status, in one table.

A gRPC message is put into the broker's one form here, once: AMQP property list and body. What an AMQP client published
comes back out as it can be said in protobuf, whose strings are UTF-8: other bytes are replaced.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import grpc
import msgspec

from broker import errors
from broker.catalog.arguments import TEN_YEARS_MS
from broker.json_values import readable, to_json
from front.message_shape import PERSISTENT, Shape, readable_properties, shaped
from leveret.v1 import message_pb2 as pb
from native import content as messages_of
from wire.amqp.tables import (
    Timestamp,
)

# ----------------------------------------------------------------------------- errors


class Unauthenticated(errors.BrokerError):
    """Returned when nobody, or nobody we know, asks."""


ERROR_TRAILER = "leveret-error"  # trailing metadata: the name of the error's class

_STATUS: dict[type[errors.BrokerError], grpc.StatusCode] = {
    errors.AccessRefused: grpc.StatusCode.PERMISSION_DENIED,
    errors.NotFound: grpc.StatusCode.NOT_FOUND,
    errors.QueueAway: grpc.StatusCode.NOT_FOUND,
    errors.ResourceLocked: grpc.StatusCode.FAILED_PRECONDITION,
    errors.PreconditionFailed: grpc.StatusCode.FAILED_PRECONDITION,
    errors.NotAllowed: grpc.StatusCode.PERMISSION_DENIED,
    errors.NotSupported: grpc.StatusCode.UNIMPLEMENTED,
    errors.CommandInvalid: grpc.StatusCode.INVALID_ARGUMENT,
    errors.ResourceExhausted: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.ConnectionForced: grpc.StatusCode.UNAVAILABLE,
    errors.InternalError: grpc.StatusCode.INTERNAL,
    errors.MalformedTable: grpc.StatusCode.INVALID_ARGUMENT,
    errors.InvalidRequest: grpc.StatusCode.INVALID_ARGUMENT,
    Unauthenticated: grpc.StatusCode.UNAUTHENTICATED,
}


def status_of(error: errors.BrokerError) -> tuple[grpc.StatusCode, str, tuple[tuple[str, str], ...]]:
    """Status, text and trailing metadata of an error. A subclass counts as its nearest ancestor in the table."""
    for kind in type(error).__mro__:
        if kind in _STATUS:
            return _STATUS[kind], error.text, ((ERROR_TRAILER, error_name(error)),)
    return grpc.StatusCode.INTERNAL, error.text, ((ERROR_TRAILER, error_name(error)),)


def error_name(error: errors.BrokerError) -> str:
    """The name by which clients know this error: that of its nearest ancestor in the table."""
    return next((kind.__name__ for kind in type(error).__mro__ if kind in _STATUS), "InternalError")


# ----------------------------------------------------------------------------- tables

_SINT64_MAX = 2**63 - 1
# Tables and lists within each other that are told as such. AMQP allows 32, but protobuf reads 100 messages within each
# other, and a table takes three of them; one table beyond that would make a whole listing unreadable.
NESTING_MAX = 24
DECIMAL_SCALE_MAX = 255  # places that a decimal of AMQP can have


def table(values: Mapping[str, Any] | None, depth: int = 1) -> pb.Table:
    return pb.Table(entries={readable(name): value(item, depth) for name, item in (values or {}).items()})


def value(item: Any, depth: int = 1) -> pb.Value:
    """Any value that AMQP lets in; tables and lists that are nested too deeply for protobuf are told as JSON."""
    if isinstance(item, str):
        return pb.Value(text=text(item))
    if isinstance(item, bool):
        return pb.Value(boolean=item)
    if isinstance(item, Timestamp):
        return pb.Value(timestamp_s=item) if item <= _SINT64_MAX else pb.Value(unsigned=item)
    if isinstance(item, int):
        return pb.Value(integer=item) if item <= _SINT64_MAX else pb.Value(unsigned=item)
    if isinstance(item, float):
        return pb.Value(number=item)
    if isinstance(item, (bytes, bytearray, memoryview)):
        return pb.Value(binary=bytes(item))
    if isinstance(item, (Mapping, list, tuple)):
        return _nested(item, depth + 1)
    if isinstance(item, Decimal):
        exponent = item.as_tuple().exponent
        scale = max(0, -exponent) if isinstance(exponent, int) else 0
        return pb.Value(decimal=pb.Decimal(scale=scale, unscaled=int(item.scaleb(scale))))
    assert item is None, f"a {type(item).__name__} in a table: {item!r}"
    return pb.Value()


def _nested(item: Mapping[str, Any] | Sequence[Any], depth: int) -> pb.Value:
    if depth > NESTING_MAX:
        return pb.Value(text=msgspec.json.encode(to_json(item)).decode())
    if isinstance(item, Mapping):
        return pb.Value(table=table(item, depth))
    return pb.Value(list=pb.List(values=[value(part, depth) for part in item]))


def plain_table(table: pb.Table) -> dict[str, Any]:
    return {name: plain_value(item) for name, item in table.entries.items()}


def plain_value(item: pb.Value) -> Any:
    match item.WhichOneof("kind"):
        case None:
            return None
        case "table":
            return plain_table(item.table)
        case "list":
            return [plain_value(part) for part in item.list.values]
        case "timestamp_s":
            return Timestamp(item.timestamp_s)
        case "decimal":
            if item.decimal.scale > DECIMAL_SCALE_MAX:
                raise errors.InvalidRequest(f"a decimal has up to {DECIMAL_SCALE_MAX} places, not {item.decimal.scale}")
            return Decimal(item.decimal.unscaled).scaleb(-item.decimal.scale)
        case kind:
            return getattr(item, kind)


def text(raw: str) -> str:
    """A string that protobuf can carry: bytes that were no UTF-8 are replaced."""
    return raw if raw.isascii() else raw.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


# ----------------------------------------------------------------------------- properties


DEFAULT_SHAPE = shaped({"delivery_mode": PERSISTENT})

_TEXT_PROPERTIES = (
    "content_type",
    "content_encoding",
    "correlation_id",
    "reply_to",
    "message_id",
    "type",
    "user_id",
    "app_id",
    "cluster_id",
)


@errors.refuses_malformed
def shape_of(properties: pb.Properties) -> Shape:
    """Raises MalformedTable or InvalidRequest."""
    transient = properties.delivery_mode == pb.DELIVERY_MODE_TRANSIENT
    values: dict[str, Any] = {"delivery_mode": 1 if transient else PERSISTENT}
    for name in _TEXT_PROPERTIES:
        if properties.HasField(name):
            values[name] = getattr(properties, name)
    if properties.HasField("headers"):
        values["headers"] = plain_table(properties.headers)
    if properties.HasField("expiration_ms"):
        if properties.expiration_ms > TEN_YEARS_MS:
            raise errors.InvalidRequest(
                f"expiration_ms is at most {TEN_YEARS_MS} (ten years), not {properties.expiration_ms}"
            )
        values["expiration"] = str(properties.expiration_ms)
    if properties.HasField("timestamp_s"):
        values["timestamp"] = properties.timestamp_s
    if properties.HasField("priority"):
        values["priority"] = properties.priority
    return shaped(values)


def properties(props: bytes) -> pb.Properties:
    """What a property list says, as far as it can be read: an AMQP client may have stored headers that nobody can."""
    found = readable_properties(props)
    converted = pb.Properties(
        delivery_mode=pb.DELIVERY_MODE_PERSISTENT
        if found.get("delivery_mode") == PERSISTENT
        else pb.DELIVERY_MODE_TRANSIENT,
    )
    for name in _TEXT_PROPERTIES:
        if name in found:
            setattr(converted, name, text(found[name]))
    if "headers" in found:
        converted.headers.CopyFrom(table(found["headers"]))
    if "priority" in found:
        converted.priority = found["priority"]
    if (expiration := found.get("expiration", "")).isascii() and expiration.isdigit():
        converted.expiration_ms = min(int(found["expiration"]), _SINT64_MAX)
    if "timestamp" in found:
        converted.timestamp_s = int(found["timestamp"])
    return converted


# ----------------------------------------------------------------------------- messages

_PROPERTIES_KEPT = 256  # distinct property lists of one delivery that are decoded once


def messages(content: bytes, position: int, count: int) -> Iterator[pb.Message]:
    """The stored messages from `position` on. Many share their properties, which are then decoded once."""
    known: dict[bytes, pb.Properties] = {}
    for raw_props, body in messages_of.messages(content, position, count):
        props = bytes(raw_props)
        converted = known.get(props)
        if converted is None:
            converted = properties(props)
            if len(known) < _PROPERTIES_KEPT:
                known[props] = converted
        yield pb.Message(properties=converted, body=bytes(body))
