"""The management API's paths about what can be switched on, and what is going to be taken away.

All nodes of a cluster speak one version, and everything in it is on. Tools that enable what they find disabled find nothing.
"""

from __future__ import annotations

from typing import Any

from front.web.handlers import WebFront
from front.web.http.refusals import bad_request
from front.web.http.request import Request, Response, json_response
from front.web.lists.listing import ListOf, listed
from front.web.router import WebRouter
from front.web.security.access import Right

# Those that RabbitMQ's tools and operators ask for by name.
FLAGS = {
    "quorum_queue": "Support queues of type `quorum`",
    "stream_queue": "Support queues of type `stream`",
    "stream_filtering": "Support for stream filtering",
    "stream_single_active_consumer": "Single active consumer for streams",
    "implicit_default_bindings": "Default bindings are implicit",
    "maintenance_mode_status": "Maintenance mode status",
    "user_limits": "Configure connection and channel limits for a user",
    "virtual_host_metadata": "Virtual host metadata (description, tags, etc)",
    "detailed_queues_endpoint": "Detailed queues HTTP API endpoint",
}


def flag_view(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "desc": FLAGS[name],
        "doc_url": "",
        "state": "enabled",
        "stability": "required",
        "require_level": "hard",
        "experiment_level": "supported",
        "callbacks": [],
        "provided_by": "leveret",
    }


LISTED: ListOf[str] = ListOf(flag_view, order=lambda name: name, name=lambda name: name)


class FeaturesApi:
    """See the module."""

    def __init__(self, front: WebFront) -> None:
        self._front = front

    def add_routes(self, router: WebRouter) -> None:
        router.add("GET", "/api/feature-flags", self._get_flags)
        router.add("PUT", "/api/feature-flags/{name}/enable", self._enable, Right.ADMINISTRATOR)
        router.add("GET", "/api/deprecated-features", self._get_deprecated)
        router.add("GET", "/api/deprecated-features/used", self._get_deprecated)

    async def _get_flags(self, request: Request) -> Response:
        return await listed(request, list(FLAGS), LISTED)

    async def _enable(self, request: Request, name: str) -> Response:
        request.require_json()
        if name not in FLAGS:
            raise bad_request(f"there is no feature flag '{name}'")
        return Response(204)

    async def _get_deprecated(self, request: Request) -> Response:
        return json_response([])
