"""Delayed messages that wait are listed and cancelled over HTTP, gRPC and the command line, by who may read them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import leveret
from tests.e2e.test_cli import ctl, ctl_json
from tests.e2e.test_http import ask
from tests.e2e.test_management import done, get
from tests.running_node import RunningNode

PATH = "/api/leveret/exchanges/%2F/slow/delayed"
HOUR_MS = 3_600_000


def publish(node: RunningNode, payload: str, delay_ms: int) -> None:
    properties = {"headers": {"x-delay": delay_ms}, "delivery_mode": 2}
    body = {"routing_key": "key", "properties": properties, "payload": payload, "payload_encoding": "string"}
    done(node, "POST", "/api/exchanges/%2F/slow/publish", body, status=200)


@pytest.fixture
def waiting(node: RunningNode) -> Iterator[list[dict[str, Any]]]:
    """Three messages, which wait for hours: as listed."""
    declared = {"type": "x-delayed-message", "durable": True, "arguments": {"x-delayed-type": "fanout"}}
    done(node, "PUT", "/api/exchanges/%2F/slow", declared, status=201)
    for hours, payload in ((3, "c"), (1, "a"), (2, "b")):
        publish(node, payload, hours * HOUR_MS)
    yield get(node, PATH)
    done(node, "DELETE", "/api/exchanges/%2F/slow", status=204)


def test_over_http_the_next_come_first_and_pages_go_on_in_the_order_of_publishing(
    node: RunningNode, waiting: list[dict[str, Any]]
) -> None:
    assert [one["payload"] for one in waiting] == ["a", "b", "c"]
    assert waiting[2]["due_ms"] - waiting[0]["due_ms"] == pytest.approx(2 * HOUR_MS, abs=60_000)
    assert waiting[0]["properties"]["headers"] == {"x-delay": HOUR_MS}
    assert [one["payload"] for one in get(node, f"{PATH}?limit=2")] == ["a", "b"]
    first, second = get(node, f"{PATH}?order=published&limit=2")
    assert [first["payload"], second["payload"]] == ["c", "a"]
    assert [one["payload"] for one in get(node, f"{PATH}?after={second['id']}")] == ["b"]


def test_one_is_cancelled_over_http_once(node: RunningNode, waiting: list[dict[str, Any]]) -> None:
    done(node, "DELETE", f"{PATH}/{waiting[1]['id']}", status=204)
    assert [one["payload"] for one in get(node, PATH)] == ["a", "c"]
    assert ask(node, "DELETE", f"{PATH}/{waiting[1]['id']}")[0] == 404


def test_one_is_cancelled_over_grpc_once(node: RunningNode, waiting: list[dict[str, Any]]) -> None:
    with leveret.connect_sync(f"{node.grpc[0]}:{node.grpc[1]}") as connected:
        found = connected.call(lambda asked: asked.topology.delayed("slow", limit=2))
        assert [(one.id, one.due_ms) for one in found] == [(one["id"], one["due_ms"]) for one in waiting[:2]]
        assert [(one.body, one.message.headers) for one in found[:1]] == [(b"a", {"x-delay": HOUR_MS})]
        connected.call(lambda asked: asked.topology.cancel_delayed("slow", found[0].id))
        with pytest.raises(leveret.errors.NotFound, match="waits in exchange 'slow'"):
            connected.call(lambda asked: asked.topology.cancel_delayed("slow", found[0].id))
        left = connected.call(lambda asked: asked.topology.delayed_after("slow"))
        assert [one.body for one in left] == [b"c", b"b"]


def test_some_are_cancelled_on_the_command_line(node: RunningNode, waiting: list[dict[str, Any]]) -> None:
    listed = ctl_json(node, "delayed", "list", "slow")
    assert [(one["id"], one["body"]) for one in listed] == [(one["id"], one["payload"]) for one in waiting]
    assert ctl_json(node, "delayed", "list", "slow", "--after", "")[0]["body"] == "c"
    assert f"{waiting[0]['id']} 20" in ctl(node, "delayed", "list", "slow")
    done_ = ctl_json(node, "delayed", "cancel", "slow", waiting[0]["id"], waiting[1]["id"])
    assert done_ == {"exchange": "slow", "messages": 2}
    assert [one["body"] for one in ctl_json(node, "delayed", "list", "slow")] == ["c"]
    assert "waits in exchange 'slow' (any more)" in ctl(node, "delayed", "cancel", "slow", waiting[0]["id"], code=65)


@pytest.mark.parametrize(
    ("query", "status"),
    [("limit=0", 400), ("limit=501", 400), ("order=odd", 400), ("after=1-2", 400), ("after=1-2-3-4", 404)],
)
def test_what_cannot_be_listed_is_refused_with_a_reason(
    node: RunningNode, waiting: list[dict[str, Any]], query: str, status: int
) -> None:
    found, raw = ask(node, "GET", f"{PATH}?{query}")
    assert found == status, raw
    assert json.loads(raw)["reason"]


def test_messages_wait_in_delayed_exchanges_only(node: RunningNode) -> None:
    assert ask(node, "GET", "/api/leveret/exchanges/%2F/amq.fanout/delayed")[0] == 400
    assert ask(node, "GET", "/api/leveret/exchanges/%2F/none/delayed")[0] == 404


def test_who_may_not_read_what_waits_neither_sees_nor_cancels_it(
    node: RunningNode, waiting: list[dict[str, Any]]
) -> None:
    done(node, "PUT", "/api/users/late", {"password": "late", "tags": "management"}, status=201)
    rights = {"configure": ".*", "write": ".*", "read": "^slow$"}
    done(node, "PUT", "/api/permissions/%2F/late", rights, status=201)
    assert ask(node, "GET", PATH, login="late:late")[0] == 401
    assert ask(node, "DELETE", f"{PATH}/{waiting[0]['id']}", login="late:late")[0] == 401
    assert len(get(node, PATH)) == 3
    done(node, "DELETE", "/api/users/late", status=204)
