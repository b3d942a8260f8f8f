"""The management API's paths about clients of the whole cluster: connections of every protocol, channels and consumers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

from broker.client_connection import Connection
from broker.errors import NotFound
from broker.operations.operator import Operator
from broker.session.session import Session
from front.slices import made_in_slices
from front.web.everywhere import ClusterRows, Everywhere, Json
from front.web.handlers import WebFront, operator
from front.web.http.refusals import bad_request, missing
from front.web.http.request import HttpError, Request, Response, json_response
from front.web.lists.listing import ListOf, listed
from front.web.message_flows import MessageFlows
from front.web.router import WebRouter
from front.web.samples.node_sums import session_row
from front.web.samples.ranges import Ranges, ranges_asked_for
from front.web.security.access import Right
from front.web.views.client_views import channel_name, channel_view, connection_view, consumer_view, since
from front.web.views.message_stats import with_details
from front.whole_number import whole_number

CLOSED_OVER_HTTP = "Closed via management plugin"  # RabbitMQ's words, where the request has no X-Reason
CONNECTIONS, CHANNELS, CONSUMERS, CLOSE = "connections", "channels", "consumers", "close connection"
CONNECTION, CHANNEL = "connection", "channel"  # one, by its name
CANCEL_CONSUMER = "cancel consumer"
HELD_UP = ("blocked", "blocking", "flow")  # states of connections
DIGITS_MAX = 5  # of a channel's number
BRIEF = ("name", "vhost", "user", "node")


def shown(row: Json) -> Json:
    return row


NAMED: ListOf[Json] = ListOf(shown, order=lambda row: (row["vhost"], row["name"]), name=lambda row: row["name"])
LISTED_CONSUMERS: ListOf[Json] = ListOf(
    shown,
    order=lambda row: (
        row["queue"]["vhost"],
        row["queue"]["name"],
        row["channel_details"]["name"],
        row["consumer_tag"],
    ),
    name=lambda row: row["consumer_tag"],
)


class ClientsApi:
    """See the module."""

    def __init__(self, front: WebFront, everywhere: Everywhere, flows: MessageFlows) -> None:
        self._front = front
        self._flows = flows
        self._clients = front.operations.clients
        self._node = front.operations.this_node.name
        self._everywhere = everywhere
        everywhere.add(CONNECTIONS, self._connections)
        everywhere.add(CHANNELS, self._channels)
        everywhere.add(CONSUMERS, self._consumers)
        everywhere.add(CONNECTION, self._connection_named)
        everywhere.add(CHANNEL, self._channel_named)
        everywhere.add(CLOSE, self._close)
        everywhere.add(CANCEL_CONSUMER, self._cancel)

    def add_routes(self, router: WebRouter) -> None:
        router.add("GET", "/api/connections", self._get_connections)
        router.add("GET", "/api/vhosts/{vhost}/connections", self._get_connections, Right.VHOST)
        router.add("GET", "/api/connections/username/{user}", self._get_of_user)
        router.add("DELETE", "/api/connections/username/{user}", self._delete_of_user)
        one = "/api/connections/{connection}"
        router.add("GET", one, self._get_connection)
        router.add("DELETE", one, self._delete_connection)
        router.add("GET", f"{one}/channels", self._get_channels_of)
        router.add("GET", f"{one}/sessions", self._get_sessions_of)
        router.add("GET", "/api/channels", self._get_channels)
        router.add("GET", "/api/vhosts/{vhost}/channels", self._get_channels, Right.VHOST)
        router.add("GET", "/api/channels/{channel}", self._get_channel)
        router.add(
            "DELETE", "/api/leveret/connections/{connection}/channels/{number}/consumers/{tag}", self._cancel_consumer
        )
        router.add("GET", "/api/leveret/blocked-connections", self._get_blocked)
        router.add("GET", "/api/consumers", self._get_consumers)
        router.add("GET", "/api/consumers/{vhost}", self._get_consumers, Right.VHOST)

    # what this node says

    def _connections(self, who: Operator, vhost: str | None) -> Iterator[Json]:
        return (self._connection_shown(one, {}) for one in self._clients.connections(who, vhost))

    async def _connection_named(self, who: Operator, name: str, asked: Ranges) -> AsyncIterator[Json]:
        """For somebody who looks at it by itself."""
        async for one in made_in_slices(self._clients.connections(who)):
            if one.name == name:
                self._front.samples.connections.look_at(one.id, self._front.wall_ms())
                yield self._connection_shown(one, asked)

    def _connection_shown(self, one: Connection, asked: Ranges) -> Json:
        shown = connection_view(self._node, one)
        row = shown["recv_oct"], shown["send_oct"]
        figures = self._front.samples.connections.figures(one.id, row, self._front.wall_ms(), asked)
        return with_details(shown, figures)

    def _channels(self, who: Operator, vhost: str | None) -> Iterator[Json]:
        return (self._channel_shown(one, {}) for one in self._clients.channels(who, vhost))

    async def _channel_named(self, who: Operator, name: str, asked: Ranges) -> AsyncIterator[Json]:
        """For somebody who looks at it by itself."""
        async for one in made_in_slices(self._clients.channels(who)):
            if channel_name(one.connection, one.number) == name:
                self._front.samples.channels.look_at((one.connection.id, one.number), self._front.wall_ms())
                yield self._channel_shown(one, asked)

    def _channel_shown(self, one: Session, asked: Ranges) -> Json:
        shown, key = channel_view(self._node, one), (one.connection.id, one.number)
        row, now = session_row(one.counters), self._front.wall_ms()
        with_details(shown["message_stats"], self._front.samples.channels.figures(key, row, now, asked))
        return shown | since(self._front.samples.channels.idle_since(key))

    def _consumers(self, who: Operator, vhost: str | None, queue: str | None = None) -> Iterator[Json]:
        return (consumer_view(self._node, one) for one in self._clients.consumers(who, vhost, queue))

    def _close(self, who: Operator, name: str, reason: str) -> Iterator[Json]:
        """A row says that there was one."""
        self._clients.close_connection(who, name, reason)
        self._front.broker.end_turn()
        return iter([{"name": name}])

    # connections

    async def _get_connections(self, request: Request, vhost: str | None = None) -> Response:
        return await self._listed(request, CONNECTIONS, vhost, NAMED)

    async def _listed(self, request: Request, what: str, vhost: str | None, kind: ListOf[Json]) -> Response:
        found = await self._everywhere.find(what, operator(request), vhost)
        response = await listed(request, found.rows, kind)
        return replace(response, headers=found.headers())

    async def _get_connection(self, request: Request, connection: str) -> Response:
        return json_response(await self._one(request, CONNECTION, connection))

    async def _one(self, request: Request, what: str, name: str) -> Json:
        found = await self._everywhere.find(what, operator(request), name, ranges_asked_for(request))
        if found.rows:
            return found.rows[0]
        raise _not_seen(what, name, found)

    async def _delete_connection(self, request: Request, connection: str) -> Response:
        await self._close_everywhere(request, connection)
        return Response(204)

    async def _close_everywhere(self, request: Request, name: str) -> None:
        """By the node that it is open on; its name, or its id on this node."""
        who, reason = operator(request), request.headers.get(b"x-reason", b"").decode("utf-8", "replace")
        reason = reason or CLOSED_OVER_HTTP
        try:
            self._close(who, name, reason)
        except NotFound:
            found = await self._everywhere.find(CONNECTION, who, name, {})
            nodes = {row["node"] for row in found.rows} - {self._node}
            closed = [await self._everywhere.find_on(node, CLOSE, who, name, reason) for node in nodes]
            if not any(closed):
                raise _not_seen(CONNECTION, name, found) from None

    async def _get_of_user(self, request: Request, user: str) -> Response:
        found = await self._everywhere.find(CONNECTIONS, operator(request), None)
        rows = [{name: row[name] for name in BRIEF} for row in found.rows if row["user"] == user]
        return await listed(request, rows, NAMED)

    async def _delete_of_user(self, request: Request, user: str) -> Response:
        """One that goes by itself meanwhile keeps nobody from closing the others."""
        found = await self._everywhere.find(CONNECTIONS, operator(request), None)
        names = [row["name"] for row in found.rows if row["user"] == user]
        refusals = []
        for name in names:
            try:
                await self._close_everywhere(request, name)
            except HttpError as error:
                refusals.append(error)
        if names and len(refusals) == len(names):
            raise refusals[0]
        return Response(204)

    # channels and consumers

    async def _get_channels(self, request: Request, vhost: str | None = None) -> Response:
        return await self._listed(request, CHANNELS, vhost, NAMED)

    async def _get_channels_of(self, request: Request, connection: str) -> Response:
        await self._one(request, CONNECTION, connection)
        found = await self._everywhere.find(CHANNELS, operator(request), None)
        rows = [row for row in found.rows if row["connection_details"]["name"] == connection]
        return await listed(request, rows, NAMED)

    async def _get_sessions_of(self, request: Request, connection: str) -> Response:
        """Of AMQP 1.0, which nobody speaks here."""
        await self._one(request, CONNECTION, connection)
        raise bad_request(f"connection '{connection}' does not use AMQP 1.0")

    async def _get_channel(self, request: Request, channel: str) -> Response:
        row = await self._one(request, CHANNEL, channel)
        found = await self._everywhere.find(CONSUMERS, operator(request), None)
        consumers = [one for one in found.rows if one["channel_details"]["name"] == channel]
        flows = await self._flows.of_channel(operator(request), channel)
        return json_response({**row, "consumer_details": consumers, **flows})

    async def _get_consumers(self, request: Request, vhost: str | None = None) -> Response:
        return await self._listed(request, CONSUMERS, vhost, LISTED_CONSUMERS)

    def _cancel(self, who: Operator, connection: str, channel: int, tag: str) -> list[Json]:
        self._clients.cancel_consumer(who, connection, channel, tag, self._front.wall_ms())
        self._front.broker.end_turn()
        return [{"cancelled": tag}]

    async def _cancel_consumer(self, request: Request, connection: str, number: str, tag: str) -> Response:
        """On whichever node it consumes."""
        who, channel = operator(request), whole_number(number, DIGITS_MAX)
        if channel is None:
            raise bad_request(f"channel {number!r} is no number")
        try:
            self._cancel(who, connection, channel, tag)
        except NotFound:
            if not await self._everywhere.find_elsewhere(CANCEL_CONSUMER, who, connection, channel, tag):
                raise
        return Response(204)

    async def _get_blocked(self, request: Request) -> Response:
        """Those that an alarm or flow control holds back, however many others there are."""
        found = await self._everywhere.find(CONNECTIONS, operator(request), None)
        rows = [row for row in found.rows if row["state"] in HELD_UP]
        return replace(await listed(request, rows, NAMED), headers=found.headers())


def _not_seen(what: str, name: str, found: ClusterRows) -> Exception:
    unknown = f"; unknown of nodes {', '.join(found.missing)}" if found.missing else ""
    return missing(f"no {what} '{name}' that the user may see{unknown}")
