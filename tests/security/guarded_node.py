"""What tests of this folder say to their real node besides AMQP: its HTTP API, and what the system knows of its process."""

from __future__ import annotations

import base64
import http.client
import json
import os
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from tests.running_node import RunningNode

CANARY = "c4nary-Pa55word-7f3a9b"
HANDSHAKE_TIMEOUT_MS = 1_500
REFUSAL_PAUSE_MS = 200
STRANGERS_MAX = 150
HTTP_CONNECTIONS = 300
WAIT_S = 20.0


class Http:
    """The management API as one user."""

    def __init__(self, node: RunningNode, user: str = "guest", password: str = "guest") -> None:
        self._address = node.http
        self._authorization = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, str]:
        """Status and body."""
        return self.ask_raw(method, path, None if body is None else json.dumps(body))

    def ask_raw(self, method: str, path: str, payload: str | None) -> tuple[int, str]:
        connection = http.client.HTTPConnection(*self._address, timeout=WAIT_S)
        try:
            headers = {"Authorization": self._authorization, "Content-Type": "application/json"}
            connection.request(method, path, payload, headers)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        status, text = self.ask("GET", path)
        assert status == 200, f"GET {path}: {status} {text}"
        return json.loads(text)

    def put(self, path: str, body: Any) -> None:
        status, text = self.ask("PUT", path, body)
        assert status in (201, 204), f"PUT {path}: {status} {text}"

    def put_user(self, name: str, password: str, tags: str = "") -> None:
        self.put(f"/api/users/{quote(name, safe='')}", {"password": password, "tags": tags})

    def permit(self, user: str, vhost: str, configure: str, write: str, read: str) -> None:
        path = f"/api/permissions/{quote(vhost, safe='')}/{quote(user, safe='')}"
        self.put(path, {"configure": configure, "write": write, "read": read})


def open_files(node: RunningNode) -> int:
    return len(os.listdir(f"/proc/{node.process.pid}/fd"))


def wait_until(what: str, holds: Callable[[], bool], seconds: float = WAIT_S) -> None:
    """Ask until it holds; each question is a round trip to the node or the system, so this is no busy loop over nothing."""
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, f"not within {seconds} s: {what}"
