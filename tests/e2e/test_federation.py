"""Federation between real nodes: what comes, what they say of it, and that nothing is lost when one of them dies."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pika
import pytest

from tests.e2e.test_http import ask
from tests.e2e.test_shovels import connect, drain, fill, until, uri, waiting
from tests.ports import free_ports
from tests.running_node import RunningNode, start_node

NAMES = ("a", "b", "c")
PORTS_OF_ONE = 3
BINDINGS = 334  # of each of three clusters, and as many that have gone again
PUBLISHED = 20_000


def federate(
    node: RunningNode, upstream: RunningNode, pattern: str, apply_to: str, name: str = "up", **terms: Any
) -> None:
    value = {"uri": uri(upstream), "reconnect-delay": 1, **{key.replace("_", "-"): one for key, one in terms.items()}}
    put(node, f"/api/parameters/federation-upstream/%2F/{name}", {"value": value})
    definition = {"federation-upstream-set": "all"}
    put(node, "/api/policies/%2F/federated", {"pattern": pattern, "apply-to": apply_to, "definition": definition})


def put(node: RunningNode, path: str, body: Any) -> None:
    status, raw = ask(node, "PUT", path, body)
    assert status in (201, 204), raw


def links(node: RunningNode, down: bool = False) -> list[dict[str, Any]]:
    status, raw = ask(node, "GET", "/api/federation-links" + ("/state/down" if down else ""))
    assert status == 200, raw
    found: list[dict[str, Any]] = json.loads(raw)
    return found


def running(node: RunningNode) -> dict[str, Any]:
    def is_running() -> dict[str, Any] | None:
        found = links(node)
        return found[0] if [one["status"] for one in found] == ["running"] else None

    found: dict[str, Any] = until("the link runs", is_running)
    return found


def copied_keys(node: RunningNode) -> set[str]:
    """Of the bindings of x that lead to another cluster."""
    found = json.loads(ask(node, "GET", "/api/exchanges/%2F/x/bindings/source")[1])
    return {one["routing_key"] for one in found if one["destination_type"] == "exchange"}


def declare_x(node: RunningNode, *keys: str) -> pika.BlockingConnection:
    connection = connect(node)
    channel = connection.channel()
    channel.exchange_declare("x", "direct", durable=True)
    channel.queue_declare("q", durable=True)
    for key in keys:
        channel.queue_bind("q", "x", key)
    return connection


def publish_to_x(node: RunningNode, count: int) -> None:
    """All of them, or none."""
    connection = connect(node)
    channel = connection.channel()
    channel.tx_select()
    for number in range(count):
        channel.basic_publish("x", "k", b"%d" % number, pika.BasicProperties(delivery_mode=2))
    channel.tx_commit()
    connection.close()


def bodies(node: RunningNode, queue: str) -> list[bytes]:
    count = waiting(node, queue)
    return [body for _, body in drain(node, queue, count)] if count else []


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], RunningNode]]:
    """Starts a cluster of one node, or starts it again where it was."""
    drawn = free_ports(PORTS_OF_ONE * len(NAMES))
    ports = {name: drawn[at * PORTS_OF_ONE : (at + 1) * PORTS_OF_ONE] for at, name in enumerate(NAMES)}
    nodes: dict[str, RunningNode] = {}

    def started(name: str) -> RunningNode:
        where = [part for to, port in zip(("amqp", "grpc", "http"), ports[name], strict=True)
                 for part in (f"--{to}", f"127.0.0.1:{port}")]  # fmt: skip
        nodes[name] = start_node(tmp_path / name, "--name", name, *where)
        return nodes[name]

    yield started
    for node in nodes.values():
        node.kill()


def test_an_exchange_gets_what_is_bound_to_it_and_says_how_that_goes(start: Callable[[str], RunningNode]) -> None:
    up, down = start("a"), start("b")
    here = declare_x(down, "k")
    federate(down, up, "^x$", "exchanges")
    found = running(down)
    assert (found["exchange"], found["upstream_exchange"], found["type"], found["upstream"]) == (
        "x", "x", "exchange", "up",
    )  # fmt: skip
    assert "guest" not in json.dumps(found)
    there = declare_x(up)
    there.channel().basic_publish("x", "k", b"wanted", pika.BasicProperties(user_id="guest"))
    there.channel().basic_publish("x", "other", b"not wanted")
    ((properties, body),) = drain(down, "q", 1)
    assert (body, properties.user_id) == (b"wanted", None)
    assert [hop["cluster-name"] for hop in properties.headers["x-received-from"]] == ["a"]
    metrics = ask(down, "GET", "/metrics")[1]
    assert b'rabbitmq_federation_links{status="running",type="exchange"} 1.0' in metrics
    restart = f"/api/federation-links/vhost/%2F/{found['id']}/{quote(found['node'], safe='')}/restart"
    assert ask(down, "DELETE", restart)[0] == 204
    until("it began again", lambda: running(down)["restarts"] == 1)
    assert ask(down, "DELETE", restart.replace(found["id"], "00000000"))[0] == 404
    assert ask(down, "DELETE", "/api/policies/%2F/federated")[0] == 204
    until("the link is gone", lambda: not links(down))
    until("nothing is left at the upstream", lambda: not copied_keys(up))
    here.close()
    there.close()


def test_an_upstream_that_cannot_be_reached_is_said_with_its_reason(start: Callable[[str], RunningNode]) -> None:
    down = start("b")
    declare_x(down).close()
    value = {"uri": "amqp://u:secret@127.0.0.1:1", "reconnect-delay": 1}
    put(down, "/api/parameters/federation-upstream/%2F/up", {"value": value})
    put(down, "/api/policies/%2F/f", {"pattern": "^x$", "definition": {"federation-upstream": "up"}})
    (found,) = until("the link is down", lambda: links(down, down=True))
    assert (found["status"], found["error"].startswith("cannot connect to 127.0.0.1 port 1")) == ("error", True)
    until("it is tried again", lambda: links(down)[0]["restarts"] > 1)
    assert "secret" not in down.log.read_text() + json.dumps(found)


def test_bad_parameters_and_policies_are_refused(start: Callable[[str], RunningNode]) -> None:
    node = start("a")
    status, raw = ask(
        node, "PUT", "/api/parameters/federation-upstream/%2F/up", {"value": {"uri": "amqp://u:hush@h:x"}}
    )
    assert (status, b"not a valid URI" in raw, b"hush" in raw) == (400, True, False)
    both = {"federation-upstream": "a", "federation-upstream-set": "b"}
    status, raw = ask(node, "PUT", "/api/policies/%2F/p", {"pattern": ".*", "definition": both})
    assert (status, b"cannot be set together" in raw) == (400, True)


def test_a_ring_of_three_has_each_message_once_and_the_same_bindings_after_rest(
    start: Callable[[str], RunningNode],
) -> None:
    nodes = {name: start(name) for name in NAMES}
    connections = {name: declare_x(node) for name, node in nodes.items()}
    for at, name in enumerate(NAMES):
        federate(nodes[name], nodes[NAMES[at - 1]], "^x$", "exchanges", max_hops=2)
    for name in NAMES:
        channel = connections[name].channel()
        for number in range(BINDINGS):
            channel.queue_bind("q", "x", f"{name}{number}")
            channel.queue_bind("q", "x", f"gone{number}")
            channel.queue_unbind("q", "x", f"gone{number}")
    for at, name in enumerate(NAMES):
        others = (NAMES[(at + 1) % 3], NAMES[(at + 2) % 3])
        wanted = {f"{other}{number}" for other in others for number in range(BINDINGS)}
        until(
            f"{name} has the bindings of the others",
            lambda name=name, wanted=wanted: copied_keys(nodes[name]) == wanted,
        )
    for name in NAMES:
        channel = connections[name].channel()
        for to in NAMES:
            for number in range(BINDINGS):
                channel.basic_publish("x", f"{to}{number}", f"{name} {to}{number}".encode())
    for name in NAMES:
        expected = Counter(f"{source} {name}{number}".encode() for source in NAMES for number in range(BINDINGS))
        until(f"all came to {name}", lambda name=name: waiting(nodes[name], "q") >= 3 * BINDINGS)
        assert Counter(bodies(nodes[name], "q")) == expected
        connections[name].close()


def test_a_queue_takes_messages_while_consumers_wait(start: Callable[[str], RunningNode]) -> None:
    up, down = start("a"), start("b")
    fill(up, "work", 3000)
    fill(down, "work", 0)
    federate(down, up, "^work$", "queues")
    assert running(down)["consumer_tag"] == "federation-link-up"
    assert (waiting(up, "work"), waiting(down, "work")) == (3000, 0)
    taken = drain(down, "work", 3000)
    assert [int(body) for _, body in taken] == list(range(3000))
    (hop,) = taken[0][0].headers["x-received-from"]
    assert (hop["queue"], hop["visit-count"]) == ("work", 1)
    assert taken[0][0].headers["x-original-routing-key"] == "work"


@pytest.mark.parametrize("killed", ["a", "b"])
def test_nothing_is_lost_when_one_end_is_killed(start: Callable[[str], RunningNode], killed: str) -> None:
    nodes = {"a": start("a"), "b": start("b")}
    declare_x(nodes["b"], "k").close()
    federate(nodes["b"], nodes["a"], "^x$", "exchanges", prefetch_count=100)
    running(nodes["b"])
    publish_to_x(nodes["a"], PUBLISHED)
    until("a part has come", lambda: waiting(nodes["b"], "q") > 1000)
    nodes[killed].kill()
    nodes[killed] = start(killed)
    queue = "federation: x -> b"
    until("the upstream's queue is empty", lambda: waiting(nodes["a"], queue) == 0)
    until("all is confirmed", lambda: running(nodes["b"])["unconfirmed"] == 0)
    assert set(map(int, bodies(nodes["b"], "q"))) == set(range(PUBLISHED))
