"""The management API's paths about clients of the stream protocol on this node: their connections, publishers and readers."""

from __future__ import annotations

from functools import partial

from broker.client_connection import Connection
from broker.operations.stream_users import PublisherView, SubscriptionView
from front.web.handlers import WebFront, operator
from front.web.http.request import Request, Response, json_response
from front.web.lists.listing import ListOf, listed
from front.web.resources.clients_api import CLOSED_OVER_HTTP
from front.web.router import WebRouter
from front.web.security.access import Right
from front.web.views.client_views import connection_view, publisher_view, subscription_view


class StreamClientsApi:
    """See the module."""

    def __init__(self, front: WebFront) -> None:
        node = front.operations.this_node.name
        self._front = front
        self._clients = front.operations.clients
        self._stream_users = front.operations.stream_users
        self._show = partial(connection_view, node)
        self._connections: ListOf[Connection] = ListOf(
            self._show, order=lambda one: (one.vhost, one.name), name=lambda one: one.name
        )
        self._publishers: ListOf[PublisherView] = ListOf(
            partial(publisher_view, node),
            order=lambda one: (one.vhost, one.stream, one.connection.name, one.publisher_id),
            name=lambda one: one.stream,
        )
        self._readers: ListOf[SubscriptionView] = ListOf(
            partial(subscription_view, node),
            order=lambda one: (one.vhost, one.stream, one.connection.name, one.subscription_id),
            name=lambda one: one.stream,
        )

    def add_routes(self, router: WebRouter) -> None:
        router.add("GET", "/api/stream/connections", self._get_connections)
        router.add("GET", "/api/stream/connections/{vhost}", self._get_connections, Right.VHOST)
        one = "/api/stream/connections/{vhost}/{connection}"
        router.add("GET", one, self._get_connection, Right.VHOST)
        router.add("DELETE", one, self._delete_connection, Right.VHOST)
        router.add("GET", f"{one}/publishers", self._get_publishers_of, Right.VHOST)
        router.add("GET", f"{one}/consumers", self._get_consumers_of, Right.VHOST)
        router.add("GET", "/api/stream/publishers", self._get_publishers)
        router.add("GET", "/api/stream/publishers/{vhost}", self._get_publishers, Right.VHOST)
        router.add("GET", "/api/stream/publishers/{vhost}/{stream}", self._get_publishers, Right.VHOST)
        router.add("GET", "/api/stream/consumers", self._get_consumers)
        router.add("GET", "/api/stream/consumers/{vhost}", self._get_consumers, Right.VHOST)

    async def _get_connections(self, request: Request, vhost: str | None = None) -> Response:
        return await listed(request, self._stream_users.connections(operator(request), vhost), self._connections)

    async def _get_publishers(self, request: Request, vhost: str | None = None, stream: str | None = None) -> Response:
        return await listed(request, self._stream_users.publishers(operator(request), vhost, stream), self._publishers)

    async def _get_consumers(self, request: Request, vhost: str | None = None) -> Response:
        return await listed(request, self._stream_users.subscriptions(operator(request), vhost), self._readers)

    # one connection, by its name

    async def _get_connection(self, request: Request, vhost: str, connection: str) -> Response:
        return json_response(self._show(self._stream_users.connection(operator(request), vhost, connection)))

    async def _delete_connection(self, request: Request, vhost: str, connection: str) -> Response:
        self._stream_users.connection(operator(request), vhost, connection)
        reason = request.headers.get(b"x-reason", b"").decode("utf-8", "replace")
        self._clients.close_connection(operator(request), connection, reason or CLOSED_OVER_HTTP)
        self._front.broker.end_turn()
        return Response(204)

    async def _get_publishers_of(self, request: Request, vhost: str, connection: str) -> Response:
        whose = self._stream_users.connection(operator(request), vhost, connection)
        found = self._stream_users.publishers(operator(request), vhost)
        return await listed(request, (one for one in found if one.connection is whose), self._publishers)

    async def _get_consumers_of(self, request: Request, vhost: str, connection: str) -> Response:
        whose = self._stream_users.connection(operator(request), vhost, connection)
        found = self._stream_users.subscriptions(operator(request), vhost)
        return await listed(request, (one for one in found if one.connection is whose), self._readers)
