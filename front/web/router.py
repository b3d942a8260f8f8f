"""Finds the handler of a path. A pattern part in braces matches anything and is handed over by its name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from front.web.http.refusals import missing
from front.web.http.request import HttpError, Request, Response
from front.web.security.access import Right

Handler = Callable[..., Awaitable[Response]]


@dataclass(slots=True, frozen=True)
class Route:
    method: str
    pattern: tuple[str, ...]
    handler: Handler
    right: Right

    def match(self, parts: tuple[str, ...]) -> dict[str, str] | None:
        if len(parts) != len(self.pattern):
            return None
        found = {}
        for wanted, part in zip(self.pattern, parts, strict=True):
            if wanted.startswith("{"):
                found[wanted[1:-1]] = part
            elif wanted != part:
                return None
        return found


class WebRouter:
    """All routes, asked in the order they were added."""

    def __init__(self) -> None:
        self._routes: list[Route] = []

    def add(self, method: str, path: str, handler: Handler, right: Right = Right.MANAGEMENT) -> None:
        pattern = tuple(path.strip("/").split("/"))
        self._routes.append(Route(method, pattern, handler, right))

    def match(self, method: str, parts: tuple[str, ...]) -> tuple[Route, dict[str, str]] | None:
        for route in self._routes:
            named = route.match(parts) if route.method == method else None
            if named is not None:
                return route, named
        return None

    def find(self, request: Request) -> tuple[Route, dict[str, str]]:
        """The route and the named parts. Raises HttpError 404, or 405 with the methods that would do."""
        allowed = []
        for route in self._routes:
            named = route.match(request.parts)
            if named is None:
                continue
            if route.method == request.method or (request.method == "HEAD" and route.method == "GET"):
                return route, named
            allowed.append(route.method)
        if allowed:
            if request.method == "OPTIONS":
                return Route("OPTIONS", (), partial(_options, allowed), Right.NONE), {}
            possible = ", ".join(allowed)
            reason = f"{request.method} is not possible here, {possible} is"
            raise HttpError(405, "method_not_allowed", reason, (("Allow", possible),))
        raise missing(f"there is nothing at {request.target.partition('?')[0]}")


async def _options(allowed: list[str], request: Request) -> Response:
    return Response(200, headers=(("Allow", ", ".join([*allowed, "OPTIONS"])),))
