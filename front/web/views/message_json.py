"""The properties of a message between JSON and AMQP's property list, by AMQP's names."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

from broker.json_values import readable, to_json
from front.message_shape import Shape, readable_properties, shaped
from front.web.http import bodies
from front.web.http.bodies import Body
from front.web.http.refusals import bad_request

Read = Callable[[Body, str], Any]
OCTET_MAX = 255
TIMESTAMP_MAX = (1 << 64) - 1


def _number_to(most: int) -> Read:
    def read(body: Body, name: str) -> int:
        value = bodies.number(body, name)
        if not 0 <= value <= most:
            raise bad_request(f"'{name}' is {value}, and lies between 0 and {most}")
        return value

    return read


def _number_or_text(body: Body, name: str) -> str:
    """An expiration is a text in AMQP, and people write numbers."""
    value = body[name]
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else bodies.text(body, name)


_PROPERTIES: dict[str, Read] = {
    **dict.fromkeys(
        ("content_type", "content_encoding", "correlation_id", "reply_to", "message_id", "type", "user_id", "app_id"),
        bodies.text,
    ),
    "cluster_id": bodies.text,
    "headers": bodies.table,
    "delivery_mode": _number_to(OCTET_MAX),
    "priority": _number_to(OCTET_MAX),
    "timestamp": _number_to(TIMESTAMP_MAX),
    "expiration": _number_or_text,
}


def properties_shape(body: Body) -> Shape:
    """Of what the body has under `properties`; unknown names are passed over. Raises HttpError or MalformedTable."""
    given = body["properties"]
    if given == []:
        given = {}  # so PHP writes an empty object
    if not isinstance(given, Mapping):
        raise bad_request("'properties' is no object")
    present = [name for name in _PROPERTIES if given.get(name) is not None]
    return shaped({name: _PROPERTIES[name](given, name) for name in present})


def text_or_base64(raw: bytes) -> tuple[str, str]:
    """How a body is shown, and which of both it is."""
    try:
        return raw.decode(), "string"
    except UnicodeDecodeError:
        return base64.b64encode(raw).decode("ascii"), "base64"


def properties_view(props: bytes, added_headers: Mapping[str, Any] | None) -> dict[str, Any]:
    """With the headers that the queue adds on the way, which replace those of the same name."""
    found = readable_properties(props)
    headers = {**found.pop("headers", {}), **(added_headers or {})}
    shown = {name: readable(value) if isinstance(value, str) else int(value) for name, value in found.items()}
    return {**shown, "headers": to_json(headers)} if headers else shown
