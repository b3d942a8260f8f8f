"""Paths of Leveret's own that have a classic queue become a quorum queue: dry runs, progress, and to end it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from broker.json_values import to_json
from broker.operations.queue_conversions import ConversionView
from front.web.handlers import WebFront, operator
from front.web.http import bodies
from front.web.http.request import Request, Response, json_response
from front.web.router import WebRouter
from front.web.security.access import Right


class ConversionsApi:
    """See the module."""

    def __init__(self, front: WebFront) -> None:
        self._front = front
        self._conversions = front.operations.conversions

    def add_routes(self, router: WebRouter) -> None:
        path = "/api/leveret/queues/{vhost}/{queue}/conversion"
        router.add("GET", path, self._get, Right.VHOST)
        router.add("POST", path, self._post, Right.VHOST)
        router.add("DELETE", path, self._delete, Right.VHOST)

    async def _get(self, request: Request, vhost: str, queue: str) -> Response:
        return json_response(conversion_view(self._conversions.progress(operator(request), vhost, queue)))

    async def _post(self, request: Request, vhost: str, queue: str) -> Response:
        who = operator(request)
        if bodies.flag(request.json_object(), "dry_run"):
            return json_response(conversion_view(self._conversions.plan(who, vhost, queue)))
        begun = await self._front.done(self._conversions.begin(who, vhost, queue))
        return json_response(conversion_view(begun), 202)

    async def _delete(self, request: Request, vhost: str, queue: str) -> Response:
        await self._front.done(self._conversions.cancel(operator(request), vhost, queue))
        return Response(204)


def conversion_view(one: ConversionView) -> dict[str, Any]:
    return {**asdict(one), "arguments": to_json(one.arguments)}
