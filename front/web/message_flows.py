"""Which channel publishes where, and who is given what: `incoming`, `outgoing`, `publishes` and `deliveries` of one object.

Of the channels that there are now, on all nodes. What channels had done that are closed is in the sums of exchanges and queues.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

from broker.operations.operator import Operator
from broker.session.session import Session
from front.slices import made_in_slices
from front.web.everywhere import Everywhere, Json
from front.web.handlers import WebFront
from front.web.samples.figures import SampledFigures
from front.web.samples.node_samples import channel_key, deliveries_row, routes_of
from front.web.samples.shapes import DELIVERIES, ROUTE
from front.web.views.client_views import channel_details, channel_name

ROUTES, DELIVERED = "routes", "deliveries"
KEPT_MAX = 1_000  # rows that are shown of one object
Wanted = dict[str, str]  # names that rows must have: channel, exchange, queue


class MessageFlows:
    """See the module."""

    def __init__(self, front: WebFront, everywhere: Everywhere) -> None:
        self._front = front
        self._node = front.operations.this_node.name
        self._clients = front.operations.clients
        self._everywhere = everywhere
        everywhere.add(ROUTES, self._routes)
        everywhere.add(DELIVERED, self._delivered)

    # what this node says

    async def _routes(self, who: Operator, vhost: str | None, wanted: Wanted) -> AsyncIterator[Json]:
        book, now = self._front.samples.routes, self._front.wall_ms()
        async for session in self._sessions(who, vhost, wanted):
            for key, count in routes_of(session):
                names = {"exchange": key[2], "queue": key[3]}
                if _are_wanted(names, wanted):
                    figures = book.figures(key, (count,), now, {})
                    yield {**names, **self._whose(session), **figures.row()}

    async def _delivered(self, who: Operator, vhost: str | None, wanted: Wanted) -> AsyncIterator[Json]:
        book, now = self._front.samples.consumers, self._front.wall_ms()
        async for session in self._sessions(who, vhost, wanted):
            for consumer in tuple(session.consumers()):
                names, row = {"queue": consumer.queue.record.name}, deliveries_row(consumer)
                if any(row) and _are_wanted(names, wanted):
                    figures = book.figures((*channel_key(session), consumer.tag), row, now, {})
                    yield {**names, **self._whose(session), **figures.row()}

    async def _sessions(self, who: Operator, vhost: str | None, wanted: Wanted) -> AsyncIterator[Session]:
        channel = wanted.get("channel")
        async for session in made_in_slices(self._clients.channels(who, vhost)):
            if channel in (None, channel_name(session.connection, session.number)):
                yield session

    def _whose(self, session: Session) -> Json:
        return {"channel": channel_details(self._node, session), "vhost": session.vhost}

    # what is shown

    async def of_queue(self, who: Operator, vhost: str, queue: str) -> Json:
        routes = await self._found(ROUTES, who, vhost, {"queue": queue})
        delivered = await self._found(DELIVERED, who, vhost, {"queue": queue})
        return {
            "incoming": _grouped(routes, "exchange", _exchange, ROUTE.names),
            "deliveries": _grouped(delivered, "channel_details", _channel, DELIVERED_SHOWN),
        }

    async def of_exchange(self, who: Operator, vhost: str, exchange: str) -> Json:
        rows = await self._found(ROUTES, who, vhost, {"exchange": exchange})
        return {
            "incoming": _grouped([row for row in rows if not row["queue"]], "channel_details", _channel, ROUTE.names),
            "outgoing": _grouped([row for row in rows if row["queue"]], "queue", _queue, ROUTE.names),
        }

    async def of_channel(self, who: Operator, channel: str) -> Json:
        routes = await self._found(ROUTES, who, None, {"channel": channel, "queue": ""})
        delivered = await self._found(DELIVERED, who, None, {"channel": channel})
        return {
            "publishes": _grouped(routes, "exchange", _exchange, ROUTE.names),
            "deliveries": _grouped(delivered, "queue", _queue, DELIVERED_SHOWN),
        }

    async def _found(self, what: str, who: Operator, vhost: str | None, wanted: Wanted) -> list[Json]:
        return (await self._everywhere.find(what, who, vhost, wanted)).rows


DELIVERED_SHOWN = (*DELIVERIES.names, *DELIVERIES.sums)


def _exchange(row: Json) -> Json:
    return {"name": row["exchange"], "vhost": row["vhost"]}


def _queue(row: Json) -> Json:
    return {"name": row["queue"], "vhost": row["vhost"]}


def _channel(row: Json) -> Json:
    found: Json = row["channel"]
    return found


def _grouped(rows: list[Json], name: str, of: Callable[[Json], Json], shown: tuple[str, ...]) -> list[Json]:
    """Rows of the same thing are added up; those with the most traffic are shown."""
    things: dict[Any, Json] = {}
    figures: dict[Any, list[Json]] = {}
    for row in rows:
        thing = of(row)
        key = thing.get("vhost"), thing["name"]
        things[key] = thing
        figures.setdefault(key, []).append(row)
    found = [(things[key], SampledFigures.of_nodes(some)) for key, some in figures.items()]
    found.sort(key=lambda one: -one[1].counts.get(shown[0], 0))
    return [{name: thing, "stats": some.shown(shown)} for thing, some in found[:KEPT_MAX]]


def _are_wanted(names: Wanted, wanted: Wanted) -> bool:
    return all(wanted.get(name, value) == value for name, value in names.items())
