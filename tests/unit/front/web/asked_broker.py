"""Paths of the management API over a broker with queues, asked by its administrator, who is logged in already."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from broker.operations.operations import Operations
from front.web.everywhere import Everywhere
from front.web.handlers import WebFront
from front.web.http.request import HttpError, Request, Response
from front.web.message_flows import MessageFlows
from front.web.resources.bindings_api import BindingsApi
from front.web.resources.exchanges_api import ExchangesApi
from front.web.resources.messages.messages_api import MessagesApi
from front.web.router import WebRouter
from tests.unit.broker.broker_world import World
from tests.unit.front.web.test_api import LOCAL, NOW, Node


class AskedBroker:
    """See the module."""

    def __init__(self) -> None:
        self.world = World()
        self.client = self.world.client()
        self._router, everywhere, node = WebRouter(), Everywhere(None), Node()
        front = WebFront(self.world.broker, Operations(self.world.broker, node), lambda: NOW)  # type: ignore[arg-type]
        for api in (
            BindingsApi(front),
            ExchangesApi(front, everywhere, MessageFlows(front, everywhere)),
            MessagesApi(front),
        ):
            api.add_routes(self._router)

    def request(self, method: str, path: str, body: Any = None) -> Response:
        """Raises HttpError."""
        data = b"" if body is None else json.dumps(body).encode()
        user = self.world.catalog.users["guest"]
        request = Request(method, path, {}, data, LOCAL, NOW, user)
        route, named = self._router.find(request)

        async def answer() -> Response:
            return await route.handler(request, **named)

        return asyncio.run(answer())

    def said(self, method: str, path: str, body: Any = None) -> Any:
        return json.loads(self.request(method, path, body).body)

    def status(self, method: str, path: str, body: Any = None) -> int:
        try:
            return self.request(method, path, body).status
        except HttpError as error:
            return error.status
