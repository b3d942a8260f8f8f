"""The management API's paths about queues: to look at, to declare, to empty and to delete."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any

from broker.operations.operator import Operator
from broker.operations.resources import QueueView
from broker.queues.queue_type import QueueStatistics
from broker.records import QueueRecord
from front.far_looks import look_at
from front.node_ports import QueueMembersPort
from front.slices import made_in_slices
from front.web.everywhere import Everywhere, Json
from front.web.handlers import WebFront, operator, put
from front.web.http import bodies
from front.web.http.refusals import bad_request
from front.web.http.request import Request, Response, json_response
from front.web.lists.listing import ListOf, listed
from front.web.lists.queue_order import OrderedQueues, is_in_catalog, is_rate, is_traffic, queue_order, value_of
from front.web.message_flows import MessageFlows
from front.web.resources.clients_api import CONSUMERS
from front.web.router import WebRouter
from front.web.samples.figures import SampledFigures
from front.web.samples.node_samples import counts_row
from front.web.samples.ranges import Ranges, ranges_asked_for
from front.web.samples.shapes import HANDED_OUT, MESSAGE_RATES, QUEUE
from front.web.security.access import Right
from front.web.views.client_views import since
from front.web.views.declared_views import queue_view

QUEUES, TRAFFIC, VALUES, MANY_VALUES = "queues", "traffic of queues", "values of queues", "many values of queues"
TRAFFIC_SHOWN = (*QUEUE.parts[MESSAGE_RATES], *HANDED_OUT)
ASKED_AT_ONCE = 500  # queues, of one node
VALUES_IN_A_ROW = 1_000


def _starts(names: list[tuple[str, str]]) -> range:
    return range(0, len(names), ASKED_AT_ONCE)


class Told:
    """What other nodes have said of queues, by vhost and name."""

    def __init__(self) -> None:
        self.shown: dict[tuple[str, str], Json] = {}  # whole, by their homes
        self.traffic: dict[tuple[str, str], list[SampledFigures]] = {}  # of clients of these nodes

    def add(self, what: str, rows: Iterable[Json]) -> None:
        for row in rows:
            key = (row["vhost"], row["name"])
            if what == QUEUES:
                self.shown[key] = row
            else:
                self.traffic.setdefault(key, []).append(SampledFigures.of_nodes([row]))

    def update(self, other: Told) -> None:
        self.shown.update(other.shown)
        self.traffic.update(other.traffic)


class QueuesApi:
    """See the module."""

    def __init__(
        self, front: WebFront, everywhere: Everywhere, flows: MessageFlows, members: QueueMembersPort | None
    ) -> None:
        self._front = front
        self._flows = flows
        self._node = front.operations.this_node.name
        self._everywhere = everywhere
        self._members = members
        self._resources = front.operations.resources
        self._ordered = OrderedQueues()
        everywhere.add(QUEUES, self._here)
        everywhere.add(TRAFFIC, self._traffic)
        everywhere.add(VALUES, self._values)
        everywhere.add(MANY_VALUES, self._many_values)

    def add_routes(self, router: WebRouter) -> None:
        router.add("GET", "/api/queues", self._get_all)
        router.add("GET", "/api/queues/detailed", self._get_all)
        router.add("GET", "/api/queues/{vhost}", self._get_all, Right.VHOST)
        one = "/api/queues/{vhost}/{queue}"
        router.add("GET", one, self._get, Right.VHOST)
        router.add("PUT", one, self._put, Right.VHOST)
        router.add("DELETE", one, self._delete, Right.VHOST)
        router.add("DELETE", f"{one}/contents", self._purge, Right.VHOST)
        router.add("POST", f"{one}/actions", self._act, Right.ADMINISTRATOR)

    def _here(
        self, who: Operator, names: list[tuple[str, str]], asked: Ranges | None = None, one: bool = False
    ) -> Iterator[Json]:
        """What this node says of queues that live on it. `one`: somebody looks at it by itself."""
        return (
            self._shown(view, self._figures(view, asked or {}, one=one)) for view in self._resources.views(who, names)
        )

    def _traffic(
        self, who: Operator, names: list[tuple[str, str]], asked: Ranges | None = None, one: bool = False
    ) -> Iterator[Json]:
        """What clients of this node have published to replicated queues and consumed from them."""
        for view in self._resources.views(who, names):
            figures = self._figures(view, asked or {}, one=one).only(TRAFFIC_SHOWN)
            yield {"vhost": view.record.vhost, "name": view.record.name, **figures.row()}

    def _figures(self, view: QueueView, asked: Ranges, *, one: bool) -> SampledFigures:
        book, key, now = self._front.samples.queues, view.record.id, self._front.wall_ms()
        if one:
            book.look_at(key, now)
        return book.figures(key, counts_row(view.figures or QueueStatistics()), now, asked)

    # looking

    async def _get_all(self, request: Request, vhost: str | None = None) -> Response:
        who, told = operator(request), Told()

        async def ask_homes(records: list[QueueRecord]) -> None:
            told.update(await self._told(who, records))

        def show(record: QueueRecord) -> Json | None:
            return self._told_or_shown(record, told) if self._resources.is_declared(record) else None

        async def value(column: str) -> Callable[[QueueRecord], Any] | None:
            return await self._value(who, vhost, column)

        kind = ListOf(show, queue_order, lambda record: record.name, ask_homes, value, is_sorted=True)
        return await listed(request, await self._ordered.records(self._resources, who, vhost), kind)

    async def _value(self, who: Operator, vhost: str | None, column: str) -> Callable[[QueueRecord], Any] | None:
        """Rates and what clients have done a classic queue's home knows, and of a replicated one each node what its own have.
        How many messages a classic queue has, and the like, its home has told every node a moment ago: that will do."""
        if column == "node":
            await look_at(self._resources, None)
            return self._home
        here = value_of(column, self._front)
        if here is None or is_in_catalog(column):
            return here
        if not is_traffic(column):
            await look_at(self._resources, None)
            if not is_rate(column):
                return here
        known = here
        told: dict[int, Any] = {}
        for node, rows in (await self._everywhere.find_each(MANY_VALUES, who, vhost, column)).items():
            async for row in made_in_slices(iter(rows or await self._values_of_older(node, who, vhost, column))):
                for id_, value in zip(row["ids"], row["values"], strict=True):
                    told[id_] = told[id_] + value if id_ in told else value

        def figure(record: QueueRecord) -> Any:
            if record.id not in told:
                return known(record)
            return told[record.id] if record.kind == "classic" else known(record) + told[record.id]

        return figure

    def _home(self, record: QueueRecord) -> str:
        places = self._members.places(record) if self._members is not None and record.kind != "classic" else None
        return record.home if places is None else places.leader

    async def _values_of_older(self, node: str, who: Operator, vhost: str | None, column: str) -> list[Json]:
        """Of a node that does not know how many are told at once: with each change of version there is one for a while."""
        rows = await self._everywhere.find_elsewhere(VALUES, who, vhost, column, node=node)
        return [{"ids": [row["id"]], "values": [row["value"]]} for row in rows]

    async def _many_values(self, who: Operator, vhost: str | None, column: str) -> AsyncIterator[Json]:
        """What queues are sorted by, as far as this node adds to it. A row in any case: one of an older version has none."""
        value, of_clients = value_of(column, self._front), is_traffic(column)
        ids: list[int] = []
        values: list[Any] = []
        records = iter(()) if value is None else self._resources.queue_records(who, vhost)
        async for record in made_in_slices(records):
            if value is not None and (record.home == self._node if record.kind == "classic" else of_clients):
                ids.append(record.id)
                values.append(value(record))
                if len(ids) == VALUES_IN_A_ROW:
                    yield {"ids": ids, "values": values}
                    ids, values = [], []
        yield {"ids": ids, "values": values}

    async def _values(self, who: Operator, vhost: str | None, column: str) -> AsyncIterator[Json]:
        """The same for nodes of older versions, one by one."""
        async for row in self._many_values(who, vhost, column):
            for id_, value in zip(row["ids"], row["values"], strict=True):
                yield {"id": id_, "value": value}

    async def _get(self, request: Request, vhost: str, queue: str) -> Response:
        who = operator(request)
        record = self._resources.queue(who, vhost, queue).record
        asked = ranges_asked_for(request)
        told = await self._told(who, [record], asked, one=True)
        consumers = await self._everywhere.find(CONSUMERS, who, vhost, queue)
        shown = self._told_or_shown(record, told, asked, one=True)
        flows = await self._flows.of_queue(who, vhost, queue)
        return json_response({**shown, "consumer_details": consumers.rows, **flows, **self._conversion(record)})

    def _conversion(self, record: QueueRecord) -> Json:
        found = self._front.operations.conversions.under_way(record)
        if found is None:
            return {}
        return {"conversion": {"messages": found.messages, "copied": found.copied, "waits_for": found.waits_for}}

    def _told_or_shown(
        self, record: QueueRecord, told: Told, asked: Ranges | None = None, *, one: bool = False
    ) -> Json:
        key = (record.vhost, record.name)
        if key in told.shown:
            return told.shown[key]
        view = self._resources.view(record)
        figures = self._figures(view, asked or {}, one=one)
        for traffic in told.traffic.get(key, ()):
            figures = figures.with_those_of(traffic)
        return self._shown(view, figures)

    async def _told(
        self, who: Operator, records: Sequence[QueueRecord], asked: Ranges | None = None, *, one: bool = False
    ) -> Told:
        """Of a home that does not answer there is what is known here."""
        of_nodes: dict[tuple[str | None, str], list[tuple[str, str]]] = {}
        replicated: list[QueueRecord] = []
        async for record in made_in_slices(iter(records)):
            if record.kind != "classic":
                replicated.append(record)
                of_nodes.setdefault((None, TRAFFIC), []).append((record.vhost, record.name))
            elif record.home not in ("", self._node):
                of_nodes.setdefault((record.home, QUEUES), []).append((record.vhost, record.name))
        questions = [(to, names[at : at + ASKED_AT_ONCE]) for to, names in of_nodes.items() for at in _starts(names)]
        answers = [
            self._everywhere.find_elsewhere(what, who, names, asked, one, node=node)
            for (node, what), names in questions
        ]
        looked = look_at(self._resources, replicated)
        _, found = await asyncio.gather(looked, asyncio.gather(*answers))
        told = Told()
        for ((_, what), _), rows in zip(questions, found, strict=True):
            told.add(what, rows)
        return told

    def _shown(self, view: QueueView, figures: SampledFigures) -> Json:
        shown = queue_view(view, figures) | since(self._front.samples.queues.idle_since(view.record.id))
        if view.record.kind == "stream":  # each node knows its own
            shown["readers"] = {self._node: len(shown.get("reader_details", ()))}
        places = self._members.places(view.record) if self._members is not None else None
        if places is None:
            return shown
        where = {"leader": places.leader, "members": places.members, "online": places.online}
        return {**shown, "node": places.leader, **where}

    async def _put(self, request: Request, vhost: str, queue: str) -> Response:
        body = request.json_object()
        self._check_node(bodies.text(body, "node", ""))
        existed = self._resources.queue_exists(operator(request), vhost, queue)
        with self._front.visit(request, vhost) as session:
            declared = session.topology.declare_queue(
                queue,
                passive=False,
                durable=bodies.flag(body, "durable"),
                exclusive=False,
                auto_delete=bodies.flag(body, "auto_delete"),
                arguments=bodies.table(body, "arguments"),
                now=request.now,
            )
            await self._front.done(declared)
        return put(existed)

    def _check_node(self, name: str) -> None:
        """Which node a queue lives on is decided as for every client; a node that is none is a mistake."""
        if name and name not in self._front.operations.this_node.node_names():
            raise bad_request(f"Node {name} is not a cluster member")

    async def _delete(self, request: Request, vhost: str, queue: str) -> Response:
        conditions = {"if_unused": request.asks("if-unused"), "if_empty": request.asks("if-empty")}
        deleted = self._resources.delete_queue(operator(request), vhost, queue, **conditions, now=request.now)
        await self._front.done(deleted)
        return Response(204)

    async def _purge(self, request: Request, vhost: str, queue: str) -> Response:
        with self._front.visit(request, vhost) as session:
            await self._front.done(session.topology.purge_queue(queue, request.now))
        return Response(204)

    async def _act(self, request: Request, vhost: str, queue: str) -> Response:
        body = request.json_object()
        raise bad_request(f"there is no action {bodies.text(body, 'action')!r} for a queue")
