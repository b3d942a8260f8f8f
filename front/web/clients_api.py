"""The management API's paths about clients: connections of every protocol, and what those of the stream protocol do."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from broker.operations.operations import Operations
from front.web.client_views import connection_view, publisher_view, subscription_view
from front.web.handlers import listed, operator
from front.web.request import Request, Response, json_response
from front.web.router import WebRouter

CLOSED_OVER_HTTP = "Closed via management plugin"  # RabbitMQ's words, where the request has no X-Reason


class ClientsApi:
    """See the module."""

    def __init__(self, operations: Operations, end_turn: Callable[[], None]) -> None:
        self._clients = operations.clients
        self._this_node = operations.this_node
        self._stream_users = operations.stream_users
        self._end_turn = end_turn

    def add_routes(self, router: WebRouter) -> None:
        router.add("GET", "/api/connections", self._get_connections)
        router.add("GET", "/api/vhosts/{vhost}/connections", self._get_connections)
        router.add("GET", "/api/connections/{connection}", self._get_connection)
        router.add("DELETE", "/api/connections/{connection}", self._delete_connection)
        router.add("GET", "/api/stream/connections", self._get_stream_connections)
        router.add("GET", "/api/stream/connections/{vhost}", self._get_stream_connections)
        one = "/api/stream/connections/{vhost}/{connection}"
        router.add("GET", one, self._get_stream_connection)
        router.add("DELETE", one, self._delete_stream_connection)
        router.add("GET", f"{one}/publishers", self._get_publishers_of)
        router.add("GET", f"{one}/consumers", self._get_consumers_of)
        router.add("GET", "/api/stream/publishers", self._get_publishers)
        router.add("GET", "/api/stream/publishers/{vhost}", self._get_publishers)
        router.add("GET", "/api/stream/publishers/{vhost}/{stream}", self._get_publishers)
        router.add("GET", "/api/stream/consumers", self._get_consumers)
        router.add("GET", "/api/stream/consumers/{vhost}", self._get_consumers)

    async def _get_connections(self, request: Request, vhost: str | None = None) -> Response:
        found = self._clients.connections(operator(request), vhost)
        return await listed(found, partial(connection_view, self._this_node.name))

    async def _get_connection(self, request: Request, connection: str) -> Response:
        found = self._clients.connection(operator(request), connection)
        return json_response(connection_view(self._this_node.name, found))

    async def _delete_connection(self, request: Request, connection: str) -> Response:
        reason = request.headers.get(b"x-reason", b"").decode("utf-8", "replace")
        self._clients.close_connection(operator(request), connection, reason or CLOSED_OVER_HTTP)
        self._end_turn()
        return Response(204)

    async def _get_stream_connections(self, request: Request, vhost: str | None = None) -> Response:
        found = self._stream_users.connections(operator(request), vhost)
        return await listed(found, partial(connection_view, self._this_node.name))

    async def _get_publishers(self, request: Request, vhost: str | None = None, stream: str | None = None) -> Response:
        found = self._stream_users.publishers(operator(request), vhost, stream)
        return await listed(found, partial(publisher_view, self._this_node.name))

    async def _get_consumers(self, request: Request, vhost: str | None = None) -> Response:
        found = self._stream_users.subscriptions(operator(request), vhost)
        return await listed(found, partial(subscription_view, self._this_node.name))

    # One connection of a stream client, by its name.

    async def _get_stream_connection(self, request: Request, vhost: str, connection: str) -> Response:
        found = self._stream_users.connection(operator(request), vhost, connection)
        return json_response(connection_view(self._this_node.name, found))

    async def _delete_stream_connection(self, request: Request, vhost: str, connection: str) -> Response:
        self._stream_users.connection(operator(request), vhost, connection)
        return await self._delete_connection(request, connection)

    async def _get_publishers_of(self, request: Request, vhost: str, connection: str) -> Response:
        whose = self._stream_users.connection(operator(request), vhost, connection)
        found = self._stream_users.publishers(operator(request), vhost)
        return await listed(
            (one for one in found if one.connection is whose), partial(publisher_view, self._this_node.name)
        )

    async def _get_consumers_of(self, request: Request, vhost: str, connection: str) -> Response:
        whose = self._stream_users.connection(operator(request), vhost, connection)
        found = self._stream_users.subscriptions(operator(request), vhost)
        return await listed(
            (one for one in found if one.connection is whose), partial(subscription_view, self._this_node.name)
        )
