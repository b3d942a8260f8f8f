"""`leveret-analytics life` about messages of a real node: from its publisher through its queues to its end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from analytics.__main__ import main
from analytics.jobs.answer import EXIT_HOLDS, EXIT_UNKNOWN
from tests.running_node import running_node

MESSAGES = 8
KINDS = ("classic", "quorum")
TAG = "taker"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The data of a node on which the same happened to a queue of each kind: its message 0 was acknowledged, 1 came back and
    was acknowledged then, 2 was rejected and dead-lettered. The others wait."""
    with running_node() as node:
        connection = pika.BlockingConnection(pika.URLParameters(node.amqp_url))
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("dead", durable=True)
        for kind in KINDS:
            to_dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
            channel.queue_declare(kind, durable=True, arguments={"x-queue-type": kind, **to_dead})
            for number in range(MESSAGES):
                sent = pika.BasicProperties(delivery_mode=2, message_id=f"{kind}-{number}", headers={"number": number})
                channel.basic_publish("", kind, f"body {number} of {kind}".encode(), sent)
            settle(channel, kind)
        channel.queue_declare("dead", passive=True)
        connection.close()
        assert node.stop() == 0
        yield node.data_dir


def settle(channel: Any, queue: str) -> None:
    tags: list[int] = []
    channel.basic_qos(prefetch_count=3)
    channel.basic_consume(queue, lambda _, method, *__: tags.append(method.delivery_tag), consumer_tag=TAG)
    await_deliveries(channel, tags, 3)
    channel.basic_ack(tags[0])
    channel.basic_reject(tags[2], requeue=False)
    channel.basic_nack(tags[1], requeue=True)
    await_deliveries(channel, tags, 6)
    channel.basic_ack(next(tag for tag in tags[3:]))
    channel.basic_cancel(TAG)


def await_deliveries(channel: Any, tags: list[int], count: int) -> None:
    while len(tags) < count:
        channel.connection.process_data_events(1)


def ask(capsys: pytest.CaptureFixture[str], data: Path, *arguments: str) -> list[dict[str, Any]]:
    assert main(["--data", str(data), "--json", "life", *arguments]) == EXIT_HOLDS
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["rows"]
    return rows


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_is_found_by_its_id_and_says_who_acknowledged_it(
    capsys: pytest.CaptureFixture[str], data: Path, kind: str
) -> None:
    rows = ask(capsys, data, "--message-id", f"{kind}-0")
    told = [row["event"] for row in rows if row["event"] != "delivered"]  # a classic queue's log does not tell of all
    assert told == ["published", "acked"]
    assert rows[0]["queue"] == f"//{kind}" and rows[0]["routing_key"] == kind
    assert rows[0]["at"] <= rows[-1]["at"]
    assert TAG in rows[-1]["by"] and "guest" in rows[-1]["by"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_came_back_is_told_with_its_reason(capsys: pytest.CaptureFixture[str], data: Path, kind: str) -> None:
    rows = ask(capsys, data, "--header", "number=1")
    mine = [row for row in rows if row["message_id"] == f"{kind}-1" or row["queue"] == f"//{kind}"]
    reasons = [row["reason"] for row in mine if row["event"] == "returned"]
    assert reasons[0] in ("nacked", "released")


@pytest.mark.parametrize("kind", KINDS)
def test_a_dead_letter_is_followed_forwards_and_backwards(
    capsys: pytest.CaptureFixture[str], data: Path, kind: str
) -> None:
    """Of a quorum queue too: its group has another number than the queue that the record of the death names."""
    forwards = ask(capsys, data, "--body-holds", f"body 2 of {kind}")
    sequence = str(KINDS.index(kind))
    assert ask(capsys, data, "--at", "dead", sequence) == forwards
    there = [row for row in forwards if row["queue"] == f"//{kind}"]
    assert there[-1]["event"] == "rejected" and there[-1]["became"] == [f"//dead, sequence {sequence}"]
    (letter,) = [row for row in forwards if row["queue"] == "//dead"]
    assert letter["event"] == "published" and f"//{kind}" in letter["dead_letter_of"]


def test_people_read_lines(capsys: pytest.CaptureFixture[str], data: Path) -> None:
    assert main(["--data", str(data), "life", "--message-id", "quorum-2"]) == EXIT_HOLDS
    said = capsys.readouterr().out
    assert said.startswith("read: 1 node (")
    for part in (
        "//quorum, place",
        "published with key 'quorum'",
        f"rejected by consumer '{TAG}' of guest",
        "dead letter: //dead",
    ):
        assert part in said


def test_what_is_nowhere_is_unknown(capsys: pytest.CaptureFixture[str], data: Path) -> None:
    assert main(["--data", str(data), "life", "--message-id", "never"]) == EXIT_UNKNOWN
    assert "no such message" in capsys.readouterr().out
    assert main(["--data", str(data), "life", "--at", "classic", "eight"]) == 64
