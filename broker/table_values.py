"""How values of field tables are named, shown and compared in the broker's words, which are RabbitMQ's."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from math import isnan
from typing import Any

from wire.amqp.tables import Timestamp


def type_name(value: Any) -> str:
    """What RabbitMQ calls the type of this value in its error texts; client libraries show them."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, Timestamp):
        return "timestamp"
    if isinstance(value, int):
        return "signedint" if -(2**31) <= value < 2**31 else "long"
    if value is None:
        return "void"
    if isinstance(value, Mapping):
        return "table"
    if isinstance(value, (list, tuple)):
        return "array"
    names = {str: "longstr", float: "double", bytes: "binary", Decimal: "decimal"}
    return names.get(type(value), type(value).__name__)


def show(value: Any) -> str:
    """A value in an error text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def same(one: Any, other: Any) -> bool:
    """Equal as RabbitMQ compares: numbers by value, but true is not 1. What is no number is the same as itself."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, float) and isinstance(other, float) and isnan(one):
        return isnan(other)
    return bool(one == other)


def header_key(value: Any) -> Any:
    """Two values of headers have equal keys if RabbitMQ's headers exchanges take them for the same: integers whatever their
    width, but no float or decimal of the same value; and a text as a byte array of its UTF-8."""
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, float, Decimal)):
        return type(value), value
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
