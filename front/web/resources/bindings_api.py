"""The management API's paths about bindings: between an exchange and a queue (e/q), or two exchanges (e/e)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any
from urllib.parse import quote

from broker.errors import NotFound
from broker.names import DEFAULT_EXCHANGE, DEFAULT_EXCHANGE_ALIAS
from broker.operations.resources import default_binding
from broker.pending import Pending
from broker.records import BindingRecord
from broker.session.session import Session
from front.slices import made_in_slices
from front.web.handlers import WebFront, operator
from front.web.http import bodies
from front.web.http.refusals import missing
from front.web.http.request import HttpError, Request, Response, json_response
from front.web.lists.listing import ListOf, listed
from front.web.router import WebRouter
from front.web.security.access import Right
from front.web.views.binding_keys import properties_key
from front.web.views.declared_views import binding_view

KINDS = {"q": "queue", "e": "exchange"}


def _order(one: BindingRecord) -> tuple[str, ...]:
    return one.vhost, one.source, one.destination, one.routing_key, properties_key(one), one.destination_kind


BINDINGS = ListOf(binding_view, order=_order, name=lambda one: one.source)


class BindingsApi:
    """See the module."""

    def __init__(self, front: WebFront) -> None:
        self._front = front
        self._resources = front.operations.resources

    def add_routes(self, router: WebRouter) -> None:
        router.add("GET", "/api/bindings", self._get_all)
        router.add("GET", "/api/bindings/{vhost}", self._get_all, Right.VHOST)
        router.add("GET", "/api/queues/{vhost}/{queue}/bindings", self._get_of_queue, Right.VHOST)
        pair = "/api/bindings/{vhost}/e/{source}/{kind}/{destination}"
        router.add("GET", pair, self._get_between, Right.VHOST)
        router.add("POST", pair, self._post, Right.VHOST)
        one = f"{pair}/{{key}}"
        router.add("GET", one, self._get, Right.VHOST)
        router.add("DELETE", one, self._delete, Right.VHOST)

    async def _get_all(self, request: Request, vhost: str | None = None) -> Response:
        who = operator(request)
        found = chain(self._resources.default_bindings(who, vhost), self._resources.bindings(who, vhost))
        return await listed(request, found, BINDINGS)

    async def _get_of_queue(self, request: Request, vhost: str, queue: str) -> Response:
        declared = self._resources.bindings(operator(request), vhost, queue=queue)
        return await listed(request, chain([default_binding(vhost, queue)], declared), BINDINGS)

    async def _get_between(self, request: Request, vhost: str, source: str, kind: str, destination: str) -> Response:
        return await listed(request, self._between(request, vhost, source, kind, destination), BINDINGS)

    async def _get(self, request: Request, vhost: str, source: str, kind: str, destination: str, key: str) -> Response:
        return json_response(binding_view(await self._one(request, vhost, source, kind, destination, key)))

    async def _post(self, request: Request, vhost: str, source: str, kind: str, destination: str) -> Response:
        body = request.json_object()
        record = BindingRecord(
            vhost,
            _source(source),
            destination,
            _kind(kind),
            bodies.text(body, "routing_key", ""),
            bodies.table(body, "arguments"),
        )
        with self._front.visit(request, vhost) as session:
            await self._front.done(_bound(session, record, request.now))
        location = f"{quote(destination, safe='')}/{quote(properties_key(record), safe='~')}"
        return Response(201, headers=(("Location", location),))

    async def _delete(
        self, request: Request, vhost: str, source: str, kind: str, destination: str, key: str
    ) -> Response:
        record = await self._one(request, vhost, source, kind, destination, key)
        with self._front.visit(request, vhost) as session:
            await self._front.done(_unbound(session, record, request.now))
        return Response(204)

    def _between(
        self, request: Request, vhost: str, source: str, kind: str, destination: str
    ) -> Iterator[BindingRecord]:
        source, to = _source(source), {_kind(kind): destination}
        if source == DEFAULT_EXCHANGE:
            queue = to.get("queue")
            return iter([default_binding(vhost, queue)] if queue is not None else [])
        return self._resources.bindings(operator(request), vhost, source=source, **to)

    async def _one(
        self, request: Request, vhost: str, source: str, kind: str, destination: str, key: str
    ) -> BindingRecord:
        """There may be many between the two, and each is asked for its key."""
        async for record in made_in_slices(self._between(request, vhost, source, kind, destination)):
            if properties_key(record) == key:
                return record
        raise missing(f"no binding '{key}' between '{source}' and '{destination}' in vhost '{vhost}'")


def _source(name: str) -> str:
    return DEFAULT_EXCHANGE if name == DEFAULT_EXCHANGE_ALIAS else name


def _kind(letter: str) -> str:
    """Raises HttpError."""
    if letter not in KINDS:
        raise missing(f"bindings lead to q or e, not to {letter!r}")
    return KINDS[letter]


def _bound(session: Session, record: BindingRecord, now: int) -> Pending[Any]:
    bind = session.topology.bind_queue if record.destination_kind == "queue" else session.topology.bind_exchange
    try:
        return bind(record.destination, record.source, record.routing_key, record.arguments, now)
    except NotFound as error:
        raise HttpError(404, "not_found", error.text) from error


def _unbound(session: Session, record: BindingRecord, now: int) -> Pending[Any]:
    unbind = session.topology.unbind_queue if record.destination_kind == "queue" else session.topology.unbind_exchange
    return unbind(record.destination, record.source, record.routing_key, record.arguments, now)
