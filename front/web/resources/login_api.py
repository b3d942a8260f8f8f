"""The management API's paths of logins that last, for browsers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs

from broker.records import UserRecord
from front.web.http import bodies
from front.web.http.request import Request, Response, json_response
from front.web.router import WebRouter
from front.web.security.access import Right
from front.web.security.browser_logins import BrowserLogins

FORM = b"application/x-www-form-urlencoded"
# Who it is, once name and password are found to be right and the user may use this API. Raises HttpError.
Verify = Callable[[Request, str, bytes], Awaitable[UserRecord]]


class LoginApi:
    """See the module."""

    def __init__(self, logins: BrowserLogins, verify: Verify) -> None:
        self._logins = logins
        self._verify = verify

    def add_routes(self, router: WebRouter) -> None:
        router.add("POST", "/api/login", self._log_in, Right.NONE)
        router.add("DELETE", "/api/login", self._log_out, Right.NONE)

    async def _log_in(self, request: Request) -> Response:
        body = _form(request) if request.media_type == FORM else request.json_object()
        bodies.require(body, "username", "password")
        name, password = bodies.text(body, "username"), bodies.text(body, "password")
        user = await self._verify(request, name, password.encode())
        token = self._logins.begin(user, request.client, request.now)
        about = {
            "name": user.name,
            "tags": list(user.tags),
            "is_internal_user": user.vouched is None,
            "login_session_timeout": self._logins.minutes,
        }
        answer = json_response({"token": {"type": "cookie"}, "user": about})
        return _with_cookie(answer, self._logins.header(request, token, self._logins.minutes * 60))

    async def _log_out(self, request: Request) -> Response:
        """Also of a login that is over: the browser is to forget it."""
        token = self._logins.token_of(request)
        if token is not None:
            self._logins.end(token)
        return _with_cookie(Response(204), self._logins.header(request, "", 0))


def _form(request: Request) -> dict[str, Any]:
    return {name: values[-1] for name, values in parse_qs(request.body.decode("utf-8", "replace")).items()}


def _with_cookie(response: Response, header: tuple[str, str]) -> Response:
    return replace(response, headers=(*response.headers, header))
