"""Headers and arguments: tables of plain Python values, as they cross the wire.

None  bool  int  float  str  bytes  datetime (aware; whole seconds)  Decimal  list  dict with str keys

A timestamp on the wire has 64 bits, and a datetime ends with the year 9999: beyond that it is a `FarTimestamp`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from leveret.v1 import message_pb2 as pb

_SINT64_MAX = 2**63 - 1


class FarTimestamp(int):
    """Seconds since the epoch of a moment that no datetime can hold. It is sent on as the timestamp that it was."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"FarTimestamp({int(self)})"


def to_table(values: Mapping[str, Any] | None) -> pb.Table:
    """Raises TypeError or ValueError for what a table cannot hold."""
    return pb.Table(entries={name: to_value(item) for name, item in (values or {}).items()})


def to_value(item: Any) -> pb.Value:
    match item:
        case None:
            return pb.Value()
        case bool():
            return pb.Value(boolean=item)
        case FarTimestamp():
            return pb.Value(timestamp_s=item)
        case int():
            return pb.Value(integer=item) if item <= _SINT64_MAX else pb.Value(unsigned=item)
        case float():
            return pb.Value(number=item)
        case str():
            return pb.Value(text=item)
        case bytes() | bytearray() | memoryview():
            return pb.Value(binary=bytes(item))
        case datetime():
            if item.tzinfo is None:
                raise ValueError(f"{item!r} has no time zone: which moment is it?")
            return pb.Value(timestamp_s=int(item.timestamp()))
        case Decimal():
            return pb.Value(decimal=_to_decimal(item))
        case list() | tuple():
            return pb.Value(list=pb.List(values=[to_value(part) for part in item]))
        case Mapping():
            return pb.Value(table=to_table(item))
    raise TypeError(f"a {type(item).__name__} cannot be a header or an argument: {item!r}")


def from_table(table: pb.Table) -> dict[str, Any]:
    return {name: from_value(item) for name, item in table.entries.items()}


def from_value(item: pb.Value) -> Any:
    match item.WhichOneof("kind"):
        case None:
            return None
        case "table":
            return from_table(item.table)
        case "list":
            return [from_value(part) for part in item.list.values]
        case "timestamp_s":
            return moment(item.timestamp_s)
        case "decimal":
            return Decimal(item.decimal.unscaled).scaleb(-item.decimal.scale)
        case kind:
            return getattr(item, kind)


def moment(seconds: int) -> datetime | FarTimestamp:
    """A timestamp of the wire, whatever it says: publishers send milliseconds where seconds are meant, and worse."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return FarTimestamp(seconds)


def _to_decimal(item: Decimal) -> pb.Decimal:
    exponent = item.as_tuple().exponent
    if not isinstance(exponent, int):
        raise ValueError(f"{item} is no number")
    scale = max(0, -exponent)
    return pb.Decimal(scale=scale, unscaled=int(item.scaleb(scale)))
