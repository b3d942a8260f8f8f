"""A classic queue is converted in real processes, which are killed meanwhile: what was confirmed is there, in its order."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.e2e.test_cluster import process_of
from tests.e2e.test_management_cluster import ask, until
from tests.running_cluster import RunningCluster, running_cluster

COUNT = 20_000
WITHIN_S = 30.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with running_cluster(Path(tmp_path_factory.mktemp("conversion"))) as running:
        yield running


def channel_to(cluster: RunningCluster, number: int) -> BlockingChannel:
    return pika.BlockingConnection(pika.ConnectionParameters(*cluster.amqp(number), heartbeat=0)).channel()


def filled(cluster: RunningCluster, name: str) -> list[bytes]:
    """A classic queue on node 1 that has so many messages on disk, in runs."""
    channel = channel_to(cluster, 1)
    channel.queue_declare(name, durable=True)
    bodies = [str(number).encode() for number in range(COUNT)]
    for body in bodies:
        channel.basic_publish("", name, body, pika.BasicProperties(delivery_mode=2))
    channel.confirm_delivery()
    channel.basic_publish("", name, b"last", pika.BasicProperties(delivery_mode=2))
    return [*bodies, b"last"]


def conversion(cluster: RunningCluster, node: int, method: str, name: str, **body: Any) -> tuple[int, Any]:
    status, told, _ = ask(cluster, node, method, f"leveret/queues/%2F/{name}/conversion", body or None)
    return status, told


def begins(cluster: RunningCluster, node: int, name: str) -> bool:
    """Also where it is a quorum queue already."""
    status, _ = conversion(cluster, node, "POST", name, dry_run=False)
    return status == 202 or state(cluster, node, name) == "quorum"


def state(cluster: RunningCluster, node: int, name: str) -> str:
    status, told = conversion(cluster, node, "GET", name)
    return str(told["state"]) if status == 200 else ""


def drained(cluster: RunningCluster, node: int, name: str, last: bytes) -> list[bytes]:
    got: list[bytes] = []
    for method, _, body in channel_to(cluster, node).consume(name, auto_ack=True, inactivity_timeout=WITHIN_S):
        assert method is not None, f"{len(got)} messages came, and no more within {WITHIN_S:g} s"
        got.append(body)
        if body == last:
            return got
    raise AssertionError("the consumer was cancelled")


def test_a_dry_run_tells_what_would_come_of_it_and_changes_nothing(cluster: RunningCluster) -> None:
    channel = channel_to(cluster, 1)
    channel.queue_declare("looked.at", durable=True)
    until(lambda: conversion(cluster, 2, "POST", "looked.at", dry_run=True)[0] == 200)
    _, told = conversion(cluster, 2, "POST", "looked.at", dry_run=True)
    assert told["arguments"]["x-queue-type"] == "quorum" and told["state"] == "classic"
    assert state(cluster, 1, "looked.at") == "classic"


def test_what_quorum_queues_lack_is_refused_before_anything_begins(cluster: RunningCluster) -> None:
    channel_to(cluster, 1).queue_declare("ranked", durable=True, arguments={"x-max-priority": 5})
    status, told = conversion(cluster, 1, "POST", "ranked", dry_run=False)
    assert status == 400 and "quorum queues have no 'x-max-priority'" in str(told)


@pytest.mark.parametrize("wait_s", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("node", [1, 2])
def test_a_node_is_killed_while_a_queue_is_converted(cluster: RunningCluster, node: int, wait_s: float) -> None:
    """The home, or another one; `wait_s` later than the conversion began, so it is at one step or another."""
    name = f"killed.{node}.{wait_s}"
    bodies = filled(cluster, name)
    until(lambda: begins(cluster, 1, name))
    time.sleep(wait_s)
    seen = len(cluster.lines)
    os.kill(process_of(cluster, node), signal.SIGKILL)
    cluster.said(rf"^n{node} +\| ready: ", seen)
    until(lambda: begins(cluster, 3, name) and state(cluster, 3, name) == "quorum")
    assert drained(cluster, 3, name, b"last") == bodies


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("node", [1, 2])
def test_who_held_as_much_as_it_may_is_given_more_once_it_has_settled_that(
    cluster: RunningCluster, node: int, at_once: bool
) -> None:
    """What it held comes again. Of a queue in which nothing else went on it never came: the queue that was woken was gone."""
    name, held = f"held.{node}.{at_once}", 40
    filled(cluster, name)
    channel = channel_to(cluster, node)
    channel.basic_qos(prefetch_count=held)
    tags: list[int] = []
    again: list[bool] = []

    def take(_: object, method: Any, __: object, ___: bytes) -> None:
        tags.append(method.delivery_tag)
        again.append(method.redelivered)

    channel.basic_consume(name, take)
    until(lambda: channel.connection.process_data_events(0.05) or len(tags) == held)
    until(lambda: begins(cluster, 1, name) and state(cluster, node, name) == "quorum")
    channel.connection.process_data_events(0.2)
    for tag in [tags[held - 1]] if at_once else tags[:held]:
        channel.basic_ack(tag, multiple=at_once)
    until(lambda: channel.connection.process_data_events(0.05) or len(tags) == 2 * held)
    assert again == [False] * held + [True] * held
    channel.connection.close()
