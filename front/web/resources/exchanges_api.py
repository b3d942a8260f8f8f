"""The management API's paths about exchanges, and about what is bound to them and what they are bound to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from itertools import chain

from broker.names import DEFAULT_EXCHANGE, DEFAULT_EXCHANGE_ALIAS
from broker.operations.operator import Operator
from broker.records import ExchangeRecord
from front.web.everywhere import Everywhere, Json
from front.web.handlers import WebFront, operator, put
from front.web.http import bodies
from front.web.http.request import Request, Response, json_response
from front.web.lists.listing import ListOf, listed
from front.web.message_flows import MessageFlows
from front.web.resources.bindings_api import BINDINGS
from front.web.router import WebRouter
from front.web.samples.figures import SampledFigures
from front.web.samples.ranges import Ranges, ranges_asked_for
from front.web.samples.shapes import EXCHANGE
from front.web.security.access import Right
from front.web.views.declared_views import exchange_view

EXCHANGES = "exchanges"
ASKED_AT_ONCE = 500
Told = dict[tuple[str, str], list[Json]]  # what nodes say of each, by vhost and name


class ExchangesApi:
    """See the module."""

    def __init__(self, front: WebFront, everywhere: Everywhere, flows: MessageFlows) -> None:
        self._front = front
        self._resources = front.operations.resources
        self._everywhere = everywhere
        self._flows = flows
        everywhere.add(EXCHANGES, self._here)

    def add_routes(self, router: WebRouter) -> None:
        router.add("GET", "/api/exchanges", self._get_all)
        router.add("GET", "/api/exchanges/{vhost}", self._get_all, Right.VHOST)
        one = "/api/exchanges/{vhost}/{exchange}"
        router.add("GET", one, self._get, Right.VHOST)
        router.add("PUT", one, self._put, Right.VHOST)
        router.add("DELETE", one, self._delete, Right.VHOST)
        router.add("GET", f"{one}/bindings/source", self._get_from, Right.VHOST)
        router.add("GET", f"{one}/bindings/destination", self._get_to, Right.VHOST)

    async def _here(
        self, who: Operator, names: list[tuple[str, str]], asked: Ranges | None = None, one: bool = False
    ) -> AsyncIterator[Json]:
        """What clients of this node publish to these exchanges."""
        sums, book, now = await self._front.fresh.sums(), self._front.samples.exchanges, self._front.wall_ms()
        for vhost, name in self._resources.exchanges_seen(who, names):
            if one:
                book.look_at((vhost, name), now)
            row = sums.exchanges.get((vhost, name))
            if row is not None:
                yield {"vhost": vhost, "name": name, **book.figures((vhost, name), row, now, asked or {}).row()}

    async def _told(
        self, who: Operator, records: Sequence[ExchangeRecord], asked: Ranges | None = None, *, one: bool = False
    ) -> Told:
        """What all nodes say."""
        told: Told = {}
        for at in range(0, len(records), ASKED_AT_ONCE):
            names = [(record.vhost, record.name) for record in records[at : at + ASKED_AT_ONCE]]
            found = await self._everywhere.find(EXCHANGES, who, names, asked, one)
            for row in found.rows:
                told.setdefault((row["vhost"], row["name"]), []).append(row)
        return told

    async def _get_all(self, request: Request, vhost: str | None = None) -> Response:
        who, told = operator(request), Told()

        async def ask(records: list[ExchangeRecord]) -> None:
            told.update(await self._told(who, records))

        def show(record: ExchangeRecord) -> Json:
            return self._shown(record, told)

        found = chain(self._resources.default_exchanges(who, vhost), self._resources.exchanges(who, vhost))
        kind = ListOf(show, lambda one: (one.vhost, one.name), lambda one: one.name, ask)
        return await listed(request, found, kind)

    async def _get(self, request: Request, vhost: str, exchange: str) -> Response:
        who, name = operator(request), exchange_named(exchange)
        record = self._resources.exchange(who, vhost, name)
        told = await self._told(who, [record], ranges_asked_for(request), one=True)
        return json_response({**self._shown(record, told), **await self._flows.of_exchange(who, vhost, name)})

    def _shown(self, record: ExchangeRecord, told: Told) -> Json:
        policy = self._resources.policy_of_exchange(record)
        rows = told.get((record.vhost, record.name))
        traffic = {} if rows is None else {"message_stats": SampledFigures.of_nodes(rows).shown(EXCHANGE.names)}
        return exchange_view(record) | ({} if policy is None else {"policy": policy}) | traffic

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
