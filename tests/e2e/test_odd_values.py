"""Values that a user may put into a queue, a binding or a message, and that no listing for others may break on."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import leveret
from tests.e2e.test_cli import ctl, ctl_json
from tests.running_node import RunningNode
from tests.security import wire
from wire.amqp.tables import Timestamp, encode_properties

QUEUE = "e2e.odd"
DEEP: Any = "x"
for _ in range(31):
    DEEP = {"k": DEEP}
ODD: dict[str, Any] = {
    "since": Timestamp(1_767_225_600),
    "far": Timestamp(2**64 - 1),
    "raw": b"\xff\xfe",
    b"\xff\xfe".decode("utf-8", "surrogateescape"): "name",
    "nan": float("nan"),
    "inf": float("inf"),
    "price": Decimal("1.50"),
    "size_ms": 2**62,
    "deep": DEEP,
    "void": None,
    "esc": "\x1b[2J",
}


@pytest.fixture
def odd(node: RunningNode) -> Iterator[RunningNode]:
    """A queue, a binding, a message and a connection of which everything is odd."""
    with wire.Peer(node.amqp) as peer:
        peer.start()
        peer.send(wire.start_ok("guest", "guest", client_properties={"capabilities": wire.CAPABILITIES, **ODD}))
        peer.expect("connection.tune")
        peer.send(wire.tune_ok(), wire.method(0, "connection.open", virtual_host="/"))
        peer.expect("connection.open-ok")
        peer.open_channel()
        declared = peer.call(1, "queue.declare", queue=QUEUE, durable=True, arguments=ODD)
        assert declared.name == "queue.declare-ok", declared
        bound = peer.call(1, "queue.bind", queue=QUEUE, exchange="amq.headers", arguments=ODD)
        assert bound.name == "queue.bind-ok", bound
        props = encode_properties({"timestamp": 2**64 - 1, "headers": {**ODD, "deep": DEEP["k"]}})
        peer.send(wire.method(1, "confirm.select"))
        peer.expect("confirm.select-ok")
        peer.send(
            wire.method(1, "basic.publish", routing_key=QUEUE),
            wire.frame(wire.HEADER, 1, b"\0\x3c\0\0" + (1).to_bytes(8, "big") + props),
            wire.frame(wire.BODY, 1, b"m"),
        )
        peer.expect("basic.ack")
        yield node
        peer.call(1, "queue.delete", queue=QUEUE)


def get(node: RunningNode, path: str) -> Any:
    connection = http.client.HTTPConnection(*node.http, timeout=20)
    basic = base64.b64encode(b"guest:guest").decode()
    connection.request("GET", f"/api/{path}", headers={"Authorization": f"Basic {basic}"})
    response = connection.getresponse()
    body = response.read()
    connection.close()
    assert response.status == 200, (path, body)
    return json.loads(body)


def test_every_listing_shows_them(odd: RunningNode) -> None:
    for path in ("bindings/%2F", "queues", "queues/%2F", f"queues/%2F/{QUEUE}", "exchanges/%2F"):
        get(odd, path)
    (queue,) = (queue for queue in get(odd, "queues") if queue["name"] == QUEUE)
    assert queue["arguments"]["since"] == 1_767_225_600
    assert queue["arguments"]["raw"] == "Not UTF-8, base64 is: //4="
    for listing in ("queue", "binding", "exchange", "connection", "channel", "consumer"):
        ctl(odd, listing, "list")
        ctl_json(odd, listing, "list")
    ctl(odd, "queue", "status", QUEUE)
    (binding,) = ctl_json(odd, "binding", "list", "--queue", QUEUE, "--source", "amq.headers")
    assert binding["arguments"]["far"] == 2**64 - 1
    assert binding["arguments"]["nan"] == "nan"
    assert "\x1b" not in ctl(odd, "binding", "list")


def test_definitions_bring_them_back(odd: RunningNode, tmp_path: Path) -> None:
    document = get(odd, "definitions")
    (found,) = (queue for queue in document["queues"] if queue["name"] == QUEUE)
    for part in ("users", "vhosts", "permissions", "topic_permissions", "global_parameters", "policies", "parameters"):
        document[part] = []
    document["queues"] = [found | {"name": "e2e.odd.again"}]
    document["bindings"] = []
    file = tmp_path / "odd.json"
    file.write_text(json.dumps(document))
    ctl(odd, "definitions", "import", str(file))
    (again,) = (queue for queue in get(odd, "definitions")["queues"] if queue["name"] == "e2e.odd.again")
    assert again["arguments"] == found["arguments"]
    ctl(odd, "queue", "delete", "e2e.odd.again")


def test_the_message_is_shown_and_consumed(odd: RunningNode) -> None:
    assert ctl(odd, "queue", "browse", QUEUE).endswith("| m\n")
    (shown,) = ctl_json(odd, "queue", "browse", QUEUE)
    assert shown["properties"]["timestamp"] == 2**64 - 1

    async def consume() -> leveret.Message:
        connection = leveret.connect(f"{odd.grpc[0]}:{odd.grpc[1]}")
        async with asyncio.timeout(20), connection as connected, connected.consume(QUEUE) as deliveries:
            async for delivery in deliveries:
                await delivery.ack()
                return delivery.message
        raise AssertionError("no message")

    message = asyncio.run(consume())
    assert message.timestamp == leveret.FarTimestamp(2**64 - 1)
    assert message.headers["raw"] == b"\xff\xfe"
