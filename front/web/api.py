"""The management API's paths: requests into operations of the broker, and their views into JSON.

A refusal of the broker becomes the status that RabbitMQ's management plugin gives it. Everything that changes something
answers when it is durable.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from broker.catalog.definitions_reader import DEFAULT_HASHING
from broker.errors import AccessRefused, BrokerError, NotFound, PreconditionFailed, ResourceExhausted, ResourceLocked
from broker.login.audit import Actor, acting_for
from broker.login.client_address import ClientAddress
from broker.operations.operations import Operations
from broker.operations.operator import ADMINISTRATOR, MANAGEMENT, MONITORING, Operator, TagMissing
from broker.operations.users import UserChange, UserView
from broker.pending import Pending
from broker.records import PermissionRecord, TopicPermissionRecord, UserRecord, VhostRecord
from front.answers import answered
from front.definitions import export_definitions, import_definitions
from front.web.clients_api import ClientsApi
from front.web.handlers import listed, login, operator, put
from front.web.origin import check_origin
from front.web.request import HttpError, Request, Response, json_response
from front.web.router import WebRouter
from front.web.streams_api import StreamsApi
from front.web.views import (
    binding_view,
    exchange_view,
    permission_view,
    queue_view,
    topic_permission_view,
    user_view,
    vhost_view,
)

T = TypeVar("T")

# A request is whole before its credentials are looked at, so this is what a stranger can make the node keep.
BODY_BYTES_MAX = 65_536
DEFINITIONS_BYTES_MAX = 10_485_760

RETRY_SOON = (("Retry-After", "2"),)  # seconds; logins are being checked as fast as may be
STATUS_OF_ERROR: dict[type[BrokerError], tuple[int, str]] = {
    TagMissing: (401, "not_authorised"),
    AccessRefused: (403, "access_refused"),
    NotFound: (404, "not_found"),
    ResourceLocked: (409, "resource_locked"),
    PreconditionFailed: (400, "bad_request"),
    ResourceExhausted: (503, "service_unavailable"),
}


class WebBroker(Protocol):
    """What the API needs of the broker, beside its operations."""

    def authenticate(self, user: str, password: bytes, client: ClientAddress) -> Pending[UserRecord]: ...

    def end_turn(self) -> None: ...


class Api:
    """Answers requests for one node."""

    def __init__(
        self,
        broker: WebBroker,
        operations: Operations,
        *,
        metrics: Callable[[], Awaitable[bytes]],
        metrics_login: bool,
        announces: dict[str, Any] | None = None,
    ) -> None:
        self._broker = broker
        self._operations = operations
        self._metrics = metrics
        self._metrics_login = metrics_login
        self._announces = announces or {}  # what tools choose by what they do
        self._router = WebRouter()
        self._add_routes()

    async def answer(self, request: Request) -> Response:
        """The response to any request. Raises HttpError."""
        route, named = self._router.find(request)
        check_origin(request)
        if route.login:
            request.user = await self._log_in(request)
        try:
            return await route.handler(request, **named)
        except BrokerError as error:
            raise http_error(error) from error

    async def body_bytes_max(self, request: Request) -> int:
        """How large the body of this request, of which only the head is known, may be. Raises HttpError.

        A stranger cannot make the node keep much, but an administrator may import what a whole node has declared.
        """
        if request.method != "POST" or request.parts[:2] != ("api", "definitions"):
            return BODY_BYTES_MAX
        user = await self._log_in(request)
        try:
            Operator.of(user).require_tag(ADMINISTRATOR)
        except TagMissing as error:
            raise http_error(error) from error
        return DEFINITIONS_BYTES_MAX

    def _add_routes(self) -> None:
        add = self._router.add
        add("GET", "/metrics", self._get_metrics, login=self._metrics_login)
        add("GET", "/api/health/checks/alarms", self._get_health)
        add("GET", "/api/overview", self._get_overview)
        add("GET", "/api/whoami", self._get_whoami)
        add("GET", "/api/definitions", self._get_definitions)
        add("POST", "/api/definitions", self._post_definitions)
        add("GET", "/api/definitions/{vhost}", self._get_definitions)
        add("POST", "/api/definitions/{vhost}", self._post_definitions)
        add("GET", "/api/vhosts", self._get_vhosts)
        add("GET", "/api/vhosts/{vhost}", self._get_vhost)
        add("PUT", "/api/vhosts/{vhost}", self._put_vhost)
        add("DELETE", "/api/vhosts/{vhost}", self._delete_vhost)
        add("GET", "/api/vhosts/{vhost}/permissions", self._get_vhost_permissions)
        add("GET", "/api/users", self._get_users)
        add("GET", "/api/users/{user}", self._get_user)
        add("PUT", "/api/users/{user}", self._put_user)
        add("DELETE", "/api/users/{user}", self._delete_user)
        add("GET", "/api/users/{user}/permissions", self._get_user_permissions)
        add("GET", "/api/permissions", self._get_permissions)
        add("GET", "/api/permissions/{vhost}/{user}", self._get_permission)
        add("PUT", "/api/permissions/{vhost}/{user}", self._put_permission)
        add("DELETE", "/api/permissions/{vhost}/{user}", self._delete_permission)
        add("GET", "/api/topic-permissions/{vhost}/{user}", self._get_topic_permissions)
        add("PUT", "/api/topic-permissions/{vhost}/{user}", self._put_topic_permission)
        add("DELETE", "/api/topic-permissions/{vhost}/{user}", self._delete_topic_permissions)
        add("GET", "/api/exchanges/{vhost}", self._get_exchanges)
        add("DELETE", "/api/exchanges/{vhost}/{exchange}", self._delete_exchange)
        add("GET", "/api/bindings/{vhost}", self._get_bindings)
        add("GET", "/api/queues", self._get_queues)
        add("GET", "/api/queues/{vhost}", self._get_queues)
        add("GET", "/api/queues/{vhost}/{queue}", self._get_queue)
        add("DELETE", "/api/queues/{vhost}/{queue}", self._delete_queue)
        ClientsApi(self._operations, self._broker.end_turn).add_routes(self._router)
        StreamsApi(self._operations, self._broker.end_turn).add_routes(self._router)

    async def _log_in(self, request: Request) -> UserRecord:
        name, password = request.credentials()
        try:
            user = await answered(self._broker.authenticate(name, password, request.client))
            acting_for(Actor(user.name, request.client))
            return user
        except ResourceExhausted as error:
            raise HttpError(503, "service_unavailable", error.text, RETRY_SOON) from error
        except AccessRefused as error:
            raise HttpError(
                401, "not_authorised", "user or password is wrong, or not accepted from this address"
            ) from error

    async def _done(self, change: Pending[T]) -> T:
        """The answer to a change, when it is there. Raises the error that is the answer."""
        self._broker.end_turn()
        return await answered(change)

    # Looking at the node.

    async def _get_metrics(self, request: Request) -> Response:
        if self._metrics_login:
            operator(request).require_tag(MONITORING)
        return Response(200, await self._metrics(), "text/plain; version=0.0.4; charset=utf-8")

    async def _get_health(self, request: Request) -> Response:
        reason = self._operations.this_node.why_blocked(operator(request))
        if reason is None:
            return json_response({"status": "ok"})
        return json_response({"status": "failed", "reason": reason}, 503)

    async def _get_overview(self, request: Request) -> Response:
        identity = self._operations.this_node.identity(operator(request))
        queues = self._operations.resources.count_queues(operator(request))
        return json_response({**identity, **self._announces, "object_totals": {"queues": queues}})

    async def _get_whoami(self, request: Request) -> Response:
        operator(request).require_tag(MANAGEMENT)
        return json_response({**user_view(UserView.of(login(request))), "is_internal_user": True})

    # Definitions.

    async def _get_definitions(self, request: Request, vhost: str | None = None) -> Response:
        hashes, documents = request.asks("password-hashes"), self._operations.documents
        return Response(200, await export_definitions(documents, operator(request), vhost, password_hashes=hashes))

    async def _post_definitions(self, request: Request, vhost: str | None = None) -> Response:
        documents, end_turn = self._operations.documents, self._broker.end_turn
        await import_definitions(documents, operator(request), request.body, vhost, end_turn)
        return Response(204)

    # Virtual hosts.

    async def _get_vhosts(self, request: Request) -> Response:
        return json_response(list(map(vhost_view, self._operations.vhosts.listed(operator(request)))))

    async def _get_vhost(self, request: Request, vhost: str) -> Response:
        return json_response(vhost_view(self._operations.vhosts.one(operator(request), vhost)))

    async def _put_vhost(self, request: Request, vhost: str) -> Response:
        body = request.json_object()
        record = VhostRecord(
            vhost,
            description=text(body, "description", ""),
            tags=tags_of(body.get("tags", "")),
            default_queue_type=text(body, "default_queue_type", "classic"),
            protected_from_deletion=bool(body.get("protected_from_deletion", False)),
        )
        return put(await self._done(self._operations.vhosts.put(operator(request), record)))

    async def _delete_vhost(self, request: Request, vhost: str) -> Response:
        await self._done(self._operations.vhosts.delete(operator(request), vhost))
        return Response(204)

    # Users.

    async def _get_users(self, request: Request) -> Response:
        return json_response(list(map(user_view, self._operations.users.listed(operator(request)))))

    async def _get_user(self, request: Request, user: str) -> Response:
        return json_response(user_view(self._operations.users.one(operator(request), user)))

    async def _put_user(self, request: Request, user: str) -> Response:
        """The user as the body has it: without a password in it, none lets them in."""
        body = request.json_object()
        if "tags" not in body:
            raise HttpError(
                400, "bad_request", "'tags' is missing: give a list or a comma-separated text, empty for none"
            )
        given_hash = text(body, "password_hash", "")
        change = UserChange(
            user,
            tags=tags_of(body["tags"]),
            password=text(body, "password", "") if "password" in body else None,
            password_hash=(text(body, "hashing_algorithm", DEFAULT_HASHING), given_hash) if given_hash else None,
            clear_password=True,
        )
        return put(await self._done(self._operations.users.put(operator(request), change)))

    async def _delete_user(self, request: Request, user: str) -> Response:
        await self._done(self._operations.users.delete(operator(request), user))
        return Response(204)

    # Permissions.

    async def _get_permissions(self, request: Request) -> Response:
        return json_response(list(map(permission_view, self._operations.rights.listed(operator(request)))))

    async def _get_vhost_permissions(self, request: Request, vhost: str) -> Response:
        records = self._operations.rights.listed(operator(request), vhost=vhost)
        return json_response(list(map(permission_view, records)))

    async def _get_user_permissions(self, request: Request, user: str) -> Response:
        records = self._operations.rights.listed(operator(request), user=user)
        return json_response(list(map(permission_view, records)))

    async def _get_permission(self, request: Request, vhost: str, user: str) -> Response:
        return json_response(permission_view(self._operations.rights.one(operator(request), vhost, user)))

    async def _put_permission(self, request: Request, vhost: str, user: str) -> Response:
        body = request.json_object()
        record = PermissionRecord(user, vhost, *(required(body, name) for name in ("configure", "write", "read")))
        return put(await self._granted(self._operations.rights.set(operator(request), record)))

    async def _granted(self, change: Pending[T]) -> T:
        """The path names a permission: that its user or vhost is missing is a fault of the request, as with RabbitMQ."""
        try:
            return await self._done(change)
        except NotFound as error:
            raise HttpError(400, "bad_request", error.text) from error

    async def _delete_permission(self, request: Request, vhost: str, user: str) -> Response:
        """One that is not there is 404, as with RabbitMQ."""
        self._operations.rights.one(operator(request), vhost, user)
        await self._done(self._operations.rights.clear(operator(request), vhost, user))
        return Response(204)

    async def _get_topic_permissions(self, request: Request, vhost: str, user: str) -> Response:
        records = self._operations.rights.listed_topics(operator(request), vhost, user)
        return json_response(list(map(topic_permission_view, records)))

    async def _put_topic_permission(self, request: Request, vhost: str, user: str) -> Response:
        body = request.json_object()
        record = TopicPermissionRecord(user, vhost, *(required(body, name) for name in ("exchange", "write", "read")))
        await self._granted(self._operations.rights.set_topic(operator(request), record))
        return Response(201)

    async def _delete_topic_permissions(self, request: Request, vhost: str, user: str) -> Response:
        await self._done(self._operations.rights.clear_topics(operator(request), vhost, user))
        return Response(204)

    # Exchanges, bindings and queues, to look at and to delete.

    async def _get_exchanges(self, request: Request, vhost: str) -> Response:
        return await listed(self._operations.resources.exchanges(operator(request), vhost), exchange_view)

    async def _get_bindings(self, request: Request, vhost: str) -> Response:
        return await listed(self._operations.resources.bindings(operator(request), vhost), binding_view)

    async def _get_queues(self, request: Request, vhost: str | None = None) -> Response:
        return await listed(self._operations.resources.queues(operator(request), vhost), queue_view)

    async def _get_queue(self, request: Request, vhost: str, queue: str) -> Response:
        return json_response(queue_view(self._operations.resources.queue(operator(request), vhost, queue)))

    async def _delete_queue(self, request: Request, vhost: str, queue: str) -> Response:
        conditions = {"if_unused": request.asks("if-unused"), "if_empty": request.asks("if-empty")}
        deleted = self._operations.resources.delete_queue(
            operator(request), vhost, queue, **conditions, now=request.now
        )
        await self._done(deleted)
        return Response(204)

    async def _delete_exchange(self, request: Request, vhost: str, exchange: str) -> Response:
        if_unused = request.asks("if-unused")
        resources = self._operations.resources
        await self._done(resources.delete_exchange(operator(request), vhost, exchange, if_unused=if_unused))
        return Response(204)


def http_error(error: BrokerError) -> HttpError:
    status, word = STATUS_OF_ERROR.get(type(error), (400, "bad_request"))
    return HttpError(status, word, error.text)


def text(body: dict[str, Any], name: str, default: str) -> str:
    value = body.get(name, default)
    if not isinstance(value, str):
        shown = f"a JSON {type(value).__name__}" if name.startswith("password") else repr(value)
        raise HttpError(400, "bad_request", f"'{name}' is {shown}, a text is needed")
    return value


def required(body: dict[str, Any], name: str) -> str:
    if name not in body:
        raise HttpError(400, "bad_request", f"'{name}' is missing")
    return text(body, name, "")


def tags_of(value: Any) -> tuple[str, ...]:
    """Tags as a list of texts or as one text with commas."""
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise HttpError(400, "bad_request", f"'tags' is {value!r}: give a list of texts or one text with commas")
    return tuple(item.strip() for item in value if item.strip())
