"""The properties of a message that a front puts together: as bytes, with what routing and storing look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from broker.errors import InvalidRequest, refuses_malformed
from broker.messages.expiration import expiration_ms
from broker.messages.message import LOOK_CC, LOOK_HEADERS, LOOK_REPLY_TO, PROPERTIES_BYTES_MAX
from broker.names import DIRECT_REPLY_TO
from wire.amqp.tables import TableError, decode_properties, encode_properties, join_properties, split_properties

PERSISTENT = 2


@dataclass(slots=True, frozen=True)
class Shape:
    """A property list as bytes, and what routing and storing look at in it."""

    props: bytes
    persistent: bool
    priority: int
    expiration_ms: int | None
    user_id: str | None
    look: int

    def travels_with(self, other: Shape) -> bool:
        """May messages of these two shapes be one run?"""
        return not (self.look | other.look) & (LOOK_CC | LOOK_REPLY_TO) and (
            self is other
            or (self.persistent, self.priority, self.expiration_ms, self.user_id)
            == (other.persistent, other.priority, other.expiration_ms, other.user_id)
        )


@refuses_malformed
def shaped(values: Mapping[str, Any]) -> Shape:
    """Of properties by their AMQP names. Raises MalformedTable, or InvalidRequest when no client could be given them."""
    encoded = encode_properties(values)
    if len(encoded) > PROPERTIES_BYTES_MAX:
        raise InvalidRequest(
            f"properties of {len(encoded)} bytes, and at most {PROPERTIES_BYTES_MAX} can be delivered to AMQP clients"
        )
    expiration = values.get("expiration")
    return Shape(
        encoded,
        values.get("delivery_mode") == PERSISTENT,
        values.get("priority", 0),
        None if expiration is None else expiration_ms(expiration.encode()),
        values.get("user_id"),
        _look(values),
    )


def _look(values: Mapping[str, Any]) -> int:
    headers = values.get("headers")
    look = LOOK_REPLY_TO if values.get("reply_to") == DIRECT_REPLY_TO else 0
    if headers is not None:
        look |= LOOK_HEADERS | (LOOK_CC if "CC" in headers or "BCC" in headers else 0)
    return look


def readable_properties(props: bytes) -> dict[str, Any]:
    """As far as they can be read: a client may have stored headers that nobody can."""
    try:
        return decode_properties(props)
    except TableError:
        pass
    try:
        fields = split_properties(props)
        fields.pop("headers", None)
        return decode_properties(join_properties(fields))
    except TableError:
        return {}
