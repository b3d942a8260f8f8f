"""The header x-vhost: a list of all virtual hosts is cut to one, as if the path had named it.

RabbitMQ's page sends it with whatever it asks. A path that names a vhost itself is not changed by it.
"""

from __future__ import annotations

from front.web.http.request import Request
from front.web.router import Route, WebRouter

WHOLE_LISTS = 2  # parts of the paths, such as /api/connections, whose part for one vhost lies under /api/vhosts

Found = tuple[Route, dict[str, str]]


def found_route(router: WebRouter, request: Request) -> Found:
    """Raises HttpError 404 or 405."""
    found = router.find(request)
    raw = request.headers.get(b"x-vhost")
    if not raw or request.method not in ("GET", "HEAD") or "vhost" in found[1]:
        return found
    return _cut_to(raw.decode("utf-8", "replace"), router, request.parts) or found


def _cut_to(vhost: str, router: WebRouter, parts: tuple[str, ...]) -> Found | None:
    for narrower in _narrower(parts, vhost):
        found = router.match("GET", narrower)
        if found is not None and found[0].right.of_vhost and found[1].get("vhost") == vhost:
            return found
    return None


def _narrower(parts: tuple[str, ...], vhost: str) -> list[tuple[str, ...]]:
    under_vhosts = [(parts[0], "vhosts", vhost, parts[1])] if len(parts) == WHOLE_LISTS else []
    return [(*parts, vhost), *under_vhosts]
