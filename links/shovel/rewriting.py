"""Headers and properties that a shovel sets on what it forwards. Message by message, where a definition asks for it.

x-shovelled             a list, the newest shovel first: where a message has been
x-shovelled-timestamp   when this shovel passed it on, in seconds since 1970
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from links.amqp.opening import FRAME_MAX
from native.content import encode, messages
from wire.amqp.tables import (
    TableError,
    decode_value,
    encode_properties,
    encode_value,
    join_properties,
    join_table,
    split_properties,
    split_table,
)

FORWARD_HEADER = "x-shovelled"
TIMESTAMP_HEADER = "x-shovelled-timestamp"
FORWARDS_MAX = 100  # entries kept of a message that goes in circles
# What would not fit in a frame goes on as it came: the destination would end the connection, and so at each try.
PROPS_BYTES_MAX = FRAME_MAX - 20

_EMPTY_TABLE = b"\0\0\0\0"


class Rewriting:
    """What is set on each message."""

    def __init__(
        self, properties: Mapping[str, Any], forward_entry: Mapping[str, str] | None, *, timestamp: bool
    ) -> None:
        self._properties = split_properties(encode_properties(properties))
        self._forward_entry = None if forward_entry is None else dict(forward_entry)
        self._timestamp = timestamp

    @property
    def changes_something(self) -> bool:
        return bool(self._properties or self._forward_entry or self._timestamp)

    def rewritten(self, content: bytes, count: int, now_s: int) -> bytes:
        return b"".join([encode(self._props(props, now_s), body) for props, body in messages(content, 0, count)])

    def _props(self, props: bytes, now_s: int) -> bytes:
        fields = split_properties(props) | self._properties
        if self._forward_entry is not None or self._timestamp:
            fields["headers"] = self._headers(fields.get("headers", _EMPTY_TABLE), now_s)
        changed = join_properties(fields)
        return changed if len(changed) <= PROPS_BYTES_MAX else props

    def _headers(self, raw: bytes, now_s: int) -> bytes:
        """What a protocol let pass and nobody can read goes on as it came: with an error here, nothing behind it would move."""
        try:
            headers = split_table(raw)
        except TableError:
            return raw
        if self._forward_entry is not None:
            headers[FORWARD_HEADER] = encode_value([self._forward_entry, *_forwards(headers.get(FORWARD_HEADER))])
        if self._timestamp:
            headers[TIMESTAMP_HEADER] = encode_value(now_s)
        return join_table(headers)


def _forwards(value: bytes | None) -> list[Any]:
    if value is None:
        return []
    try:
        entries = decode_value(value)[0]
    except TableError:
        return []
    return entries[: FORWARDS_MAX - 1] if isinstance(entries, list) else []
