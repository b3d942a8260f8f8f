"""Stubs of views: a field has the value of the attribute that has its name."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from front.grpc import convert
from leveret.v1 import message_pb2

S = TypeVar("S", bound=Message)


def stub_of(kind: type[S], *parts: object, **given: Any) -> S:
    """From the first of the parts that has the attribute; `given` is for fields that have no such one. None: not set."""
    found = {
        name: _carried(_first(parts, name), is_table)
        for name, is_table in _fields(kind.DESCRIPTOR)
        if name not in given
    }
    return kind(**found, **given)


@cache
def _fields(kind: Descriptor) -> tuple[tuple[str, bool], ...]:
    """Their names, and which are AMQP tables."""
    table = message_pb2.Table.DESCRIPTOR
    return tuple((field.name, field.message_type is table) for field in kind.fields)


def _first(parts: tuple[object, ...], name: str) -> Any:
    for part in parts[:-1]:
        if hasattr(part, name):
            return getattr(part, name)
    return getattr(parts[-1], name)


def _carried(value: Any, is_table: bool) -> Any:
    if is_table:
        return convert.table(value)
    if isinstance(value, str):
        return convert.text(value)
    if isinstance(value, (tuple, list)):
        return [convert.text(one) for one in value]
    return value
