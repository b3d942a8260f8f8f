"""Client libraries, unmodified, with quorum queues of a cluster of three; each is connected to a node of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import aio_pika
import amqpstorm
import kombu
import pika
import pytest

from quorum.fifo.versions import VERSION_NEWEST
from tests.e2e.test_cluster import process_of
from tests.e2e.test_far_queues import channel_to, refused
from tests.e2e.test_quorum_queues import QUORUM, all_are_voters, published
from tests.running_cluster import ROOT, RunningCluster, running_cluster

HEARD_WITHIN_S = 20.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with running_cluster(tmp_path_factory.mktemp("quorum") / "data") as running:
        all_are_voters(running)
        yield running


def url(cluster: RunningCluster, number: int) -> str:
    host, port = cluster.amqp(number)
    return f"amqp://guest:guest@{host}:{port}/"


def browsed(cluster: RunningCluster, number: int, queue: str, *options: str) -> list[Any]:
    command = [sys.executable, "-m", "leveret.ctl", "--node", cluster.grpc(number), "--json", "queue", "browse", queue]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=60, cwd=ROOT, check=True)
    found: list[Any] = json.loads(done.stdout)
    return found


def until_it_is_of_the_newest_version(cluster: RunningCluster, queue: str) -> None:
    """All its members, as soon as its leader has heard from all nodes."""
    command = [sys.executable, "-m", "leveret.ctl", "--node", cluster.grpc(1), "--json", "queue", "status", queue]
    for _ in range(60):
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT, check=True)
        if all(member["machine_version"] == VERSION_NEWEST for member in json.loads(done.stdout)["group"]["members"]):
            return
    raise AssertionError(f"the members of {queue} are of an old version: {done.stdout}")


def test_pika_sees_counts_that_rise_and_a_message_that_fails_too_often_die(cluster: RunningCluster) -> None:
    with channel_to(cluster, 1) as channel, channel_to(cluster, 2) as consumer:
        channel.queue_declare("pika.dead", durable=True, arguments=QUORUM)
        dead_letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "pika.dead"}
        channel.queue_declare("pika.work", durable=True, arguments={**QUORUM, "x-delivery-limit": 1, **dead_letters})
        channel.confirm_delivery()
        until_it_is_of_the_newest_version(cluster, "pika.work")  # before, a nack counts as a failure
        published(channel, "pika.work", range(1))
        counts: list[Any] = []
        for method, properties, _ in consumer.consume("pika.work"):
            counts.append((method.redelivered, properties.headers))
            if len(counts) < 4:
                consumer.basic_nack(method.delivery_tag)
            else:
                consumer.basic_reject(method.delivery_tag)
            if len(counts) == 5:
                break
        consumer.cancel()
        assert counts == [
            (False, None),
            (True, {"x-acquired-count": 1}),
            (True, {"x-acquired-count": 2}),
            (True, {"x-acquired-count": 3}),
            (True, {"x-acquired-count": 4, "x-delivery-count": 1}),
        ]
        for method, properties, body in consumer.consume("pika.dead", auto_ack=True, inactivity_timeout=10):
            assert method is not None, "the message has not died"
            headers = properties.headers
            assert (body, headers["x-first-death-reason"]) == (b"0", "delivery_limit")
            assert (headers["x-acquired-count"], headers["x-delivery-count"]) == (5, 2)
            break
        consumer.cancel()


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_what_was_declared_is_there_on_every_node_at_once(cluster: RunningCluster, kind: str) -> None:
    """Clients that are connected already, so that nothing but the nodes can be late."""
    with channel_to(cluster, 1) as first, channel_to(cluster, 2) as second, channel_to(cluster, 3) as third:
        channels = [first, second, third]
        for channel in channels:
            channel.confirm_delivery()
        for number in range(60):
            declaring, publishing, consuming = (channels[(number + turn) % 3] for turn in range(3))
            queue = f"at.once.{kind}.{number}"
            declaring.queue_declare(queue, durable=True, arguments={"x-queue-type": kind})
            declaring.queue_bind(queue, "amq.topic", f"{queue}.#")
            publishing.basic_publish("", queue, b"named", mandatory=True)
            publishing.basic_publish("amq.topic", f"{queue}.key", b"bound", mandatory=True)
            got = [consuming.basic_get(queue, auto_ack=True)[2] for _ in range(2)]
            assert got == [b"named", b"bound"]
            publishing.queue_delete(queue)


def test_a_message_is_seen_on_every_node_and_stays(cluster: RunningCluster) -> None:
    with channel_to(cluster, 1) as channel:
        channel.queue_declare("seen", durable=True, arguments={**QUORUM, "x-quorum-initial-group-size": 1})
        channel.queue_declare("seen.classic", durable=True)
        channel.confirm_delivery()
        for queue in ("seen", "seen.classic"):
            published(channel, queue, range(3))
            for number in (1, 2, 3):
                bodies = [one["body"] for one in browsed(cluster, number, queue, "--skip", "1")]
                assert bodies == ["1", "2"], f"node {number}, {queue}"
            assert channel.queue_declare(queue, passive=True).method.message_count == 3


def test_what_quorum_queues_do_not_have_is_refused(cluster: RunningCluster) -> None:
    with channel_to(cluster, 3) as channel:
        for what, text in (("exclusive", "exclusive-owner"), ("auto_delete", "auto-delete")):
            with refused(channel.connection.channel(), 406, f"invalid property '{text}' for queue 'q'"):
                channel = channel.connection.channel()
                channel.queue_declare("q", durable=True, arguments=QUORUM, **{what: True})
        with refused(channel, 406, "invalid property 'non-durable' for queue 'q'"):
            channel = channel.connection.channel()
            channel.queue_declare("q", durable=False, arguments=QUORUM)
        channel = channel.connection.channel()
        channel.queue_declare("sac", durable=True, arguments={**QUORUM, "x-single-active-consumer": True})
        with refused(
            channel, 405, "basic.get operations are not supported by quorum queues with single active consumer"
        ):
            channel.basic_get("sac")


def hear(channel: Any, bodies: list[bytes], count: int) -> None:
    until = time.monotonic() + HEARD_WITHIN_S
    while len(bodies) < count and time.monotonic() < until:
        channel.connection.process_data_events(time_limit=1)


def test_the_next_single_active_consumer_begins_at_what_an_ended_channel_held(cluster: RunningCluster) -> None:
    with channel_to(cluster, 2) as channel:
        channel.queue_declare("turns", durable=True, arguments={**QUORUM, "x-single-active-consumer": True})
        channel.confirm_delivery()
        published(channel, "turns", range(4))
        first, second = channel.connection.channel(), channel.connection.channel()
        held: list[bytes] = []
        first.basic_qos(prefetch_count=2)
        first.basic_consume("turns", lambda ch, method, properties, body: held.append(body))
        hear(channel, held, 2)
        got: list[bytes] = []
        second.basic_qos(prefetch_count=4)
        second.basic_consume("turns", lambda ch, method, properties, body: got.append(body))
        first.basic_ack(99)  # the broker ends the channel; pika's close would cancel the consumer first
        hear(channel, got, 4)
        assert (held, got) == ([b"0", b"1"], [b"0", b"1", b"2", b"3"])


def test_pika_commits_a_transaction(cluster: RunningCluster) -> None:
    with channel_to(cluster, 2) as channel:
        channel.queue_declare("tx", durable=True, arguments=QUORUM)
        channel.tx_select()
        channel.basic_publish("", "tx", b"forgotten")
        channel.tx_rollback()
        channel.basic_publish("", "tx", b"kept")
        channel.tx_commit()
        method, _, body = channel.basic_get("tx")
        assert body == b"kept"
        channel.basic_ack(method.delivery_tag)
        channel.tx_rollback()
        channel.basic_ack(method.delivery_tag)
        channel.tx_commit()
        assert channel.basic_get("tx") == (None, None, None)


def test_aio_pika_iterates_over_a_queue_that_is_led_elsewhere(cluster: RunningCluster) -> None:
    async def work() -> list[bytes]:
        there = await aio_pika.connect_robust(url(cluster, 1))
        here = await aio_pika.connect_robust(url(cluster, 2))
        async with there, here:
            channel = await there.channel()
            await channel.declare_queue("aio", durable=True, arguments=QUORUM)
            for number in range(20):
                message = aio_pika.Message(b"%d" % number, priority=5 if number % 2 else 0)
                await channel.default_exchange.publish(message, "aio")
            consuming = await here.channel()
            await consuming.set_qos(5)
            queue = await consuming.declare_queue("aio", durable=True, arguments=QUORUM)
            got: list[bytes] = []
            async with queue.iterator(timeout=10) as messages:
                async for message in messages:
                    async with message.process():
                        got.append(message.body)
                    if len(got) == 20:
                        return got
            return got

    odd, even = ([b"%d" % number for number in range(first, 20, 2)] for first in (1, 0))
    assert asyncio.run(work()) == odd + even


def test_kombu_simple_queue_requeues(cluster: RunningCluster) -> None:
    with kombu.Connection(url(cluster, 3)) as connection:
        queue = connection.SimpleQueue("kombu", queue_args=QUORUM)
        queue.put({"hello": ["world", 1]})
        message = queue.get(timeout=10)
        message.requeue()
        message = queue.get(timeout=10)
        assert (message.payload, message.delivery_info["redelivered"]) == ({"hello": ["world", 1]}, True)
        message.ack()
        queue.close()


def test_amqpstorm_consumes_what_it_published(cluster: RunningCluster) -> None:
    host, port = cluster.amqp(2)
    with amqpstorm.Connection(host, "guest", "guest", port=port) as connection, connection.channel() as channel:
        channel.confirm_deliveries()
        channel.queue.declare("storm", durable=True, arguments=QUORUM)
        for number in range(5):
            assert channel.basic.publish(str(number), "storm") is True
        channel.basic.qos(2)
        channel.basic.consume(queue="storm")
        got = []
        for message in channel.build_inbound_messages(break_on_empty=False):
            got.append(message.body)
            message.ack()
            if len(got) == 5:
                break
        assert got == ["0", "1", "2", "3", "4"]


def test_a_consumer_that_does_not_settle_in_time_is_cancelled(cluster: RunningCluster) -> None:
    with channel_to(cluster, 3) as channel:
        channel.queue_declare("slow", durable=True, arguments={**QUORUM, "x-consumer-timeout": 500})
        channel.confirm_delivery()
        cancelled: list[pika.frame.Method] = []
        channel.add_on_cancel_callback(cancelled.append)
        channel.basic_consume("slow", lambda *_: None)
        published(channel, "slow", range(1))
        for _ in range(100):
            channel.connection.process_data_events(0.1)
            if cancelled:
                break
        assert len(cancelled) == 1
        _, properties, body = channel.basic_get("slow")
        assert (body, properties.headers) == (b"0", {"x-acquired-count": 1})


def test_leveretctl_publish_gives_up_where_no_majority_is_and_says_what_it_waited_for(cluster: RunningCluster) -> None:
    def ctl(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "leveret.ctl", "--node", cluster.grpc(1), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT)

    assert ctl("queue", "declare", "ctl.lonely", "--type", "quorum").returncode == 0
    assert ctl("publish", "x", "--key", "ctl.lonely").returncode == 0
    others = [process_of(cluster, number) for number in (2, 3)]
    for process in others:
        os.kill(process, signal.SIGSTOP)
    try:
        gave_up = ctl("publish", "y", "--key", "ctl.lonely", "--timeout", "3")
    finally:
        for process in others:
            os.kill(process, signal.SIGCONT)
    assert gave_up.returncode == 75, gave_up
    waiting, why, *_ = gave_up.stderr.splitlines()
    assert waiting == "leveretctl: waiting for 1 of 1 confirms of queue 'ctl.lonely'"
    assert why.startswith("leveretctl: waited 3 s for 1 of 1 confirms of queue 'ctl.lonely'; they may still be stored.")
