"""The management API's paths about users."""

from __future__ import annotations

from broker.operations.users import UserChange, UserView
from front.web.handlers import WebFront, login, operator, put
from front.web.http import bodies
from front.web.http.refusals import bad_request
from front.web.http.request import Request, Response, json_response
from front.web.lists.listing import ListOf, listed
from front.web.router import WebRouter
from front.web.security.access import Right
from front.web.views.declared_views import user_view

LISTED = ListOf(user_view, order=lambda user: user.name, name=lambda user: user.name)


class UsersApi:
    """See the module."""

    def __init__(self, front: WebFront) -> None:
        self._front = front
        self._operations = front.operations
        self._users = front.operations.users

    def add_routes(self, router: WebRouter) -> None:
        router.add("GET", "/api/whoami", self._who_am_i)
        router.add("GET", "/api/users", self._get_all, Right.ADMINISTRATOR)
        router.add("GET", "/api/users/without-permissions", self._get_without_permissions, Right.ADMINISTRATOR)
        router.add("POST", "/api/users/bulk-delete", self._delete_many, Right.ADMINISTRATOR)
        router.add("GET", "/api/users/{user}", self._get, Right.ADMINISTRATOR)
        router.add("PUT", "/api/users/{user}", self._put, Right.ADMINISTRATOR)
        router.add("DELETE", "/api/users/{user}", self._delete, Right.ADMINISTRATOR)

    async def _who_am_i(self, request: Request) -> Response:
        user = login(request)
        return json_response({"name": user.name, "tags": list(user.tags), "is_internal_user": user.vouched is None})

    async def _get_all(self, request: Request) -> Response:
        return await listed(request, self._users.listed(operator(request)), LISTED)

    async def _get_without_permissions(self, request: Request) -> Response:
        who = operator(request)
        permitted = {record.user for record in self._operations.rights.listed(who)}
        found = [user for user in self._users.listed(who) if user.name not in permitted]
        return await listed(request, found, LISTED)

    async def _get(self, request: Request, user: str) -> Response:
        return json_response(user_view(self._users.one(operator(request), user)))

    async def _put(self, request: Request, user: str) -> Response:
        """The user as the body has it: without a password in it, none lets them in."""
        body = request.json_object()
        bodies.require(body, "tags")
        password = bodies.text(body, "password") if body.get("password") is not None else None
        given_hash = bodies.text(body, "password_hash", "")
        if password is not None and "password_hash" in body:
            raise bad_request("give either 'password' or 'password_hash', not both")
        change = UserChange(
            user,
            tags=bodies.tags(body),
            password=password,
            password_hash=(bodies.text(body, "hashing_algorithm", ""), given_hash) if given_hash else None,
            clear_password=True,
        )
        return put(await self._front.done(self._users.put(operator(request), change)))

    async def _delete(self, request: Request, user: str) -> Response:
        await self._front.done(self._users.delete(operator(request), user))
        return Response(204)

    async def _delete_many(self, request: Request) -> Response:
        """Those that there are; an unknown one is passed over, as with RabbitMQ."""
        body = request.json_object()
        bodies.require(body, "users")
        known: dict[str, UserView] = {user.name: user for user in self._users.listed(operator(request))}
        for name in bodies.texts(body, "users"):
            if known.pop(name, None) is not None:
                await self._front.done(self._users.delete(operator(request), name))
        return Response(204)
