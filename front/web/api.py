"""The management API's paths that set a node up and look at it; who may call each is said where it is added.

A refusal of the broker becomes the status that RabbitMQ's management plugin gives it. Everything that changes something
answers when it is durable.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol, TypeVar

import msgspec

from broker import catalog_commands as commands
from broker import names, permissions
from broker.audit import Actor, acting_for
from broker.catalog import check_exclusive_access
from broker.client_address import ClientAddress
from broker.definitions import PasswordHashes
from broker.definitions_reader import DEFAULT_HASHING
from broker.errors import AccessRefused, BrokerError, NotFound, PreconditionFailed, ResourceExhausted, ResourceLocked
from broker.metadata import Metadata
from broker.pending import Pending
from broker.queue_deletion import DeletingBroker, delete_queue
from broker.queue_type import Queue
from broker.records import PermissionRecord, QueueRecord, TopicPermissionRecord, UserRecord, VhostRecord
from front.answers import answered
from front.definitions import DefinitionsBroker, export_definitions, import_definitions, parsed
from front.slices import in_slices
from front.tags import includes
from front.web.origin import check_origin
from front.web.request import HttpError, Request, Response, json_response
from front.web.router import Router
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

ADMINISTRATOR = "administrator"
MONITORING = "monitoring"
MANAGEMENT = "management"
RETRY_SOON = (("Retry-After", "2"),)  # seconds; logins are being checked as fast as may be
STATUS_OF_ERROR: dict[type[BrokerError], tuple[int, str]] = {
    AccessRefused: (403, "access_refused"),
    NotFound: (404, "not_found"),
    ResourceLocked: (409, "resource_locked"),
    PreconditionFailed: (400, "bad_request"),
    ResourceExhausted: (503, "service_unavailable"),
}


class WebBroker(DefinitionsBroker, DeletingBroker, Protocol):
    """What the API needs of the broker."""

    metadata: Metadata

    def authenticate(self, user: str, password: bytes, client: ClientAddress) -> Pending[UserRecord]: ...

    def queue(self, vhost: str, name: str) -> Queue: ...


class Api:
    """Answers requests for one node."""

    def __init__(
        self,
        broker: WebBroker,
        *,
        hash_password: Callable[[str], Awaitable[str]],
        password_hashes: PasswordHashes,
        metrics: Callable[[], Awaitable[bytes]],
        metrics_login: bool,
        health: Callable[[], str | None],
        identity: dict[str, Any],
        announces: dict[str, Any] | None = None,
    ) -> None:
        self._broker = broker
        self._catalog = broker.catalog
        self._hash_password = hash_password
        self._hashes = password_hashes
        self._metrics = metrics
        self._metrics_tag = MONITORING if metrics_login else None
        self._health = health  # why this node cannot serve, or None
        self._identity = identity  # product, version, node and cluster name
        self._announces = announces or {}  # what tools choose by what they do
        self._router = Router()
        self._add_routes()

    async def answer(self, request: Request) -> Response:
        """The response to any request. Raises HttpError."""
        route, named = self._router.find(request)
        check_origin(request)
        if route.tag is not None:
            request.user = await self._log_in(request)
            require_tag(request.user, route.tag)
        try:
            return await route.handler(request, **named)
        except BrokerError as error:
            status, word = STATUS_OF_ERROR.get(type(error), (400, "bad_request"))
            raise HttpError(status, word, error.text) from error

    async def body_bytes_max(self, request: Request) -> int:
        """How large the body of this request, of which only the head is known, may be. Raises HttpError.

        A stranger cannot make the node keep much, but an administrator may import what a whole node has declared.
        """
        if request.method != "POST" or request.parts[:2] != ("api", "definitions"):
            return BODY_BYTES_MAX
        require_tag(await self._log_in(request), ADMINISTRATOR)
        return DEFINITIONS_BYTES_MAX

    def _add_routes(self) -> None:
        add = self._router.add
        add("GET", "/metrics", self._get_metrics, self._metrics_tag)
        add("GET", "/api/health/checks/alarms", self._get_health, MANAGEMENT)
        add("GET", "/api/overview", self._get_overview, MANAGEMENT)
        add("GET", "/api/whoami", self._get_whoami, MANAGEMENT)
        add("GET", "/api/definitions", self._get_definitions, ADMINISTRATOR)
        add("POST", "/api/definitions", self._post_definitions, ADMINISTRATOR)
        add("GET", "/api/definitions/{vhost}", self._get_definitions, ADMINISTRATOR)
        add("POST", "/api/definitions/{vhost}", self._post_definitions, ADMINISTRATOR)
        add("GET", "/api/vhosts", self._get_vhosts, MANAGEMENT)
        add("GET", "/api/vhosts/{vhost}", self._get_vhost, MANAGEMENT)
        add("PUT", "/api/vhosts/{vhost}", self._put_vhost, ADMINISTRATOR)
        add("DELETE", "/api/vhosts/{vhost}", self._delete_vhost, ADMINISTRATOR)
        add("GET", "/api/vhosts/{vhost}/permissions", self._get_vhost_permissions, ADMINISTRATOR)
        add("GET", "/api/users", self._get_users, ADMINISTRATOR)
        add("GET", "/api/users/{user}", self._get_user, ADMINISTRATOR)
        add("PUT", "/api/users/{user}", self._put_user, ADMINISTRATOR)
        add("DELETE", "/api/users/{user}", self._delete_user, ADMINISTRATOR)
        add("GET", "/api/users/{user}/permissions", self._get_user_permissions, ADMINISTRATOR)
        add("GET", "/api/permissions", self._get_permissions, ADMINISTRATOR)
        add("GET", "/api/permissions/{vhost}/{user}", self._get_permission, ADMINISTRATOR)
        add("PUT", "/api/permissions/{vhost}/{user}", self._put_permission, ADMINISTRATOR)
        add("DELETE", "/api/permissions/{vhost}/{user}", self._delete_permission, ADMINISTRATOR)
        add("GET", "/api/topic-permissions/{vhost}/{user}", self._get_topic_permissions, ADMINISTRATOR)
        add("PUT", "/api/topic-permissions/{vhost}/{user}", self._put_topic_permission, ADMINISTRATOR)
        add("DELETE", "/api/topic-permissions/{vhost}/{user}", self._delete_topic_permissions, ADMINISTRATOR)
        add("GET", "/api/exchanges/{vhost}", self._get_exchanges, MANAGEMENT)
        add("DELETE", "/api/exchanges/{vhost}/{exchange}", self._delete_exchange, MANAGEMENT)
        add("GET", "/api/bindings/{vhost}", self._get_bindings, MANAGEMENT)
        add("GET", "/api/queues", self._get_all_queues, MANAGEMENT)
        add("GET", "/api/queues/{vhost}", self._get_queues, MANAGEMENT)
        add("GET", "/api/queues/{vhost}/{queue}", self._get_queue, MANAGEMENT)
        add("DELETE", "/api/queues/{vhost}/{queue}", self._delete_queue, MANAGEMENT)

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

    async def _submit(self, command: commands.Command) -> Any:
        pending = self._broker.metadata.submit(command)
        self._broker.end_turn()
        return await answered(pending)

    # Looking at the node.

    async def _get_metrics(self, request: Request) -> Response:
        return Response(200, await self._metrics(), "text/plain; version=0.0.4; charset=utf-8")

    async def _get_health(self, request: Request) -> Response:
        reason = self._health()
        if reason is None:
            return json_response({"status": "ok"})
        return json_response({"status": "failed", "reason": reason}, 503)

    async def _get_overview(self, request: Request) -> Response:
        queues = [record for vhost in self._visible_vhosts(request) for record in self._catalog.queues(vhost.name)]
        return json_response({**self._identity, **self._announces, "object_totals": {"queues": len(queues)}})

    async def _get_whoami(self, request: Request) -> Response:
        return json_response({**user_view(caller(request)), "is_internal_user": True})

    # Definitions.

    async def _get_definitions(self, request: Request, vhost: str | None = None) -> Response:
        hashes = self._hashes if request.asks("password-hashes") else None
        return Response(200, await export_definitions(self._catalog, hashes, self._identity, vhost))

    async def _post_definitions(self, request: Request, vhost: str | None = None) -> Response:
        document, submit = parsed(request.body), self._broker.metadata.submit
        await import_definitions(self._broker, submit, self._hashes, document, vhost)
        return Response(204)

    # Virtual hosts.

    def _visible_vhosts(self, request: Request) -> list[VhostRecord]:
        """All for an administrator; else those in which the caller has permissions."""
        user = caller(request)
        records = list(self._catalog.vhosts.values())
        if has_tag(user, "monitoring"):
            return records
        return [record for record in records if self._catalog.permissions(user.name, record.name) is not None]

    def _visible_vhost(self, request: Request, name: str) -> VhostRecord:
        for record in self._visible_vhosts(request):
            if record.name == name:
                return record
        raise HttpError(404, "not_found", f"no vhost '{name}'")

    async def _get_vhosts(self, request: Request) -> Response:
        return json_response([vhost_view(record) for record in self._visible_vhosts(request)])

    async def _get_vhost(self, request: Request, vhost: str) -> Response:
        return json_response(vhost_view(self._visible_vhost(request, vhost)))

    async def _put_vhost(self, request: Request, vhost: str) -> Response:
        body = request.json_object()
        existed = vhost in self._catalog.vhosts
        record = VhostRecord(
            vhost,
            description=text(body, "description", ""),
            tags=tags_of(body.get("tags", "")),
            default_queue_type=text(body, "default_queue_type", "classic"),
            protected_from_deletion=bool(body.get("protected_from_deletion", False)),
        )
        await self._submit(commands.PutVhost(record))
        if not existed:
            # Whoever makes a vhost over HTTP may use it, as with RabbitMQ's management plugin.
            permission = PermissionRecord(caller(request).name, vhost, ".*", ".*", ".*")
            await self._submit(commands.PutPermission(permission))
        return Response(204 if existed else 201)

    async def _delete_vhost(self, request: Request, vhost: str) -> Response:
        await self._submit(commands.DeleteVhost(vhost))
        return Response(204)

    # Users.

    def _user(self, name: str) -> UserRecord:
        record = self._catalog.users.get(name)
        if record is None:
            raise HttpError(404, "not_found", f"no user '{name}'")
        return record

    async def _get_users(self, request: Request) -> Response:
        return json_response([user_view(record) for record in self._catalog.users.values()])

    async def _get_user(self, request: Request, user: str) -> Response:
        return json_response(user_view(self._user(user)))

    async def _put_user(self, request: Request, user: str) -> Response:
        body = request.json_object()
        existed = user in self._catalog.users
        if "tags" not in body:
            raise HttpError(
                400, "bad_request", "'tags' is missing: give a list or a comma-separated text, empty for none"
            )
        record = UserRecord(user, await self._password_hash(body), tags_of(body["tags"]))
        await self._submit(commands.PutUser(record))
        return Response(204 if existed else 201)

    async def _password_hash(self, body: dict[str, Any]) -> str | None:
        """The hash to keep: of a password, or RabbitMQ's salted SHA-256 as it is; None lets no password in."""
        if "password" in body:
            return await self._hash_password(text(body, "password", ""))
        given = text(body, "password_hash", "")
        algorithm = text(body, "hashing_algorithm", DEFAULT_HASHING)
        return self._hashes.imported(algorithm, given) if given else None

    async def _delete_user(self, request: Request, user: str) -> Response:
        self._user(user)
        await self._submit(commands.DeleteUser(user))
        return Response(204)

    # Permissions.

    async def _get_permissions(self, request: Request) -> Response:
        return json_response([permission_view(record) for record in self._catalog.all_permissions()])

    async def _get_vhost_permissions(self, request: Request, vhost: str) -> Response:
        self._visible_vhost(request, vhost)
        records = [record for record in self._catalog.all_permissions() if record.vhost == vhost]
        return json_response([permission_view(record) for record in records])

    async def _get_user_permissions(self, request: Request, user: str) -> Response:
        self._user(user)
        records = [record for record in self._catalog.all_permissions() if record.user == user]
        return json_response([permission_view(record) for record in records])

    def _permission(self, user: str, vhost: str) -> PermissionRecord:
        record = self._catalog.permissions(user, vhost)
        if record is None:
            raise HttpError(404, "not_found", f"user '{user}' has no permissions in vhost '{vhost}'")
        return record

    async def _get_permission(self, request: Request, vhost: str, user: str) -> Response:
        return json_response(permission_view(self._permission(user, vhost)))

    async def _put_permission(self, request: Request, vhost: str, user: str) -> Response:
        body = request.json_object()
        existed = self._catalog.permissions(user, vhost) is not None
        record = PermissionRecord(user, vhost, *(required(body, name) for name in ("configure", "write", "read")))
        await self._submit_permission(commands.PutPermission(record))
        return Response(204 if existed else 201)

    async def _submit_permission(self, command: commands.Command) -> None:
        """The path names a permission: that its user or vhost is missing is a fault of the request, as with RabbitMQ."""
        try:
            await self._submit(command)
        except NotFound as error:
            raise HttpError(400, "bad_request", error.text) from error

    async def _delete_permission(self, request: Request, vhost: str, user: str) -> Response:
        self._permission(user, vhost)
        await self._submit(commands.DeletePermission(user, vhost))
        return Response(204)

    async def _get_topic_permissions(self, request: Request, vhost: str, user: str) -> Response:
        self._user(user)
        self._visible_vhost(request, vhost)
        records = self._catalog.topic_permissions(user, vhost).values()
        return json_response([topic_permission_view(record) for record in records])

    async def _put_topic_permission(self, request: Request, vhost: str, user: str) -> Response:
        body = request.json_object()
        names = ("exchange", "write", "read")
        record = TopicPermissionRecord(user, vhost, *(required(body, name) for name in names))
        await self._submit_permission(commands.PutTopicPermission(record))
        return Response(201)

    async def _delete_topic_permissions(self, request: Request, vhost: str, user: str) -> Response:
        await self._submit(commands.DeleteTopicPermission(user, vhost))
        return Response(204)

    # Exchanges, bindings and queues, to look at and to delete.

    async def _get_exchanges(self, request: Request, vhost: str) -> Response:
        self._visible_vhost(request, vhost)
        return await listed(self._catalog.exchanges(vhost), exchange_view)

    async def _get_bindings(self, request: Request, vhost: str) -> Response:
        self._visible_vhost(request, vhost)
        return await listed(self._catalog.bindings(vhost), binding_view)

    async def _get_all_queues(self, request: Request) -> Response:
        vhosts = self._visible_vhosts(request)
        records = [record for vhost in vhosts for record in self._catalog.queues(vhost.name)]
        return await listed(records, self._queue_view_if_open)

    async def _get_queues(self, request: Request, vhost: str) -> Response:
        self._visible_vhost(request, vhost)
        return await listed(self._catalog.queues(vhost), self._queue_view_if_open)

    def _queue(self, request: Request, vhost: str, name: str) -> QueueRecord:
        self._visible_vhost(request, vhost)
        record = self._catalog.queue(vhost, name)
        if record is None:
            raise names.not_found("queue", name, vhost)
        return record

    async def _get_queue(self, request: Request, vhost: str, queue: str) -> Response:
        return json_response(self._queue_view(self._queue(request, vhost, queue)))

    async def _delete_queue(self, request: Request, vhost: str, queue: str) -> Response:
        """As an AMQP connection of the caller would: an exclusive queue is another connection's."""
        self._visible_vhost(request, vhost)
        permissions.check(self._catalog, caller(request).name, vhost, "configure", "queue", queue)
        record = self._queue(request, vhost, queue)
        check_exclusive_access(record, None)
        deleted = delete_queue(
            self._broker,
            self._broker.queue(vhost, queue),
            if_unused=request.asks("if-unused"),
            if_empty=request.asks("if-empty"),
            now=request.now,
        )
        self._broker.end_turn()
        await answered(deleted)
        return Response(204)

    async def _delete_exchange(self, request: Request, vhost: str, exchange: str) -> Response:
        self._visible_vhost(request, vhost)
        names.check_deletable_exchange(exchange, vhost)
        permissions.check(self._catalog, caller(request).name, vhost, "configure", "exchange", exchange)
        if self._catalog.exchange(vhost, exchange) is None:
            raise names.not_found("exchange", exchange, vhost)
        await self._submit(commands.DeleteExchange(vhost, exchange, request.asks("if-unused")))
        return Response(204)

    def _queue_view(self, record: QueueRecord) -> dict[str, Any]:
        return queue_view(record, self._broker.queue(record.vhost, record.name).statistics())

    def _queue_view_if_open(self, record: QueueRecord) -> dict[str, Any] | None:
        """None: it is being opened, or was deleted while others were listed."""
        try:
            return self._queue_view(record)
        except NotFound:
            return None


async def listed(records: Iterable[T], view: Callable[[T], dict[str, Any] | None]) -> Response:
    """Those that there are now, but for those of which there is nothing to see; others are served in between."""
    pieces: list[bytes] = []
    async for record in in_slices(records):
        seen = view(record)
        if seen is not None:
            pieces.append(msgspec.json.encode(seen))
    return Response(200, b"[" + b",".join(pieces) + b"]")


def caller(request: Request) -> UserRecord:
    assert request.user is not None, f"{request.target} was added without a tag, but asks who calls"
    return request.user


def has_tag(user: UserRecord, tag: str) -> bool:
    return includes(user.tags, tag)


def require_tag(user: UserRecord, tag: str) -> None:
    if not has_tag(user, tag):
        raise HttpError(401, "not_authorised", f"user '{user.name}' lacks the tag {tag}")


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
