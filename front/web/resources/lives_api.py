"""A path of Leveret's own that tells the life of a message, as the logs of the nodes have it: from its publisher to its end.

It shows clients of others, as lists of connections do, and what only those know who may take messages from the queue: so it
asks for the tag `monitoring` and for the permission to read from the queue. Bodies are in no answer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from broker.broker import Broker
from broker.errors import PreconditionFailed
from front.node_ports import LivesFound, MessageLivesPort
from front.web.everywhere import MISSING_NODES, Json
from front.web.handlers import WebFront
from front.web.http import bodies
from front.web.http.refusals import bad_request
from front.web.http.request import Request, Response, json_response
from front.web.router import WebRouter
from front.web.security.access import Right

BY = ("message_id", "correlation_id", "place", "body_sha256")
VALUE_BYTES_MAX = 255
PLACE_PARTS = (1, 3)  # a sequence; entry, run and how manieth
DIGEST_DIGITS = 64
HEXADECIMAL = frozenset("0123456789abcdefABCDEF")
OF_A_STREAM = "is a stream: its messages stay where they are, and the log does not say who read them. Browse it instead"


class LivesApi:
    """See the module."""

    def __init__(self, front: WebFront, lives: MessageLivesPort | None) -> None:
        self._front = front
        self._broker: Broker = front.broker
        self._lives = lives

    def add_routes(self, router: WebRouter) -> None:
        router.add("POST", "/api/leveret/queues/{vhost}/{queue}/life", self._post, Right.VHOST_MONITORING)

    async def _post(self, request: Request, vhost: str, queue: str) -> Response:
        if self._lives is None:
            raise PreconditionFailed("this node does not search its log for messages: leveret-analytics does")
        by, value = _sought(request.json_object())
        with self._front.visit(request, vhost) as session:
            record = session.topology.readable(queue).queue.record
        if record.kind == "stream":
            raise PreconditionFailed(f"{record.label} {OF_A_STREAM}")
        self._broker.audit.changed("FindMessageLife", f"look for messages of {record.label} by {by} in the log")
        found = await self._lives.find(record.id, by, value)
        silent = ",".join(one.node for one in found.nodes if one.error)
        headers = ((MISSING_NODES, silent),) if silent else ()
        return replace(json_response(_view(found, vhost)), headers=headers)


def _sought(body: dict[str, Any]) -> tuple[str, str]:
    """By what, and its value. Raises HttpError."""
    given = [name for name in BY if body.get(name) is not None]
    if len(given) != 1:
        raise bad_request(f"give one of {', '.join(BY)}, not {len(given)} of them")
    value = bodies.text(body, given[0])
    if not 0 < len(value.encode("utf-8", "replace")) <= VALUE_BYTES_MAX:
        raise bad_request(f"'{given[0]}' has {len(value)} characters: 1 to {VALUE_BYTES_MAX} bytes are looked for")
    if given[0] == "place" and not _is_place(value):
        raise bad_request(f"'place' is {value!r}: write 17, or 17/9/0 in a quorum queue, as the answer says it")
    if given[0] == "body_sha256" and not (len(value) == DIGEST_DIGITS and set(value) <= HEXADECIMAL):
        raise bad_request(f"'body_sha256' is {value!r}: it has {DIGEST_DIGITS} hexadecimal digits")
    return given[0], value


def _is_place(text: str) -> bool:
    parts = text.split("/")
    return len(parts) in PLACE_PARTS and all(part.isascii() and part.isdigit() and len(part) < 19 for part in parts)


def _view(found: LivesFound, vhost: str) -> Json:
    names = {life["queue"]: life["name"].removeprefix(f"{vhost}/") for life in found.lives}
    return {
        "lives": [_life(life, vhost, names) for life in found.lives],
        "nodes": [one._asdict() for one in found.nodes],
        "more": found.more,
    }


def _life(life: Json, vhost: str, names: dict[int, str]) -> Json:
    """Dead letters stay within their vhost."""

    def place(one: Json | None) -> Json | None:
        return None if one is None else {"queue": names[one["queue"]], "place": _text(one["place"])}

    shown = {name: value for name, value in life.items() if name not in ("position", "name")}
    return {
        **shown,
        "vhost": vhost,
        "queue": names[life["queue"]],
        "place": _text(life["place"]),
        "was": place(life["was"]),
        "became": [place(one) for one in life["became"]],
    }


def _text(place: list[int]) -> str:
    return "/".join(map(str, place))
