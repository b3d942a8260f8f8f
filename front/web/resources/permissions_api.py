"""The management API's paths about permissions and topic permissions."""

from __future__ import annotations

from typing import TypeVar

from broker.errors import NotFound
from broker.json_values import readable
from broker.pending import Pending
from broker.records import PermissionRecord, TopicPermissionRecord
from front.web.handlers import WebFront, operator, put
from front.web.http import bodies
from front.web.http.refusals import bad_request, missing
from front.web.http.request import Request, Response, json_response
from front.web.lists.listing import ListOf, listed
from front.web.router import Handler, WebRouter
from front.web.security.access import Right
from front.web.views.declared_views import permission_view, topic_permission_view

T = TypeVar("T")
LISTED = ListOf(permission_view, order=lambda one: (one.vhost, one.user), name=lambda one: one.user)
LISTED_TOPICS = ListOf(
    topic_permission_view, order=lambda one: (one.vhost, one.user, one.exchange), name=lambda one: one.user
)
RIGHTS = ("configure", "write", "read")


class PermissionsApi:
    """All for administrators."""

    def __init__(self, front: WebFront) -> None:
        self._front = front
        self._rights = front.operations.rights

    def add_routes(self, router: WebRouter) -> None:
        def add(method: str, path: str, handler: Handler) -> None:
            router.add(method, path, handler, Right.ADMINISTRATOR)

        for kind, get_all in (("permissions", self._get_all), ("topic-permissions", self._get_topics)):
            add("GET", f"/api/{kind}", get_all)
            add("GET", f"/api/vhosts/{{vhost}}/{kind}", get_all)
            add("GET", f"/api/users/{{user}}/{kind}", get_all)
        add("GET", "/api/leveret/users/{user}/access", self._get_access)
        one = "/api/permissions/{vhost}/{user}"
        add("GET", one, self._get)
        add("PUT", one, self._put)
        add("DELETE", one, self._delete)
        topics = "/api/topic-permissions/{vhost}/{user}"
        add("GET", topics, self._get_topics)
        add("PUT", topics, self._put_topic)
        add("DELETE", topics, self._delete_topics)
        add("GET", f"{topics}/{{exchange}}", self._get_topics)
        add("DELETE", f"{topics}/{{exchange}}", self._delete_topics)

    async def _get_access(self, request: Request, user: str) -> Response:
        """What the user may do with the `name` that is asked for, in the `vhost`; the empty name is the default exchange."""
        vhost, name = request.asked("vhost"), request.asked("name")
        if vhost is None or name is None:
            raise bad_request("give `vhost` and `name`: of which queue or exchange, existing or not, is asked")
        found = self._rights.access(operator(request), user, vhost, name)
        return json_response({"user": readable(user), "vhost": readable(vhost), "name": readable(name), **found})

    # permissions

    async def _get_all(self, request: Request, vhost: str | None = None, user: str | None = None) -> Response:
        return await listed(request, self._rights.listed(operator(request), vhost, user), LISTED)

    async def _get(self, request: Request, vhost: str, user: str) -> Response:
        return json_response(permission_view(self._rights.one(operator(request), vhost, user)))

    async def _put(self, request: Request, vhost: str, user: str) -> Response:
        body = request.json_object()
        bodies.require(body, *RIGHTS)
        record = PermissionRecord(user, vhost, *(bodies.text(body, name) for name in RIGHTS))
        return put(await self._granted(self._rights.set(operator(request), record)))

    async def _granted(self, change: Pending[T]) -> T:
        """The path names a permission: that its user or vhost is missing is a fault of the request, as with RabbitMQ."""
        try:
            return await self._front.done(change)
        except NotFound as error:
            raise bad_request(error.text) from error

    async def _delete(self, request: Request, vhost: str, user: str) -> Response:
        self._rights.one(operator(request), vhost, user)
        await self._front.done(self._rights.clear(operator(request), vhost, user))
        return Response(204)

    # topic permissions

    def _topics(
        self, request: Request, vhost: str | None, user: str | None, exchange: str | None
    ) -> list[TopicPermissionRecord]:
        found = self._rights.listed_topics(operator(request), vhost, user)
        return [record for record in found if exchange in (None, record.exchange)]

    async def _get_topics(
        self, request: Request, vhost: str | None = None, user: str | None = None, exchange: str | None = None
    ) -> Response:
        found = self._topics(request, vhost, user, exchange)
        if not found and vhost is not None and user is not None:
            raise missing(f"user '{user}' has no topic permissions in vhost '{vhost}'")
        return await listed(request, found, LISTED_TOPICS)

    async def _put_topic(self, request: Request, vhost: str, user: str) -> Response:
        body = request.json_object()
        bodies.require(body, "exchange", "write", "read")
        rights = (bodies.text(body, name) for name in ("exchange", "write", "read"))
        record = TopicPermissionRecord(user, vhost, *rights)
        known = (one for one in self._rights.listed_topics(operator(request)) if (one.user, one.vhost) == (user, vhost))
        existed = any(one.exchange == record.exchange for one in known)
        await self._granted(self._rights.set_topic(operator(request), record))
        return put(existed)

    async def _delete_topics(self, request: Request, vhost: str, user: str, exchange: str | None = None) -> Response:
        if not self._topics(request, vhost, user, exchange):
            raise missing(f"user '{user}' has no such topic permissions in vhost '{vhost}'")
        await self._front.done(self._rights.clear_topics(operator(request), vhost, user, exchange))
        return Response(204)
