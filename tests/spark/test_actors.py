"""Who published messages, and who was given them: `lives` joined with `actors`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from analytics.jobs.answer import EXIT_HOLDS
from tests.running_node import start_node
from tests.spark.conftest import Ask, data_of_a_node, worked_on

pytestmark = pytest.mark.spark

MESSAGES = 5


@pytest.fixture(scope="module")
def consumed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory with the data of a node whose queues were consumed."""
    yield data_of_a_node(tmp_path_factory.mktemp("logs"), consume)


def consume(channel: Any, kind: str) -> None:
    for _ in range(MESSAGES):
        channel.basic_publish("", kind, b"hello", pika.BasicProperties(delivery_mode=2))
    taken: list[Any] = []
    channel.basic_consume(kind, lambda _, method, *__: taken.append(method.delivery_tag), consumer_tag=f"of {kind}")
    while len(taken) < MESSAGES:
        channel.connection.process_data_events(1)
    channel.basic_ack(0, multiple=True)


def test_lives_are_joined_with_who_took_the_messages(ask: Ask, consumed: Path) -> None:
    query = (
        "select a.user, a.tag, a.queue, a.address like '127.0.0.1:%' as is_local, cast(sum(l.count) as long) as n"
        " from lives l join actors a on a.actor = l.last_actor where l.state = 'acked'"
        " and (not contains(l.last_consumer, '/') or a.incarnation = cast(split(l.last_consumer, '/')[1] as long))"
        " group by 1, 2, 3, 4 order by 3"
    )
    code, rows = ask(consumed, "sql", query)
    assert code == EXIT_HOLDS
    assert rows == [
        {"user": "guest", "tag": f"of {kind}", "queue": kind, "is_local": True, "n": MESSAGES}
        for kind in ("classic", "quorum")
    ]


def test_lives_are_joined_with_who_published_the_messages(ask: Ask, consumed: Path) -> None:
    query = (
        "select q.name, a.user, a.address like '127.0.0.1:%' as is_local, l.confirm, cast(sum(l.count) as long) as n"
        " from lives l join queues q using (queue) join actors a on a.actor = l.actor"
        " and (l.process is null or a.incarnation = cast(split(l.process, '/')[1] as long)) group by 1, 2, 3, 4 order by 1"
    )
    code, rows = ask(consumed, "sql", query)
    assert code == EXIT_HOLDS
    assert rows == [
        {"name": f"//{kind}", "user": "guest", "is_local": True, "confirm": True, "n": MESSAGES}
        for kind in ("classic", "quorum")
    ]


def test_clients_of_a_classic_queue_with_one_number_in_two_processes_of_its_node_are_two(
    ask: Ask, tmp_path: Path
) -> None:
    """They were one, with what both had published and taken."""
    for _ in range(2):
        node = start_node(tmp_path / "n1")
        worked_on(node.amqp_url, consume)
        assert node.stop() == 0
    _, rows = ask(tmp_path, "hot", "classic", "--by", "publisher")
    assert len({row["actor"] for row in rows}) == 1, "else nothing is shown here"
    assert [row["messages"] for row in rows] == [MESSAGES] * 2
    _, taken = ask(tmp_path, "sql", "select distinct last_consumer from lives where state = 'acked'")
    classic = [row["last_consumer"] for row in taken if row["last_consumer"].startswith("n1/")]
    assert len(classic) == 2
    query = (
        "select l.last_consumer, a.tag from lives l join actors a on a.actor = l.last_actor"
        " and a.node = split(l.last_consumer, '/')[0] and a.incarnation = cast(split(l.last_consumer, '/')[1] as long)"
        " group by 1, 2"
    )
    _, named = ask(tmp_path, "sql", query)
    assert sorted((row["last_consumer"], row["tag"]) for row in named) == [
        (one, "of classic") for one in sorted(classic)
    ]
