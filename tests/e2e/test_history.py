"""What the log of a real node says of its clients, read as `leveret-analytics` reads it, without Spark."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pika
import pytest

from analytics.__main__ import main
from analytics.fold.folded_history import QueueHistory
from analytics.fold.lives import LifeState
from analytics.fold.queue_history import folded
from analytics.inputs import log_files
from analytics.jobs.answer import EXIT_HOLDS
from analytics.past.queue_at import QueueAt
from analytics.queue_events import CLASSIC, CLASSIC_KINDS, QUEUE_KINDS, QueueEvent, QueueName
from broker.actors import ActorKind
from node.commands.wal_dump import dump_rows
from storage.history.name_records import ActorRow
from tests.e2e.test_log_export import until
from tests.log_events import said_in_file
from tests.running_node import running_node

QUEUE, TAG = "payments", "taker"


def consume_one(url: str) -> None:
    """A message goes through a quorum queue."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare(QUEUE, durable=True, arguments={"x-queue-type": "quorum"})
    channel.basic_publish("", QUEUE, b"hello", pika.BasicProperties(delivery_mode=2))
    taken: list[int] = []
    channel.basic_consume(QUEUE, lambda _, method, *__: taken.append(method.delivery_tag), consumer_tag=TAG)
    while not taken:
        connection.process_data_events(1)
    channel.basic_ack(taken[0])
    channel.basic_cancel(TAG)
    channel.queue_declare(QUEUE, passive=True)
    connection.close()


def read(data: Path) -> tuple[dict[str, QueueHistory], dict[int, ActorRow]]:
    """The history of each queue by its name, and the actors by their numbers."""
    found: dict[int, list[QueueEvent]] = {}
    names: dict[int, QueueName] = {}
    actors: dict[int, ActorRow] = {}
    for file in log_files([str(data)]):
        for said in said_in_file(file):
            if isinstance(said, QueueEvent):
                found.setdefault(said.queue, []).append(said)
            elif isinstance(said, QueueName):
                if said.kind in QUEUE_KINDS:  # the catalog has the number of a queue, too
                    names[said.queue] = said
            else:
                actors[said.number] = said.row
    return {name.name.rpartition("/")[2]: folded(own(found[queue], name)) for queue, name in names.items()}, actors


def own(events: list[QueueEvent], name: QueueName) -> list[QueueEvent]:
    return [one for one in events if (one.kind in CLASSIC_KINDS) == (name.kind == CLASSIC)]


def test_who_acknowledged_a_message_of_a_quorum_queue_is_told_with_user_and_address() -> None:
    with running_node() as node:
        consume_one(node.amqp_url)
        assert node.stop() == 0
        (histories, actors), declaration = read(node.data_dir), declared(node.data_dir)
    history = histories[QUEUE]
    (life,) = history.lives
    number = history.actor_of(life.last_consumer)
    assert life.state is LifeState.ACKED
    assert number is not None
    consumer = actors[number]
    connection = actors[actors[consumer.parent].parent]
    assert (consumer.kind, consumer.tag, consumer.queue) == (ActorKind.CONSUMER, TAG, QUEUE)
    assert (connection.kind, connection.user, connection.address.partition(":")[0]) == (
        ActorKind.CONNECTION,
        "guest",
        "127.0.0.1",
    )
    assert actors[declaration["actor"]] == connection
    assert declaration["time_ms"] <= life.publish.at
    assert life.publish.actor is not None
    channel = actors[life.publish.actor]
    assert (channel.kind, actors[channel.parent]) == (ActorKind.CHANNEL, connection)
    assert (life.publish.publish_no, life.publish.confirm) == (1, True)


def test_at_level_full_the_log_counts_what_reached_no_queue_with_user_and_exchange(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "leveret.toml"
    config.write_text('[history]\nlevel = "full"\n')
    with running_node("--config", str(config)) as node:
        connection = pika.BlockingConnection(pika.URLParameters(node.amqp_url))
        channel = connection.channel()
        for _ in range(3):
            channel.basic_publish("amq.topic", "orders.new", b"12345", mandatory=True)
        channel.basic_publish("", "no-such-queue", b"x")
        channel.queue_declare("declared", durable=True)  # what was published before has been taken by now
        connection.close()
        assert node.stop() == 0
        assert main(["--data", str(node.data_dir), "--json", "unroutable"]) == EXIT_HOLDS
        shown = [row["says"]["rows"] for row in dump_rows(node.data_dir) if row.get("kind") == "COUNTS"]
    returned, dropped = json.loads(capsys.readouterr().out)["rows"]
    assert (returned["what"], returned["exchange"], returned["routing_key"]) == ("returned", "amq.topic", "orders.new")
    assert (returned["messages"], returned["body_bytes"], returned["user"]) == (3, 15, "guest")
    assert (dropped["what"], dropped["exchange"], dropped["routing_key"]) == ("unroutable", "", "no-such-queue")
    assert dropped["address"].startswith("127.0.0.1:")
    assert sum(row["messages"] for rows in shown for row in rows) == 4


def test_at_level_full_the_log_tells_how_far_a_reader_of_a_stream_is_that_stores_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "leveret.toml"
    config.write_text('[history]\nlevel = "full"\n')
    with running_node("--config", str(config)) as node:
        connection = pika.BlockingConnection(pika.URLParameters(node.amqp_url))
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("letters", durable=True, arguments={"x-queue-type": "stream"})
        for _ in range(5):
            channel.basic_publish("", "letters", b"hello")
        channel.basic_qos(prefetch_count=2)
        arguments = {"x-stream-offset": "first"}
        channel.basic_consume("letters", lambda *_: None, consumer_tag="slow", arguments=arguments)

        def rows() -> Any:
            connection.process_data_events(0)
            assert main(["--data", str(node.data_dir), "--json", "streams", "letters"]) == EXIT_HOLDS
            return json.loads(capsys.readouterr().out)["rows"]

        until(lambda: any(row["read_offset"] == 2 for row in rows()))
        (row,) = rows()
        assert (row["consumer"], row["user"], row["messages"], row["lag_messages"]) == ("slow", "guest", 5, 3)
        connection.close()
        assert node.stop() == 0
        said = [row["says"]["readers"] for row in dump_rows(node.data_dir) if row.get("kind") == "STREAM_READERS"]
        assert said[-1][-1]["has_left"] and said[-1][-1]["offset"] == 2
    capsys.readouterr()


def test_at_level_full_who_has_a_message_of_a_classic_queue_is_told_until_the_node_is_killed(tmp_path: Path) -> None:
    config, data = tmp_path / "leveret.toml", tmp_path / "data"
    config.write_text('[history]\nlevel = "full"\n')

    def said(kind: str) -> list[Any]:
        return [row["says"] for row in dump_rows(data) if row.get("kind") == kind]

    with running_node("--config", str(config), data_dir=data) as node:
        channel = pika.BlockingConnection(pika.URLParameters(node.amqp_url)).channel()
        channel.confirm_delivery()
        channel.queue_declare("orders", durable=True)
        for _ in range(2):
            channel.basic_publish("", "orders", b"hello", pika.BasicProperties(delivery_mode=2))
        assert channel.basic_get("orders")[0] is not None
        until(lambda: bool(said("CLASSIC_OUT")))
        histories, actors = read(data)
        (held,) = [life for life in histories["orders"].lives if life.state is LifeState.OUT]
        assert isinstance(held.last_consumer, int) and held.first_out_at is not None
        assert actors[held.last_consumer].kind == ActorKind.CHANNEL
        is_held = whole_second()
        node.kill()
    with running_node("--config", str(config), data_dir=data) as node:
        is_idle = whole_second()  # nothing has been said of the queue since the kill
        connection = pika.BlockingConnection(pika.URLParameters(node.amqp_url))
        connection.channel().basic_publish("", "orders", b"hello", pika.BasicProperties(delivery_mode=2))
        connection.close()
        assert node.stop() == 0
        is_known = whole_second()
    states = [life.state for life in read(data)[0]["orders"].lives]
    assert states == [LifeState.READY] * 3
    assert [ready_and_out(data, second) for second in (is_held, is_idle, is_known)] == [(1, 1), (None, None), (3, 0)]
    first, *_, last = said("CLASSIC_CHECKPOINT")
    assert (first["ready"], first["out"], last["ready"], last["ready_ranges"]) == (0, 0, 2, [(0, 2)])


def whole_second() -> int:
    """One that has passed, begun after this was asked for."""
    second = int(time.time()) + 1
    until(lambda: time.time() >= second + 1)
    return second


def ready_and_out(data: Path, second: int) -> tuple[int | None, int | None]:
    (row,) = QueueAt(log_files([str(data)]), [], "orders", second).answer().said.rows
    return row["ready"], row["unacknowledged"]


def declared(data: Path) -> dict[str, Any]:
    """What the log says of the declaration of the queue."""
    commands = [one for row in dump_rows(data) for one in row.get("commands", ())]
    found: dict[str, Any]
    (found,) = [one for one in commands if one["command"].startswith(f"declare quorum queue '{QUEUE}' in vhost '/'")]
    return found


def test_at_level_off_the_log_of_a_quorum_queue_names_nobody(tmp_path: Path) -> None:
    config = tmp_path / "leveret.toml"
    config.write_text('[history]\nlevel = "off"\n')
    with running_node("--config", str(config)) as node:
        consume_one(node.amqp_url)
        assert node.stop() == 0
        (histories, actors), declaration = read(node.data_dir), declared(node.data_dir)
    (life,) = histories[QUEUE].lives
    assert life.state is LifeState.ACKED
    assert histories[QUEUE].actor_of(life.last_consumer) is None
    assert (life.publish.actor, life.publish.confirm) == (None, None)
    assert not actors
    assert declaration["actor"] == 0 < declaration["time_ms"], "when, and not by whom"
