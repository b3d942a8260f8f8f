"""AMQP field values as JSON has them, and back: RabbitMQ's conventions, for every value that AMQP lets in.

    AMQP                         JSON                                     and back
    text, integer, boolean       itself                                   itself
    void, array, table           null, list, object                       itself
    float, double                number; "NaN", "Infinity", "-Infinity"   number; the text
    decimal                      number                                   double
    timestamp                    seconds since the epoch, a number        integer; from 2^63 on timestamp, as no other fits
    bytes, UTF-8                 text                                     text
    bytes, not UTF-8             "Not UTF-8, base64 is: ..."              bytes

Names of fields follow the same rule as bytes. Nothing here raises: one odd value of one user must not take a listing from
all others.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from wire.amqp.tables import Timestamp

NOT_UTF8 = "Not UTF-8, base64 is: "
_I64_MAX, _U64_MAX = 2**63 - 1, 2**64 - 1


def to_json(value: Any) -> Any:
    """A value as JSON can say it: plain str, int, float, bool, None, list and dict."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return readable(value)
    if isinstance(value, int):
        return int(value)  # a Timestamp is an int, but not one that JSON encoders know
    if isinstance(value, float):
        return value if math.isfinite(value) else _not_finite(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return readable_bytes(bytes(value))
    if isinstance(value, Mapping):
        return {readable(str(name)): to_json(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    if isinstance(value, Decimal):
        return float(value) if value.is_finite() else str(value)
    return readable(str(value))


def readable(text: str) -> str:
    """A text that any encoder takes; bytes that were no UTF-8 are in it as tables.py left them, and are said in base64."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return readable_bytes(text.encode("utf-8", "surrogateescape"))
    return text


def readable_bytes(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return NOT_UTF8 + base64.b64encode(raw).decode("ascii")


def _not_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def table_from_json(table: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `to_json` for a table, as far as JSON carries it. What AMQP has no place for is left as it is, to be
    refused where the table is kept."""
    return {_name_from_json(name): _from_json(value) for name, value in table.items()}


def _from_json(value: Any) -> Any:
    if isinstance(value, str):
        raw = _raw(value)
        return value if raw is None else raw
    if isinstance(value, int) and _I64_MAX < value <= _U64_MAX:
        return Timestamp(value)
    if isinstance(value, Mapping):
        return table_from_json(value)
    if isinstance(value, list):
        return [_from_json(item) for item in value]
    return value


def _name_from_json(name: str) -> str:
    raw = _raw(name)
    return name if raw is None else raw.decode("utf-8", "surrogateescape")


def _raw(text: str) -> bytes | None:
    """The bytes that `readable_bytes` has put into words; None for a text that is itself."""
    if not text.startswith(NOT_UTF8):
        return None
    try:
        raw = base64.b64decode(text[len(NOT_UTF8) :], validate=True)
        raw.decode()
    except UnicodeDecodeError:
        return raw
    except (binascii.Error, ValueError):
        return None
    return None
