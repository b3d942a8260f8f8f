"""Single messages of runs, as columns (native/columns.py): for those who look into what was published.

    messages     a row for each message of these runs: where its properties and its body lie
    properties   what property lists say, for those properties that help to find a message
    gather       pieces of a buffer as one column: bodies, property lists

They are apart, so who asks for little reads little. Positions are those in the file, which the buffer is a part of. A run whose
lengths do not fit its bytes gives no messages; a property list that does not fit gives nulls. Nothing nested is looked into:
`headers` are the bytes of the table as wire/amqp/tables.py reads them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from native import columns, compiled_twin
from native.columns import BINARY, INT32, INT64, Column, Field

Buffer: TypeAlias = bytes | bytearray | memoryview

MESSAGES: Final = (
    Field("run", INT32),  # which of the runs that were given
    Field("nth", INT32),  # of the run
    Field("props_at", INT64),
    Field("props_bytes", INT64),
    Field("body_at", INT64),
    Field("body_bytes", INT64),
)

PROPERTIES: Final = (
    Field("content_type", BINARY, nullable=True),
    Field("headers", BINARY, nullable=True),
    Field("correlation_id", BINARY, nullable=True),
    Field("reply_to", BINARY, nullable=True),
    Field("message_id", BINARY, nullable=True),
    Field("timestamp", INT64, nullable=True),  # as the client said it: seconds, if it keeps to the specification
    Field("type", BINARY, nullable=True),
    Field("user_id", BINARY, nullable=True),
    Field("app_id", BINARY, nullable=True),
)

_LENGTHS = struct.Struct("<II")
# In the order of their flags, from the highest bit: the size of a value, and the column of those that have one.
_SHORT, _LONG = 0, -1
_LIST: Final = (
    (_SHORT, 0), (_SHORT, None), (_LONG, 1), (1, None), (1, None), (_SHORT, 2), (_SHORT, 3), (_SHORT, None), (_SHORT, 4),
    (8, 5), (_SHORT, 6), (_SHORT, 7), (_SHORT, 8), (_SHORT, None),
)  # fmt: skip
_TIMESTAMP: Final = 5
_UNKNOWN_FLAGS = 3


def messages_plain(buffer: Buffer, base: int, at: bytes, size: bytes, count: bytes) -> columns.Table:
    """The messages of runs whose contents lie at these places of the file: columns of i64, as `publishes` makes them."""
    with memoryview(buffer) as view:
        rows: list[tuple[int, ...]] = []
        for run, (content, messages) in enumerate(zip(_pieces(view, base, at, size), _longs(count), strict=True)):
            start, length = content
            rows.extend((run, nth, *found) for nth, found in enumerate(_messages(view, base, start, length, messages)))
        return columns.table(MESSAGES, rows)


def _longs(column: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(column) // 8}q", column)


def _pieces(view: memoryview, base: int, at: bytes, size: bytes) -> Iterator[tuple[int, int]]:
    """Start in the buffer and length of each piece; all are looked at before the first is given."""
    found = [(start - base, length) for start, length in zip(_longs(at), _longs(size), strict=True)]
    for start, length in found:
        if not (0 <= start <= len(view) and 0 <= length <= len(view) - start):
            raise ValueError(f"{length} bytes at {start + base} are not in the {len(view)} bytes at {base}")
    return iter(found)


def _messages(view: memoryview, base: int, start: int, length: int, count: int) -> list[tuple[int, int, int, int]]:
    """Where the messages of a content lie; none unless there are just so many."""
    found: list[tuple[int, int, int, int]] = []
    at, end = start, start + length
    while at < end and len(found) < count:
        if end - at < _LENGTHS.size:
            return []
        props_bytes, body_bytes = _LENGTHS.unpack_from(view, at)
        props = at + _LENGTHS.size
        body = props + props_bytes
        at = body + body_bytes
        if at > end:
            return []
        found.append((base + props, props_bytes, base + body, body_bytes))
    return found if at == end and len(found) == count else []


def properties_plain(buffer: Buffer, base: int, at: bytes, size: bytes) -> columns.Table:
    """What the property lists at these places say."""
    with memoryview(buffer) as view:
        rows = [_properties(view[start : start + length]) for start, length in _pieces(view, base, at, size)]
        return columns.table(PROPERTIES, rows)


def _properties(props: memoryview) -> list[Any]:
    nothing: list[Any] = [None] * len(PROPERTIES)
    if len(props) < 2:
        return nothing
    flags, place = int.from_bytes(props[:2], "big"), 2
    if flags & _UNKNOWN_FLAGS:
        return nothing
    row = list(nothing)
    for number, (kind, column) in enumerate(_LIST):
        if flags >> (15 - number) & 1:
            value = _value(props, place, kind)
            if value is None:
                return nothing
            start, place = value
            if column == _TIMESTAMP:
                row[column] = int.from_bytes(props[start:place], "big")
            elif column is not None:
                row[column] = bytes(props[start:place])
    return row if place == len(props) else nothing


def _value(props: memoryview, at: int, kind: int) -> tuple[int, int] | None:
    """Where a value lies; None if it does not fit."""
    prefix = 1 if kind == _SHORT else 4 if kind == _LONG else 0
    if len(props) - at < prefix:
        return None
    start = at + prefix
    end = start + (int.from_bytes(props[at:start], "big") if prefix else kind)
    return None if end > len(props) else (start, end)


def gather_plain(buffer: Buffer, base: int, at: bytes, size: bytes) -> Column:
    """The pieces at these places of the file, as one BINARY column."""
    with memoryview(buffer) as view:
        rows = [(bytes(view[start : start + length]),) for start, length in _pieces(view, base, at, size)]
        return columns.table((Field("pieces", BINARY),), rows)[1][0]


messages = messages_plain
properties = properties_plain
gather = gather_plain

if (_twin := compiled_twin("message_columns")) is not None:
    messages = _twin.messages
    properties = _twin.properties
    gather = _twin.gather
