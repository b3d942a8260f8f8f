"""The header x-vhost: a list of all virtual hosts is cut to one, as if the path had named it."""

from __future__ import annotations

from front.web.request import Request
from front.web.router import Route, WebRouter

WHOLE_LISTS = 2  # parts of the paths, such as /api/connections, whose part for one vhost lies under /api/vhosts


def found_route(router: WebRouter, request: Request) -> tuple[Route, dict[str, str]]:
    """Raises HttpError 404 or 405."""
    raw = request.headers.get(b"x-vhost")
    if raw and request.method in ("GET", "HEAD"):
        vhost = raw.decode("utf-8", "replace")
        for parts in _narrower(request.parts, vhost):
            found = router.match("GET", parts)
            if found is not None and found[0].right.of_vhost and found[1].get("vhost") == vhost:
                return found
    return router.find(request)


def _narrower(parts: tuple[str, ...], vhost: str) -> list[tuple[str, ...]]:
    if parts[-1] == "vhosts":
        return []  # under it lies each as itself
    under_vhosts = [(parts[0], "vhosts", vhost, parts[1])] if len(parts) == WHOLE_LISTS else []
    return [(*parts, vhost), *under_vhosts]
