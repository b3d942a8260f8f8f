"""Shovels on real nodes: what they move, what they say of themselves, and that nothing is lost when an end of them dies."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from tests.e2e.test_cli import ctl, ctl_json
from tests.e2e.test_http import ask
from tests.ports import free_ports
from tests.running_node import RunningNode, running_node, start_node

MOVED_WITHIN_S = 60.0
LOST = 20_000  # messages that have to survive


def declare(node: RunningNode, name: str, **value: Any) -> None:
    body = {"value": {key.replace("_", "-"): one for key, one in value.items()}}
    status, raw = ask(node, "PUT", f"/api/parameters/shovel/%2F/{name}", body)
    assert status in (201, 204), raw


def status_of(node: RunningNode, name: str) -> dict[str, Any] | None:
    status, raw = ask(node, "GET", f"/api/shovels/vhost/%2F/{name}")
    return json.loads(raw) if status == 200 else None


def until(what: str, is_so: Callable[[], Any], within_s: float = MOVED_WITHIN_S) -> Any:
    deadline = time.monotonic() + within_s
    while not (found := is_so()):
        assert time.monotonic() < deadline, f"not so within {within_s} s: {what}"
        time.sleep(0.05)  # between two questions: what is waited for happens in another process
    return found


def in_state(node: RunningNode, name: str, state: str) -> dict[str, Any]:
    def has() -> dict[str, Any] | None:
        found = status_of(node, name)
        return found if found is not None and found["state"] == state else None

    found: dict[str, Any] = until(f"shovel {name} is {state}", has)
    return found


def connect(node: RunningNode) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.URLParameters(node.amqp_url))


def fill(node: RunningNode, queue: str, count: int, first: int = 0, **properties: Any) -> None:
    """With confirms, so that none of them may be lost."""
    connection = connect(node)
    channel = connection.channel()
    channel.queue_declare(queue, durable=True)
    channel.tx_select()
    for number in range(first, first + count):
        channel.basic_publish("", queue, b"%d" % number, pika.BasicProperties(delivery_mode=2, **properties))
    channel.tx_commit()
    connection.close()


def drain(node: RunningNode, queue: str, count: int) -> list[tuple[pika.BasicProperties, bytes]]:
    """Takes so many messages, and everything that comes with them."""
    connection = connect(node)
    channel = connection.channel()
    taken: list[tuple[pika.BasicProperties, bytes]] = []
    for method, properties, body in channel.consume(queue, auto_ack=True, inactivity_timeout=MOVED_WITHIN_S):
        assert method is not None, f"{len(taken)} of {count} messages came"
        taken.append((properties, body))
        if len(taken) >= count:
            break
    connection.close()
    return taken


def waiting(node: RunningNode, queue: str) -> int:
    connection = connect(node)
    try:
        return int(connection.channel().queue_declare(queue, passive=True).method.message_count)
    finally:
        connection.close()


@pytest.fixture
def other() -> Iterator[RunningNode]:
    with running_node("--name", "other") as node:
        yield node


LOCAL = "amqp://guest:guest@/%2f"


def uri(node: RunningNode) -> str:
    return f"amqp://guest:guest@{node.amqp[0]}:{node.amqp[1]}/%2f"


def test_a_queue_is_moved_to_another_broker_in_order(node: RunningNode, other: RunningNode) -> None:
    fill(node, "moved", 3000)
    declare(node, "over", src_uri=LOCAL, src_queue="moved", dest_uri=uri(other), dest_queue="arrived")
    assert [int(body) for _, body in drain_when_there(other, "arrived", 3000)] == list(range(3000))
    found = in_state(node, "over", "running")
    assert (found["src_queue"], found["dest_queue"], found["type"]) == ("moved", "arrived", "dynamic")
    assert found["forwarded"] == 3000
    assert b'leveret_shovel_forwarded_total{shovel="over",vhost="/"} 3000.0' in ask(node, "GET", "/metrics")[1]
    assert "guest" not in json.dumps(found)
    assert ask(node, "DELETE", "/api/shovels/vhost/%2F/over")[0] == 204
    until("the shovel is gone", lambda: status_of(node, "over") is None)


def drain_when_there(node: RunningNode, queue: str, count: int) -> list[tuple[pika.BasicProperties, bytes]]:
    def there() -> bool:
        try:
            return waiting(node, queue) >= 0
        except pika.exceptions.ChannelClosedByBroker:
            return False

    until(f"{queue} is declared", there)
    return drain(node, queue, count)


def test_it_ends_by_itself_when_the_queue_that_was_there_is_moved(node: RunningNode) -> None:
    fill(node, "emptied", 500)
    declare(
        node, "once", src_uri=LOCAL, src_queue="emptied", dest_uri=LOCAL, dest_queue="filled",
        src_delete_after="queue-length",
    )  # fmt: skip
    until("its parameter is gone", lambda: ask(node, "GET", "/api/parameters/shovel/%2F/once")[0] == 404)
    assert (waiting(node, "emptied"), waiting(node, "filled")) == (0, 500)


def test_so_many_messages_and_no_more(node: RunningNode) -> None:
    fill(node, "some", 500)
    declare(
        node, "few", src_uri=LOCAL, src_queue="some", dest_uri=LOCAL, dest_queue="taken", src_delete_after=123
    )  # fmt: skip
    until("its parameter is gone", lambda: ask(node, "GET", "/api/parameters/shovel/%2F/few")[0] == 404)
    until("what it held is back", lambda: waiting(node, "some") == 500 - 123)
    assert waiting(node, "taken") == 123
    assert [int(body) for _, body in drain(node, "taken", 123)] == list(range(123))


def test_from_an_exchange_with_headers_and_properties_that_it_adds(node: RunningNode) -> None:
    connection = connect(node)
    channel = connection.channel()
    channel.queue_declare("bound", durable=True)
    declare(
        node, "headers", src_uri=LOCAL, src_exchange="amq.topic", src_exchange_key="a.#", dest_uri=LOCAL,
        dest_queue="bound", dest_add_forward_headers=True, dest_add_timestamp_header=True,
        dest_publish_properties={"content_type": "text/plain"},
    )  # fmt: skip
    in_state(node, "headers", "running")
    given = pika.BasicProperties(message_id="m", headers={"own": 1})
    channel.basic_publish("amq.topic", "a.b", b"text", given)
    ((properties, body),) = drain(node, "bound", 1)
    assert (body, properties.message_id, properties.content_type) == (b"text", "m", "text/plain")
    assert properties.headers["own"] == 1
    (entry,) = properties.headers["x-shovelled"]
    assert (entry["shovel-name"], entry["shovel-vhost"], entry["src-exchange"]) == ("headers", "/", "amq.topic")
    assert entry["src-uri"] == "amqp://"
    assert abs(properties.headers["x-shovelled-timestamp"] - time.time()) < 60
    connection.close()
    assert ask(node, "DELETE", "/api/parameters/shovel/%2F/headers")[0] == 204


def test_a_message_that_no_queue_wants_is_not_lost(node: RunningNode) -> None:
    connection = connect(node)
    channel = connection.channel()
    channel.exchange_declare("picky", "direct")
    channel.queue_declare("wanted")
    channel.queue_bind("wanted", "picky", "good")
    for key in ("bad", "good"):
        channel.queue_declare("mixed", durable=True)
        channel.exchange_declare("entry", "fanout")
        channel.queue_bind("mixed", "entry")
        channel.basic_publish("entry", key, key.encode())
    declare(node, "picky", src_uri=LOCAL, src_queue="mixed", dest_uri=LOCAL, dest_exchange="picky", reconnect_delay=1)
    assert drain(node, "wanted", 1)[0][1] == b"good"
    found = until("one came back", lambda: (one := status_of(node, "picky")) and one["returned"] and one)
    assert "NO_ROUTE: no queue takes messages for exchange 'picky' with key 'bad'" in found["reason"]
    channel.queue_bind("wanted", "picky", "bad")
    assert drain(node, "wanted", 1)[0][1] == b"bad"
    connection.close()
    assert ask(node, "DELETE", "/api/parameters/shovel/%2F/picky")[0] == 204


def test_an_end_that_cannot_be_reached_is_said_with_its_reason_and_tried_again(node: RunningNode) -> None:
    fill(node, "stuck", 1)
    declare(
        node, "nowhere", src_uri=LOCAL, src_queue="stuck", dest_uri="amqp://u:secret@127.0.0.1:1", dest_queue="x",
        reconnect_delay=1,
    )  # fmt: skip
    found = in_state(node, "nowhere", "terminated")
    assert found["reason"].startswith("destination: cannot connect to 127.0.0.1 port 1")
    until("it is tried again", lambda: (status_of(node, "nowhere") or {})["restarts"] > 1)
    assert "secret" not in node.log.read_text() + json.dumps(status_of(node, "nowhere"))
    assert ask(node, "DELETE", "/api/shovels/vhost/%2F/nowhere")[0] == 204
    assert waiting(node, "stuck") == 1


def test_a_wrong_password_is_said_and_not_the_password(node: RunningNode) -> None:
    declare(node, "stranger", src_uri=LOCAL, src_queue="q", dest_uri="amqp://guest:hush@/", dest_queue="x")
    found = in_state(node, "stranger", "terminated")
    assert "403 ACCESS_REFUSED" in found["reason"]
    assert "hush" not in node.log.read_text() + json.dumps(found)
    assert ask(node, "DELETE", "/api/shovels/vhost/%2F/stranger/restart")[0] == 204
    assert ask(node, "DELETE", "/api/shovels/vhost/%2F/stranger")[0] == 204
    assert ask(node, "DELETE", "/api/shovels/vhost/%2F/stranger/restart")[0] == 404


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"src-uri": "amqp://u:p@h", "src-queue": "q"}, 'Key \\"dest-uri\\" not found in wrong'),
        ({"src-uri": "amqp://u:p@h", "dest-uri": "amqp://u:p@h"}, "Must specify 'src-exchange' or 'src-queue'"),
        ({"src-uri": "amqp://u:hush@h:x", "dest-uri": "amqp://h", "src-queue": "q"}, "not a valid URI"),
    ],
)
def test_what_is_no_shovel_is_refused_with_what_is_wrong(node: RunningNode, value: Any, why: str) -> None:
    status, raw = ask(node, "PUT", "/api/parameters/shovel/%2F/wrong", {"value": value})
    assert status == 400
    assert why in raw.decode() and "hush" not in raw.decode()


NODES = ("source", "destination", "own")


class TestNothingIsLost:
    """20,000 messages, on-confirm, and kill -9 while they move."""

    @pytest.fixture
    def start(self, tmp_path: Path) -> Callable[[str], RunningNode]:
        """Starts a node, or starts it again where it was."""
        ports = dict(zip(NODES, zip(*[iter(free_ports(3 * len(NODES)))] * 3, strict=True), strict=True))

        def started(name: str) -> RunningNode:
            where = [part for to, port in zip(("amqp", "grpc", "http"), ports[name], strict=True)
                     for part in (f"--{to}", f"127.0.0.1:{port}")]  # fmt: skip
            return start_node(tmp_path / name, "--name", name, *where)

        return started

    @pytest.mark.parametrize("killed", NODES)
    def test_when_one_of_the_three_nodes_is_killed(self, start: Callable[[str], RunningNode], killed: str) -> None:
        nodes = {name: start(name) for name in NODES}
        try:
            fill(nodes["source"], "from", LOST)
            declare(
                nodes["own"], "mover", src_uri=uri(nodes["source"]), src_queue="from", src_prefetch_count=100,
                dest_uri=uri(nodes["destination"]), dest_queue="to", reconnect_delay=1,
            )  # fmt: skip
            until("a part has moved", lambda: (status_of(nodes["own"], "mover") or {}).get("forwarded", 0) > 1000)
            nodes[killed].kill()
            nodes[killed] = start(killed)
            until("the source is empty", lambda: waiting(nodes["source"], "from") == 0)
            in_state(nodes["own"], "mover", "running")
            until("all is confirmed", lambda: (status_of(nodes["own"], "mover") or {}).get("unconfirmed") == 0)
            moved = waiting(nodes["destination"], "to")
            bodies = [int(body) for _, body in drain(nodes["destination"], "to", moved)]
            assert set(bodies) == set(range(LOST))
            if killed != "source":  # which loses acknowledgements that it has not written yet
                assert len(bodies) <= LOST + 100, "at most what was on its way came twice"
        finally:
            for one in nodes.values():
                one.kill()


def test_one_is_added_looked_at_restarted_and_deleted_from_the_command_line(node: RunningNode) -> None:
    fill(node, "cli.from", 20)
    add = ("shovel", "add", "cli", "--source-uri", LOCAL, "--source-queue", "cli.from", "--dest-uri", LOCAL)
    ctl(node, *add, "--dest-queue", "cli.to")
    assert "there is a shovel 'cli' in vhost '/' already" in ctl(node, *add, code=65)
    assert "src-predeclared should be boolean" in ctl(node, *add, "--replace", "-k", "src-predeclared=7", code=65)
    until("all are moved", lambda: ctl_json(node, "shovel", "status", "cli")["forwarded"] == 20)
    (listed,) = ctl_json(node, "shovel", "list")
    assert (listed["source"]["queue"], listed["destination"]["queue"], listed["remaining"]) == (
        "cli.from",
        "cli.to",
        -1,
    )
    ctl(node, "shovel", "restart", "cli")
    until("it began again", lambda: ctl_json(node, "shovel", "status", "cli")["restarts"] == 1)
    assert "guest" not in ctl(node, "--json", "shovel", "list")
    ctl(node, "shovel", "delete", "cli")
    until("it is gone", lambda: not ctl_json(node, "shovel", "list"))
    assert "no shovels run in vhost '/'" in ctl(node, "shovel", "list")
    assert "no shovel 'cli'" in ctl(node, "shovel", "restart", "cli", code=65)


def test_one_of_the_configuration_file_runs_until_its_file_says_otherwise(tmp_path: Path, other: RunningNode) -> None:
    fill(other, "static.from", 50)
    ends = f'src-uri = "{uri(other)}"\nsrc-queue = "static.from"\ndest-uri = "{uri(other)}"\ndest-queue = "static.to"\n'
    config = tmp_path / "leveret.toml"
    config.write_text(f'[[shovel]]\nname = "fixed"\n{ends}')
    with running_node("--config", str(config), data_dir=tmp_path / "data") as node:
        until("all are moved", lambda: (status_of(node, "fixed") or {}).get("forwarded") == 50)
        assert (status_of(node, "fixed") or {})["type"] == "static"
        status, raw = ask(node, "DELETE", "/api/shovels/vhost/%2F/fixed")
        assert (status, b"is of the configuration file" in raw) == (400, True)
        assert "is of the configuration file" in ctl(node, "shovel", "delete", "fixed", code=65)
        assert ask(node, "DELETE", "/api/shovels/vhost/%2F/fixed/restart")[0] == 204
        until("it began again", lambda: (status_of(node, "fixed") or {}).get("restarts") == 1)


def test_it_ends_by_itself_after_a_while(node: RunningNode) -> None:
    fill(node, "timed", 30)
    declare(
        node, "while", src_uri=LOCAL, src_queue="timed", dest_uri=LOCAL, dest_queue="timed.to",
        src_delete_after_duration=1.5,
    )  # fmt: skip
    until("its parameter is gone", lambda: ask(node, "GET", "/api/parameters/shovel/%2F/while")[0] == 404)
    assert (waiting(node, "timed"), waiting(node, "timed.to")) == (0, 30)
