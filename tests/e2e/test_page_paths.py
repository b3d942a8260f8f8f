"""The page on a real node, and the paths of Leveret's own that it asks: browsing, groups of members, the cluster."""

from __future__ import annotations

import http.client
from collections.abc import Iterator

import pytest

from tests.e2e.test_http import ask
from tests.e2e.test_management import done, get
from tests.running_node import RunningNode

VHOST = "page paths"
V = "/page%20paths"
UTF8 = "\u00fcber" * 2


@pytest.fixture
def vhost(node: RunningNode) -> Iterator[str]:
    assert ask(node, "PUT", f"/api/vhosts{V}")[0] == 201
    yield VHOST
    assert ask(node, "DELETE", f"/api/vhosts{V}")[0] == 204


def declare(node: RunningNode, queue: str, kind: str) -> None:
    done(node, "PUT", f"/api/queues{V}/{queue}", {"durable": True, "arguments": {"x-queue-type": kind}}, status=201)


def publish(node: RunningNode, queue: str, payload: str, encoding: str = "string", **properties: object) -> None:
    body = {"routing_key": queue, "properties": properties, "payload": payload, "payload_encoding": encoding}
    done(node, "POST", f"/api/exchanges{V}/amq.default/publish", body, status=200)


def test_the_page_is_served_without_a_login_and_not_sent_again_when_it_is_known(node: RunningNode) -> None:
    connection = http.client.HTTPConnection(*node.http, timeout=60)
    connection.request("GET", "/")
    document = connection.getresponse()
    assert (document.status, document.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert b'<script type="module"' in document.read()
    assert "script-src 'self'" in document.headers["Content-Security-Policy"]
    connection.request("GET", "/", headers={"If-None-Match": document.headers["ETag"]})
    again = connection.getresponse()
    assert (again.status, again.read(), again.headers["ETag"]) == (304, b"", document.headers["ETag"])
    connection.request("HEAD", "/")
    head = connection.getresponse()
    assert (head.status, head.read()) == (200, b"")
    assert int(head.headers["Content-Length"]) > 100
    connection.close()


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_browsing_shows_messages_and_takes_none(node: RunningNode, vhost: str, kind: str) -> None:
    declare(node, "browsed", kind)
    for number in range(3):
        publish(node, "browsed", f"body {number}", headers={"number": number}, message_id=f"m{number}")
    path = f"/api/leveret/queues{V}/browsed/browse"
    for _ in range(2):
        found = get(node, f"{path}?skip=1&limit=1")
        assert [(one["payload"], one["routing_key"], one["redelivered"]) for one in found] == [
            ("body 1", "browsed", False)
        ]
        assert found[0]["properties"]["headers"] == {"number": 1}
    assert len(get(node, path)) == 3
    assert [one["redelivered"] for one in get(node, path)] == [False] * 3


def test_browsing_a_stream_begins_where_it_is_told(node: RunningNode, vhost: str) -> None:
    declare(node, "stream", "stream")
    for number in range(3):
        publish(node, "stream", f"body {number}")
    path = f"/api/leveret/queues{V}/stream/browse"
    assert [one["payload"] for one in get(node, f"{path}?offset=first")] == ["body 0", "body 1", "body 2"]
    assert [(one["offset"], one["payload"]) for one in get(node, f"{path}?offset=2")] == [(2, "body 2")]
    assert ask(node, "GET", f"{path}?offset=nonsense")[0] == 400


def test_a_cut_body_is_still_text_and_other_bytes_are_base64(node: RunningNode, vhost: str) -> None:
    declare(node, "bodies", "classic")
    publish(node, "bodies", UTF8)
    publish(node, "bodies", "/wD+", "base64")
    path = f"/api/leveret/queues{V}/bodies/browse"
    cut, raw = get(node, f"{path}?truncate=6")
    assert (cut["payload"], cut["payload_encoding"], cut["payload_bytes"]) == ("\u00fcber", "string", 10)
    assert (raw["payload"], raw["payload_encoding"]) == ("/wD+", "base64")
    assert [one["payload"] for one in get(node, f"{path}?truncate=0")] == ["", ""]


@pytest.mark.parametrize("query", ["limit=0", "limit=-1", "limit=x", "skip=x", "skip=99999999999", "truncate=x"])
def test_what_cannot_be_browsed_is_refused_with_a_reason(node: RunningNode, vhost: str, query: str) -> None:
    declare(node, "refused", "classic")
    status, raw = ask(node, "GET", f"/api/leveret/queues{V}/refused/browse?{query}")
    assert status == 400, raw
    assert b"reason" in raw


def test_a_queue_without_members_has_no_group(node: RunningNode, vhost: str) -> None:
    declare(node, "alone", "classic")
    assert ask(node, "GET", f"/api/leveret/queues{V}/alone/group")[0] == 404
    assert ask(node, "GET", f"/api/leveret/queues{V}/none/group")[0] == 404
    assert ask(node, "GET", f"/api/leveret/queues{V}/none/browse")[0] == 404


def test_groups_say_who_leads_and_the_cluster_how_much_is_on_each_node(node: RunningNode, vhost: str) -> None:
    declare(node, "led", "quorum")
    publish(node, "led", "confirmed, so somebody leads")
    group = get(node, f"/api/leveret/queues{V}/led/group")
    name = get(node, "/api/overview")["node"]
    assert (group["leader"], [one["node"] for one in group["members"]]) == (name, [name])
    page = get(node, "/api/leveret/groups?page=1&name=led")
    assert [(one["name"], one["leader"], one["away"]) for one in page["items"]] == [("led", name, 0)]
    cluster = get(node, "/api/leveret/cluster")
    assert (cluster["metadata_leader"], cluster["seen_by"]) == (name, name)
    assert cluster["load"][name]["leaders"] >= 1
    assert ask(node, "PUT", f"/api/leveret/queues{V}/led/group/leader", {"node": "nowhere"})[0] >= 400
    assert ask(node, "DELETE", "/api/leveret/cluster/nodes/nowhere")[0] == 404
