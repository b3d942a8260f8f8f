"""Paths of Leveret's own for delayed messages: which wait in an exchange or for a queue, and to cancel one of
them."""

from __future__ import annotations

from functools import partial
from typing import Any

from broker.pending import Pending
from broker.session.delayed_messages import DelayedMessage, Delayer
from broker.session.session import Session
from front.web.handlers import WebFront
from front.web.http.refusals import bad_request
from front.web.http.request import Request, Response, json_response
from front.web.resources.messages.browsing_api import LIMIT_DEFAULT, TRUNCATE_DEFAULT, browsed_view, number_asked
from front.web.router import WebRouter
from front.web.security.access import Right

DUE, PUBLISHED = "due", "published"


class DelayedApi:
    """See the module."""

    def __init__(self, front: WebFront) -> None:
        self._front = front

    def add_routes(self, router: WebRouter) -> None:
        for kind in ("exchange", "queue"):
            path = f"/api/leveret/{kind}s/{{vhost}}/{{name}}/delayed"
            router.add("GET", path, partial(self._get, kind), Right.VHOST)
            router.add("DELETE", path + "/{message}", partial(self._delete, kind), Right.VHOST)

    async def _get(self, kind: str, request: Request, vhost: str, name: str) -> Response:
        """`limit` messages: by `order`, those that are due next, or those published behind the one with the id `after`."""
        truncate = number_asked(request, "truncate", TRUNCATE_DEFAULT)
        with self._front.visit(request, vhost) as session:
            found = await self._front.done(_waiting(session, Delayer(kind, name), request))
        return json_response([delayed_view(one, truncate) for one in found])

    async def _delete(self, kind: str, request: Request, vhost: str, name: str, message: str) -> Response:
        with self._front.visit(request, vhost) as session:
            await self._front.done(session.delayed.cancel(Delayer(kind, name), message, request.now))
        return Response(204)


def _waiting(session: Session, delayer: Delayer, request: Request) -> Pending[list[DelayedMessage]]:
    limit, after = number_asked(request, "limit", LIMIT_DEFAULT), request.asked("after")
    order = request.asked("order") or (PUBLISHED if after else DUE)
    if order == PUBLISHED:
        return session.delayed.published_after(delayer, after or "", limit, request.now)
    if order != DUE or after:
        raise bad_request(f"'order' is '{DUE}', or '{PUBLISHED}' which 'after' goes with, not {order!r}")
    return session.delayed.next_due(delayer, limit, request.now)


def delayed_view(one: DelayedMessage, truncate: int) -> dict[str, Any]:
    return {"id": one.id, "due_ms": one.due_ms, **browsed_view(one.message, truncate)}
