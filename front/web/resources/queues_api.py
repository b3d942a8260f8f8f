"""The management API's paths about queues: to look at, to declare, to empty and to delete."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any

from broker.operations.operator import Operator
from broker.operations.resources import QueueView
from broker.records import QueueRecord
from front.node_ports import QueueMembersPort
from front.web import bodies
from front.web.access import Right
from front.web.everywhere import Everywhere, Json
from front.web.handlers import WebFront, operator, put
from front.web.listing import ListOf, listed
from front.web.refusals import bad_request
from front.web.request import Request, Response, json_response
from front.web.resources.clients_api import CONSUMERS
from front.web.router import WebRouter
from front.web.views import queue_view

QUEUES = "queues"
ASKED_AT_ONCE = 500  # queues, of one node


def _order(record: QueueRecord) -> tuple[str, str]:
    return record.vhost, record.name


def _starts(names: list[tuple[str, str]]) -> range:
    return range(0, len(names), ASKED_AT_ONCE)


class QueuesApi:
    """See the module."""

    def __init__(self, front: WebFront, everywhere: Everywhere, members: QueueMembersPort | None) -> None:
        self._front = front
        self._node = front.operations.this_node.name
        self._everywhere = everywhere
        self._members = members
        self._resources = front.operations.resources
        everywhere.add(QUEUES, self._here)

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

    def _here(self, who: Operator, names: list[tuple[str, str]]) -> Iterator[Json]:
        """What this node says of queues that live on it."""
        return (self._shown(view) for view in self._resources.views(who, names))

    # looking

    async def _get_all(self, request: Request, vhost: str | None = None) -> Response:
        who, told = operator(request), dict[tuple[str, str], Json]()

        async def ask_homes(records: list[QueueRecord]) -> None:
            told.update(await self._told_by_homes(who, records))

        def show(record: QueueRecord) -> Json | None:
            if not self._resources.is_declared(record):
                return None
            return told.get((record.vhost, record.name)) or self._shown(self._resources.view(record))

        kind = ListOf(show, _order, lambda record: record.name, ask_homes)
        return await listed(request, self._resources.queue_records(who, vhost), kind)

    async def _told_by_homes(self, who: Operator, records: Iterable[QueueRecord]) -> dict[tuple[str, str], Json]:
        """Of classic queues on other nodes; of one that does not answer there is what is known here."""
        by_home: dict[str, list[tuple[str, str]]] = {}
        for record in records:
            if record.home not in ("", self._node):
                by_home.setdefault(record.home, []).append((record.vhost, record.name))
        asked = [(home, names[at : at + ASKED_AT_ONCE]) for home, names in by_home.items() for at in _starts(names)]
        answers = await asyncio.gather(*[self._everywhere.find_on(home, QUEUES, who, names) for home, names in asked])
        return {(row["vhost"], row["name"]): row for rows in answers for row in rows or ()}

    async def _get(self, request: Request, vhost: str, queue: str) -> Response:
        who = operator(request)
        view = self._resources.queue(who, vhost, queue)
        told = await self._told_by_homes(who, [view.record])
        shown = told.get((vhost, queue)) or self._shown(view)
        consumers = await self._everywhere.find(CONSUMERS, who, vhost, queue)
        return json_response({**shown, "consumer_details": consumers.rows, "incoming": [], "deliveries": []})

    def _shown(self, view: QueueView) -> dict[str, Any]:
        rates, key = self._front.rates, view.record.id
        shown = rates.fill((QUEUES, key), queue_view(view))
        if "message_stats" in shown:
            rates.fill((QUEUES, key, "message_stats"), shown["message_stats"])
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
