"""From the oracle's words to frames: `queue.bind queue=q exchange=x x-match=all` and the like."""

from __future__ import annotations

from typing import Any

from tests.security import wire
from wire.amqp import spec


def frames_of(channel: int, request: str) -> bytes:
    """The frames of all methods of a request, in order."""
    return b"".join(_frames(channel, *step.split()) for step in request.split(";"))


def _frames(channel: int, name: str, *words: str) -> bytes:
    kinds = {part: step.kind for step in spec.METHODS[name].steps for part in step.names}
    arguments: dict[str, Any] = {}
    table: dict[str, Any] = {}
    headers: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            arguments[key] = True
        elif key in ("CC", "BCC"):
            headers[key] = value.split(",")
        elif key in kinds:
            arguments[key] = value if kinds[key] == "shortstr" else int(value)
        else:
            table[key] = int(value) if value.isdecimal() else value
    if name == "basic.publish":
        return wire.publish(
            channel, arguments.pop("exchange"), arguments.pop("routing_key"), headers=headers, **arguments
        )
    if table:
        arguments["arguments"] = table
    return wire.method(channel, name, **arguments)
