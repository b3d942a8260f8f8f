"""The management API's paths about definitions: all that is declared, as one document."""

from __future__ import annotations

from front.definitions import export_definitions, import_definitions
from front.web.access import Right
from front.web.handlers import WebFront, operator
from front.web.request import Request, Response
from front.web.router import WebRouter


class DefinitionsApi:
    """See the module."""

    def __init__(self, front: WebFront) -> None:
        self._front = front
        self._documents = front.operations.documents

    def add_routes(self, router: WebRouter) -> None:
        for path in ("/api/definitions", "/api/definitions/{vhost}", "/api/all-configuration"):
            router.add("GET", path, self._get, Right.ADMINISTRATOR)
            router.add("POST", path, self._post, Right.ADMINISTRATOR)

    async def _get(self, request: Request, vhost: str | None = None) -> Response:
        hashes = request.asks("password-hashes")
        exported = export_definitions(self._documents, operator(request), vhost, password_hashes=hashes)
        return Response(200, await exported)

    async def _post(self, request: Request, vhost: str | None = None) -> Response:
        end_turn = self._front.broker.end_turn
        await import_definitions(self._documents, operator(request), request.body, vhost, end_turn)
        return Response(204)
