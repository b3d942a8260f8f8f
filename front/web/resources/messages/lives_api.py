"""A path of Leveret's own that tells the life of a message, as the logs of the nodes have it: front/message_lives.py."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from front.message_lives import BY, MessageLives
from front.web.everywhere import MISSING_NODES
from front.web.handlers import WebFront, operator
from front.web.http import bodies
from front.web.http.refusals import bad_request
from front.web.http.request import Request, Response, json_response
from front.web.router import WebRouter
from front.web.security.access import Right


class LivesApi:
    """See the module."""

    def __init__(self, front: WebFront, lives: MessageLives) -> None:
        self._front = front
        self._lives = lives

    def add_routes(self, router: WebRouter) -> None:
        router.add("POST", "/api/leveret/queues/{vhost}/{queue}/life", self._post, Right.VHOST_MONITORING)

    async def _post(self, request: Request, vhost: str, queue: str) -> Response:
        by, value = _sought(request.json_object())
        with self._front.visit(request, vhost) as session:
            found = await self._lives.find(operator(request), session, queue, by, value)
        silent = ",".join(one["node"] for one in found["nodes"] if one["error"])
        return replace(json_response(found), headers=((MISSING_NODES, silent),) if silent else ())


def _sought(body: dict[str, Any]) -> tuple[str, str]:
    """By what, and its value. Raises HttpError."""
    given = [name for name in BY if body.get(name) is not None]
    if len(given) != 1:
        raise bad_request(f"give one of {', '.join(BY)}, not {len(given)} of them")
    return given[0], bodies.text(body, given[0])
