"""The management API's paths about exchanges, and about what is bound to them and what they are bound to."""

from __future__ import annotations

from itertools import chain
from typing import Any

from broker.names import DEFAULT_EXCHANGE, DEFAULT_EXCHANGE_ALIAS
from broker.records import ExchangeRecord
from front.web import bodies
from front.web.access import Right
from front.web.handlers import WebFront, operator, put
from front.web.listing import ListOf, listed
from front.web.request import Request, Response, json_response
from front.web.resources.bindings_api import BINDINGS
from front.web.router import WebRouter
from front.web.views import exchange_view


class ExchangesApi:
    """See the module."""

    def __init__(self, front: WebFront) -> None:
        self._front = front
        self._resources = front.operations.resources
        self._listed = ListOf(self._shown, order=lambda one: (one.vhost, one.name), name=lambda one: one.name)

    def add_routes(self, router: WebRouter) -> None:
        router.add("GET", "/api/exchanges", self._get_all)
        router.add("GET", "/api/exchanges/{vhost}", self._get_all, Right.VHOST)
        one = "/api/exchanges/{vhost}/{exchange}"
        router.add("GET", one, self._get, Right.VHOST)
        router.add("PUT", one, self._put, Right.VHOST)
        router.add("DELETE", one, self._delete, Right.VHOST)
        router.add("GET", f"{one}/bindings/source", self._get_from, Right.VHOST)
        router.add("GET", f"{one}/bindings/destination", self._get_to, Right.VHOST)

    async def _get_all(self, request: Request, vhost: str | None = None) -> Response:
        who = operator(request)
        found = chain(self._resources.default_exchanges(who, vhost), self._resources.exchanges(who, vhost))
        return await listed(request, found, self._listed)

    async def _get(self, request: Request, vhost: str, exchange: str) -> Response:
        record = self._resources.exchange(operator(request), vhost, exchange_named(exchange))
        return json_response({**self._shown(record), "incoming": [], "outgoing": []})

    def _shown(self, record: ExchangeRecord) -> dict[str, Any]:
        policy = self._resources.policy_of_exchange(record)
        return exchange_view(record) | ({} if policy is None else {"policy": policy})

    async def _put(self, request: Request, vhost: str, exchange: str) -> Response:
        body, name = request.json_object(), exchange_named(exchange)
        existed = self._resources.exchange_exists(operator(request), vhost, name)
        with self._front.visit(request, vhost) as session:
            declared = session.topology.declare_exchange(
                name,
                bodies.text(body, "type", "direct"),
                passive=False,
                durable=bodies.flag(body, "durable"),
                auto_delete=bodies.flag(body, "auto_delete"),
                internal=bodies.flag(body, "internal"),
                arguments=bodies.table(body, "arguments"),
                now=request.now,
            )
            await self._front.done(declared)
        return put(existed)

    async def _delete(self, request: Request, vhost: str, exchange: str) -> Response:
        if_unused, name = request.asks("if-unused"), exchange_named(exchange)
        await self._front.done(self._resources.delete_exchange(operator(request), vhost, name, if_unused=if_unused))
        return Response(204)

    async def _get_from(self, request: Request, vhost: str, exchange: str) -> Response:
        name, who = exchange_named(exchange), operator(request)
        if name == DEFAULT_EXCHANGE:
            return await listed(request, self._resources.default_bindings(who, vhost), BINDINGS)
        return await listed(request, self._resources.bindings(who, vhost, source=name), BINDINGS)

    async def _get_to(self, request: Request, vhost: str, exchange: str) -> Response:
        found = self._resources.bindings(operator(request), vhost, exchange=exchange_named(exchange))
        return await listed(request, found, BINDINGS)


def exchange_named(name: str) -> str:
    """Paths cannot have the empty name of the default exchange."""
    return DEFAULT_EXCHANGE if name == DEFAULT_EXCHANGE_ALIAS else name
