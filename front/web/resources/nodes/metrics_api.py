"""What Prometheus reads: sums of the node, the series of each object, or those families of objects that it asks for."""

from __future__ import annotations

from front.node_ports import MetricsPort
from front.web.http.request import Request, Response
from front.web.lists.name_filter import Matcher, name_filter
from front.web.router import WebRouter
from front.web.security.access import Right

TEXT = "text/plain; version=0.0.4; charset=utf-8"
FAMILIES_MAX = 100  # that one request may name


class MetricsApi:
    """See the module."""

    def __init__(self, metrics: MetricsPort, *, with_login: bool) -> None:
        self._metrics = metrics
        self._right = Right.MONITORING if with_login else Right.NONE

    def add_routes(self, router: WebRouter) -> None:
        router.add("GET", "/metrics", self._get_sums, self._right)
        router.add("GET", "/metrics/per-object", self._get_per_object, self._right)
        router.add("GET", "/metrics/detailed", self._get_detailed, self._right)

    async def _get_sums(self, request: Request) -> Response:
        return Response(200, await self._metrics.text(), TEXT)

    async def _get_per_object(self, request: Request) -> Response:
        return Response(200, content_type=TEXT, pieces=await self._metrics.per_object())

    async def _get_detailed(self, request: Request) -> Response:
        """`family` and `vhost` may be given several times; `queue` is a regular expression."""
        families = request.query.get("family", [])[:FAMILIES_MAX]
        vhosts, queue = request.query.get("vhost"), request.asked("queue")
        has_vhost: Matcher = _anything if vhosts is None else frozenset(vhosts).__contains__
        has_queue = name_filter(queue, is_regex=True) if queue else _anything
        found = await self._metrics.detailed(families, has_vhost, has_queue)
        return Response(200, content_type=TEXT, pieces=found)


def _anything(_: str) -> bool:
    return True
