"""The history of a message that has died: the header x-death of AMQP 0-9-1 as the annotation x-opt-deaths, and back.

    entry of x-death                                     entry of x-opt-deaths
    table of                                             map of
        original-expiration S, if it had one                 ttl uint, if it had one
        count l                                              queue string
        reason S                                             reason symbol
        queue S                                              count ulong
        time T                                               first-time timestamp, last-time timestamp
        exchange S                                           exchange string
        routing-keys A of S                                  routing-keys array of string

A queue keeps one time of each death: it is the first and the last. Whatever else stands there is no history.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from wire.amqp.tables import join_table
from wire.amqp10.table_conversion import NoEquivalent, long_text, table_value, typed_value
from wire.amqp10.typed_values import TypedValue, ValueType

NO_DEATHS = b"A\0\0\0\0"

_U32 = struct.Struct(">I")
_UINT_MAX = 2**32 - 1


def death_annotation(header: bytes) -> TypedValue:
    """Of the header's value, letter first. Raises NoEquivalent."""
    deaths = typed_value(header)
    if deaths.type is not ValueType.LIST:
        raise NoEquivalent(f"x-death is {deaths.type.name}")
    return TypedValue(ValueType.ARRAY, tuple(_death_map(_named(death)) for death in deaths.content))


def death_header(annotation: TypedValue) -> bytes:
    """The header's value, letter first. Raises NoEquivalent."""
    if annotation.type is not ValueType.ARRAY:
        raise NoEquivalent(f"x-opt-deaths is {annotation.type.name}")
    raw = b"".join(b"F" + join_table(_death_table(_named(death))) for death in annotation.content)
    return b"A" + _U32.pack(len(raw)) + raw


def _named(death: TypedValue) -> dict[str, TypedValue]:
    if death.type is not ValueType.MAP:
        raise NoEquivalent(f"a death is {death.type.name}")
    return {key.content: value for key, value in death.content if key.type is ValueType.SYMBOL}


def _field(death: Mapping[str, TypedValue], name: str, type_: ValueType) -> TypedValue:
    value = death.get(name)
    if value is None or value.type is not type_:
        raise NoEquivalent(f"a death whose {name} is {value}")
    return value


def _keys(death: Mapping[str, TypedValue], type_: ValueType) -> tuple[TypedValue, ...]:
    keys: tuple[TypedValue, ...] = _field(death, "routing-keys", type_).content
    if any(key.type is not ValueType.STRING for key in keys):
        raise NoEquivalent("a death with a routing key that is no text")
    return keys


def _death_map(death: Mapping[str, TypedValue]) -> TypedValue:
    count = _field(death, "count", ValueType.LONG).content
    time = _field(death, "time", ValueType.TIMESTAMP)
    fields = {
        "queue": _field(death, "queue", ValueType.STRING),
        "reason": TypedValue(ValueType.SYMBOL, _field(death, "reason", ValueType.STRING).content),
        "count": TypedValue(ValueType.ULONG, max(0, count)),
        "first-time": time,
        "last-time": time,
        "exchange": _field(death, "exchange", ValueType.STRING),
        "routing-keys": TypedValue(ValueType.ARRAY, _keys(death, ValueType.LIST)),
    }
    if "original-expiration" in death:
        expiration = _field(death, "original-expiration", ValueType.STRING).content
        if not expiration.isdecimal() or int(expiration) > _UINT_MAX:
            raise NoEquivalent(f"a death whose expiration was {expiration!r}")
        fields = {"ttl": TypedValue(ValueType.UINT, int(expiration)), **fields}
    return TypedValue(
        ValueType.MAP, tuple((TypedValue(ValueType.SYMBOL, name), value) for name, value in fields.items())
    )


def _death_table(death: Mapping[str, TypedValue]) -> dict[str, bytes]:
    fields = {
        "count": table_value(_field(death, "count", ValueType.ULONG)),
        "reason": table_value(_field(death, "reason", ValueType.SYMBOL)),
        "queue": table_value(_field(death, "queue", ValueType.STRING)),
        "time": table_value(_field(death, "first-time", ValueType.TIMESTAMP)),
        "exchange": table_value(_field(death, "exchange", ValueType.STRING)),
        "routing-keys": table_value(TypedValue(ValueType.LIST, _keys(death, ValueType.ARRAY))),
    }
    if "ttl" in death:
        ttl = _field(death, "ttl", ValueType.UINT).content
        fields = {"original-expiration": long_text(b"%d" % ttl), **fields}
    return fields
