"""The management API's paths about what may be opened in one vhost, or by one user."""

from __future__ import annotations

from typing import Any

from broker.errors import NotFound
from front.web.handlers import WebFront, operator
from front.web.http import bodies
from front.web.http.refusals import bad_request
from front.web.http.request import Request, Response
from front.web.lists.listing import ListOf, listed
from front.web.router import WebRouter
from front.web.security.access import Right

Limited = tuple[str, dict[str, int]]  # a name and its limits


def vhost_limits_view(limited: Limited) -> dict[str, Any]:
    return {"vhost": limited[0], "value": limited[1]}


def user_limits_view(limited: Limited) -> dict[str, Any]:
    return {"user": limited[0], "value": limited[1]}


LISTED_VHOSTS: ListOf[Limited] = ListOf(vhost_limits_view, order=lambda one: one[0], name=lambda one: one[0])
LISTED_USERS: ListOf[Limited] = ListOf(user_limits_view, order=lambda one: one[0], name=lambda one: one[0])


class LimitsApi:
    """See the module."""

    def __init__(self, front: WebFront) -> None:
        self._front = front
        self._vhosts = front.operations.vhosts
        self._users = front.operations.users

    def add_routes(self, router: WebRouter) -> None:
        router.add("GET", "/api/vhost-limits", self._get_vhosts)
        router.add("GET", "/api/vhost-limits/{vhost}", self._get_vhost, Right.VHOST)
        router.add("PUT", "/api/vhost-limits/{vhost}/{name}", self._put_vhost, Right.ADMINISTRATOR)
        router.add("DELETE", "/api/vhost-limits/{vhost}/{name}", self._delete_vhost, Right.ADMINISTRATOR)
        router.add("GET", "/api/user-limits", self._get_users, Right.ADMINISTRATOR)
        router.add("GET", "/api/user-limits/{user}", self._get_user)
        router.add("PUT", "/api/user-limits/{user}/{name}", self._put_user, Right.ADMINISTRATOR)
        router.add("DELETE", "/api/user-limits/{user}/{name}", self._delete_user, Right.ADMINISTRATOR)

    # of vhosts

    async def _get_vhosts(self, request: Request) -> Response:
        found = [(one.name, dict(one.limits)) for one in self._vhosts.listed(operator(request)) if one.limits]
        return await listed(request, found, LISTED_VHOSTS)

    async def _get_vhost(self, request: Request, vhost: str) -> Response:
        limits = dict(self._vhosts.one(operator(request), vhost).limits)
        return await listed(request, [(vhost, limits)] if limits else [], LISTED_VHOSTS)

    async def _put_vhost(self, request: Request, vhost: str, name: str) -> Response:
        value = _value(request)
        await self._front.done(self._vhosts.set_limit(operator(request), vhost, name, value))
        return Response(204)

    async def _delete_vhost(self, request: Request, vhost: str, name: str) -> Response:
        await self._front.done(self._vhosts.set_limit(operator(request), vhost, name, None))
        return Response(204)

    # of users

    async def _get_users(self, request: Request) -> Response:
        found = [(one.name, dict(one.limits)) for one in self._users.listed(operator(request)) if one.limits]
        return await listed(request, found, LISTED_USERS)

    async def _get_user(self, request: Request, user: str) -> Response:
        limits = dict(self._users.limits(operator(request), user))
        return await listed(request, [(user, limits)] if limits else [], LISTED_USERS)

    async def _put_user(self, request: Request, user: str, name: str) -> Response:
        value = _value(request)
        try:
            await self._front.done(self._users.set_limit(operator(request), user, name, value))
        except NotFound as error:
            raise bad_request(error.text) from error  # as RabbitMQ does
        return Response(204)

    async def _delete_user(self, request: Request, user: str, name: str) -> Response:
        await self._front.done(self._users.set_limit(operator(request), user, name, None))
        return Response(204)


def _value(request: Request) -> int:
    request.require_json()
    return bodies.number(request.json_object(), "value")
