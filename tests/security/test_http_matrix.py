"""Every path of the management API, asked of a real node by everybody who may not: it is refused, and nothing has changed.

The paths are those of the table of all routes, of which tests/unit/front/web/test_api.py says that it has each one. What is
asked names things that there are, with bodies that would change them.
"""

from __future__ import annotations

import http.client
import json
from typing import Any

import pytest

from front.web.security.access import Right
from tests.fuzz.http_requests import BODY
from tests.running_node import RunningNode
from tests.security.guarded_node import WAIT_S, Http
from tests.unit.front.web.route_rights import ROUTES, TAGS_INCLUDED

TAGS = ("", "management", "policymaker", "monitoring")
PASSWORD = "matrix"
VHOST = "matrix"
THINGS = {
    "vhost": VHOST, "queue": "q", "stream": "q", "exchange": "x", "source": "x", "destination": "q", "kind": "q",
    "key": "k", "user": "victim", "name": "thing", "component": "matrix", "connection": "none", "channel": "none",
    "number": "1", "tag": "t", "id_": "none", "message": "1", "link": "none",
    "pattern": "q", "port": "1", "protocols": "amqp", "within": "1", "unit": "days",
}  # fmt: skip
ROOT = {"user": "guest", "vhost": VHOST, "configure": ".*", "write": ".*", "read": ".*"}
DECLARED: dict[str, Any] = {
    "vhosts": [{"name": VHOST, "limits": {"max-queues": 100}}],
    "users": [{"name": "victim", "password": "v", "tags": "", "limits": {"max-channels": 7}}],
    "permissions": [ROOT, {**ROOT, "user": "victim"}],
    "topic_permissions": [{"user": "victim", "vhost": VHOST, "exchange": "x", "write": "a", "read": "b"}],
    "global_parameters": [{"name": "thing", "value": 1}],
    "parameters": [{"vhost": VHOST, "component": "matrix", "name": "thing", "value": 1}],
    "policies": [{"vhost": VHOST, "name": "thing", "pattern": "^none", "definition": {"max-length": 9}}],
    "exchanges": [{"vhost": VHOST, "name": "x"}],
    "queues": [{"vhost": VHOST, "name": "q"}],
    "bindings": [{"vhost": VHOST, "source": "x", "destination": "q", "routing_key": "k"}],
}


@pytest.fixture(scope="module")
def matrix(node: RunningNode) -> RunningNode:
    """With a message in queue `q`, and for each tag a user with permissions in the vhost and one without."""
    root = Http(node)
    assert root.ask("POST", "/api/definitions", DECLARED)[0] == 204
    message = {"routing_key": "k", "properties": {}, "payload": "kept", "payload_encoding": "string"}
    assert root.ask("POST", f"/api/exchanges/{VHOST}/x/publish", message)[1] == '{"routed":true}'
    for tag in TAGS:
        for user in (f"in-{tag}", f"out-{tag}"):
            root.put_user(user, PASSWORD, tags=tag)
        root.permit(f"in-{tag}", VHOST, ".*", ".*", ".*")
    return node


def state(node: RunningNode) -> Any:
    """All that is declared, and what is in the queue."""
    root = Http(node)
    got = {"count": 5, "ackmode": "ack_requeue_true", "encoding": "auto"}
    _, messages = root.ask("POST", f"/api/queues/{VHOST}/q/get", got)
    return root.get("/api/definitions"), [one["payload"] for one in json.loads(messages)]


def filled(path: str, node_name: str) -> str:
    parts = [
        (node_name if part == "{node}" else THINGS[part[1:-1]]) if part.startswith("{") else part
        for part in path.split("/")
    ]
    return "/".join(parts)


def refusals(right: Right, tag: str, enters: bool) -> set[int]:
    """The statuses that somebody gets who may not; none: they may, or the route asks nobody who they are."""
    if right is Right.NONE:
        return set()
    if right.tag not in TAGS_INCLUDED.get(tag, ()):
        return {401}
    return {404} if right.of_vhost and not enters else set()


@pytest.mark.parametrize("enters", [True, False])
@pytest.mark.parametrize("tag", TAGS)
def test_who_may_not_is_refused_and_changes_nothing(matrix: RunningNode, tag: str, enters: bool) -> None:
    before, asked = state(matrix), 0
    asker = Http(matrix, f"{'in' if enters else 'out'}-{tag}", PASSWORD)
    node_name = Http(matrix).get("/api/overview")["node"]
    for (method, path), right in ROUTES.items():
        expected = refusals(right, tag, enters)
        if expected:
            status, text = asker.ask(method, filled(path, node_name), BODY if method in ("PUT", "POST") else None)
            assert status in expected, f"{method} {path} as {tag or 'nobody'}: {status} {text}"
            asked += 1
    assert state(matrix) == before and asked > 20


def test_without_a_login_everything_is_refused_and_nothing_changes(matrix: RunningNode) -> None:
    before = state(matrix)
    for (method, path), right in ROUTES.items():
        if right is not Right.NONE:
            connection = http.client.HTTPConnection(*matrix.http, timeout=WAIT_S)
            body = json.dumps(BODY) if method in ("PUT", "POST") else None
            connection.request(method, filled(path, "node"), body)
            assert connection.getresponse().status == 401, f"{method} {path}"
            connection.close()
    assert state(matrix) == before
