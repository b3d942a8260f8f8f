"""The profile `analytics` of deploy/compose.yaml: Spark beside nodes of which one is killed, and what is asked of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.containers.cluster import ContainerCluster
from tests.pika_steps import consumed, declared, published

pytestmark = [pytest.mark.spark_containers, pytest.mark.timeout(900)]  # the first one waits for the image, too

KILLED, ANOTHER = "n2", "n3"
EACH_TIME, LEFT = 150, 40
QUEUE = "orders"
LIFE = ["published", "delivered", "returned", "delivered", "acked"]


def answer(cluster: ContainerCluster, *question: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(cluster.ask("--json", *question))["rows"]
    return rows


def test_what_became_of_messages_is_told_by_spark_and_none_is_missing(cluster_with_spark: ContainerCluster) -> None:
    """One of them was out on the node that is killed: it is told of while the nodes work, all are when they have stopped."""
    cluster = cluster_with_spark
    on_killed, on_another = (cluster.connected(node) for node in (KILLED, ANOTHER))
    declared(on_killed.channel(), QUEUE)
    before = published(on_killed.channel(), QUEUE, "before the kill", EACH_TIME)
    _, _, held = on_killed.channel().basic_get(QUEUE)
    assert held == before[0]
    cluster.container(KILLED).kill()
    after = published(on_another.channel(), QUEUE, "after the kill", EACH_TIME)
    assert consumed(on_another.channel(), QUEUE, 2 * EACH_TIME - 1) == [*before[1:], *after]
    cluster.start_again(KILLED)
    assert consumed(on_another.channel(), QUEUE, 1) == [held]
    published(on_another.channel(), QUEUE, "left", LEFT)

    assert [row["event"] for row in answer(cluster, "life", "--body-holds", held.decode())] == LIFE
    on_another.close()
    cluster.stop_all()
    (proof,) = answer(cluster, "proof", QUEUE)
    fates = {name: proof[name] for name in ("promised", "acked", "present", "unknown", "missing")}
    assert fates == {
        "promised": 2 * EACH_TIME + LEFT,
        "acked": 2 * EACH_TIME,
        "present": LEFT,
        "unknown": 0,
        "missing": 0,
    }
    answer(cluster, "report", "--html", "/tables/report.html")
    report = (cluster.tables() / "report.html").read_text()
    assert "Every message of 1 queue is accounted for." in report
