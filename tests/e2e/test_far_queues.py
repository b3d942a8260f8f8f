"""Classic queues used through another node than the one they live on, by a client that knows nothing of it."""

from __future__ import annotations

import base64
import http.client
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.e2e.test_cluster import process_of, status_when, up
from tests.running_cluster import RunningCluster, running_cluster

PERSISTENT = pika.BasicProperties(delivery_mode=2)
WITHIN_S = 60.0


@contextmanager
def channel_to(cluster: RunningCluster, number: int) -> Iterator[BlockingChannel]:
    with channel_at(*cluster.amqp(number)) as channel:
        yield channel


@contextmanager
def channel_at(host: str, port: int) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.ConnectionParameters(host, port, heartbeat=0))
    channel = connection.channel()
    try:
        yield channel
    finally:
        if connection.is_open:
            connection.close()


@contextmanager
def refused(channel: BlockingChannel, code: int, text: str) -> Iterator[None]:
    """The channel ends with it; the test goes on with another one of the same connection."""
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
        yield
    assert (closed.value.reply_code, text in closed.value.reply_text) == (code, True), closed.value.reply_text


def known(channel: BlockingChannel, queue: str) -> BlockingChannel:
    """A channel that knows the queue: a node that has just come may still be told of what was declared before."""
    deadline = time.monotonic() + WITHIN_S
    while True:
        try:
            channel.queue_declare(queue, passive=True)
            return channel
        except pika.exceptions.ChannelClosedByBroker as error:
            assert error.reply_code == 404 and time.monotonic() < deadline, error
            channel = channel.connection.channel()


def counts(channel: BlockingChannel, queue: str) -> tuple[int, int]:
    declared = channel.queue_declare(queue, passive=True).method
    return declared.message_count, declared.consumer_count


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with running_cluster(tmp_path_factory.mktemp("far") / "data", nodes=2) as found:
        status_when(found.grpc(1), lambda status: up(status) == {"n1": True, "n2": True})
        yield found


@pytest.fixture
def home(cluster: RunningCluster) -> Iterator[BlockingChannel]:
    """A client of the node that queues live on, since it declares them there."""
    with channel_to(cluster, 1) as channel:
        yield channel


@pytest.fixture
def far(cluster: RunningCluster) -> Iterator[BlockingChannel]:
    with channel_to(cluster, 2) as channel:
        yield channel


def test_what_is_published_and_confirmed_there_is_counted_got_consumed_and_purged_there(
    home: BlockingChannel, far: BlockingChannel
) -> None:
    home.queue_declare("work", durable=True)
    far.confirm_delivery()
    bodies = [b"%04d" % number + bytes(number * 7 % 3_000) for number in range(300)]
    for body in bodies:
        far.basic_publish("", "work", body, PERSISTENT)
    assert counts(far, "work") == counts(home, "work") == (300, 0)

    method, _, body = far.basic_get("work")
    assert (method.message_count, body) == (299, bodies[0])
    far.basic_reject(method.delivery_tag, requeue=True)
    method, _, body = far.basic_get("work", auto_ack=True)
    assert (method.redelivered, body) == (True, bodies[0])

    far.basic_qos(prefetch_count=7)
    seen = []
    for method, _, body in far.consume("work"):
        seen.append(body)
        if len(seen) == 1:
            assert counts(home, "work") == (292, 1)
        far.basic_ack(method.delivery_tag)
        if len(seen) == 100:
            break
    assert seen == bodies[1:101]
    far.cancel()
    assert counts(far, "work") == (199, 0)
    assert far.queue_purge("work").method.message_count == 199
    assert far.basic_get("work") == (None, None, None)


def test_http_on_another_node_asks_the_queues_own_whether_it_is_empty_and_unused(
    cluster: RunningCluster, home: BlockingChannel, far: BlockingChannel
) -> None:
    """What that node has heard of the queue is a moment old: it deleted queues with messages, and kept empty ones."""

    def delete() -> int:
        web = http.client.HTTPConnection(*cluster.http(2), timeout=20)
        login = {"Authorization": "Basic " + base64.b64encode(b"guest:guest").decode()}
        web.request("DELETE", "/api/queues/%2F/judged?if-empty=true&if-unused=true", headers=login)
        status = web.getresponse().status
        web.close()
        return status

    home.confirm_delivery()
    home.queue_declare("judged", durable=True)
    known(far, "judged")
    for _ in range(10):
        home.basic_publish("", "judged", b"x", PERSISTENT)
        assert delete() == 400, "it has a message"
        home.basic_get("judged", auto_ack=True)
        tag = home.basic_consume("judged", lambda *_: None)
        assert delete() == 400, "it has a consumer"
        home.basic_cancel(tag)
    assert delete() == 204


def test_a_message_of_several_megabytes_travels_both_ways(home: BlockingChannel, far: BlockingChannel) -> None:
    home.queue_declare("large", durable=True)
    far.confirm_delivery()
    body = os.urandom(9 << 20)
    far.basic_publish("", "large", body, PERSISTENT)
    assert far.basic_get("large", auto_ack=True)[2] == body


def test_refusals_have_the_same_words_as_at_home(home: BlockingChannel, far: BlockingChannel) -> None:
    home.queue_declare("refuses", durable=True)
    home.basic_consume("refuses", lambda *_: None, exclusive=True)
    with refused(far, 403, "queue 'refuses' in vhost '/' in exclusive use"):
        far.basic_consume("refuses", lambda *_: None)
    far = far.connection.channel()
    with refused(far, 406, "queue 'refuses' in vhost '/' in use"):
        far.queue_delete("refuses", if_unused=True)
    home.connection.channel().basic_publish("", "refuses-too", b"unroutable")

    home.queue_declare("filled", durable=True)
    home.confirm_delivery()
    home.basic_publish("", "filled", b"x")
    far = far.connection.channel()
    with refused(far, 406, "queue 'filled' in vhost '/' not empty"):
        far.queue_delete("filled", if_empty=True)
    far = far.connection.channel()
    assert far.queue_delete("filled").method.message_count == 1

    owned = home.queue_declare("", exclusive=True).method.queue
    far = far.connection.channel()
    deadline = time.monotonic() + WITHIN_S
    while True:  # until this node has heard of it
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
            far.basic_consume(owned, lambda *_: None)
        far = far.connection.channel()
        if closed.value.reply_code != 404 or time.monotonic() > deadline:
            break
    assert closed.value.reply_code == 405
    far.confirm_delivery()
    far.basic_publish("", owned, b"publishing is for everybody", mandatory=True)
    assert home.basic_get(owned, auto_ack=True)[2] == b"publishing is for everybody"


def test_what_a_closed_channel_held_comes_back_in_its_order(home: BlockingChannel, far: BlockingChannel) -> None:
    home.queue_declare("held", durable=True)
    for number in range(5):
        home.basic_publish("", "held", b"%d" % number)
    far.basic_qos(prefetch_count=3)
    taken = [body for _, (_, _, body) in zip(range(3), far.consume("held"), strict=False)]
    assert taken == [b"0", b"1", b"2"]
    far.connection.close()
    deadline = time.monotonic() + WITHIN_S
    while counts(home, "held") != (5, 0):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    got = [home.basic_get("held", auto_ack=True) for _ in range(5)]
    assert [(method.redelivered, body) for method, _, body in got] == [
        (True, b"0"), (True, b"1"), (True, b"2"), (False, b"3"), (False, b"4"),
    ]  # fmt: skip


def test_a_request_is_answered_by_a_server_on_another_node(home: BlockingChannel, far: BlockingChannel) -> None:
    home.queue_declare("requests", durable=True)
    answers: list[bytes] = []
    far.basic_consume("amq.rabbitmq.reply-to", lambda *found: answers.append(found[3]), auto_ack=True)
    far.basic_publish("", "requests", b"six times seven", pika.BasicProperties(reply_to="amq.rabbitmq.reply-to"))
    request = wait_for(lambda: home.basic_get("requests", auto_ack=True), lambda got: got[0] is not None)
    assert home.queue_declare(request[1].reply_to, passive=True).method.consumer_count == 1
    home.basic_publish("", request[1].reply_to, b"42", mandatory=True)
    wait_for(lambda: far.connection.process_data_events(0.05), lambda _: bool(answers))
    assert answers == [b"42"]


def wait_for(look: Callable[[], Any], holds: Callable[[Any], bool]) -> Any:
    deadline = time.monotonic() + WITHIN_S
    while not holds(found := look()):
        assert time.monotonic() < deadline, found
    return found


def test_when_the_home_node_dies_clients_elsewhere_are_told_and_go_on_when_it_is_back(tmp_path: Path) -> None:
    down = "home node 'n1' of durable queue 'orders' in vhost '/' is down or inaccessible"
    with running_cluster(tmp_path / "data") as cluster:
        status_when(cluster.grpc(2), lambda found: len(found.metadata_voters) == 3 and all(up(found).values()))
        with channel_to(cluster, 1) as home:
            home.queue_declare("orders", durable=True)
        with channel_to(cluster, 2) as far:
            far.confirm_delivery()
            for number in range(3):
                far.basic_publish("", "orders", b"%d" % number, PERSISTENT)
            cancelled: list[object] = []
            taken: list[bytes] = []
            far.add_on_cancel_callback(cancelled.append)
            far.basic_consume("orders", lambda *found: taken.append(found[3]))
            wait_for(lambda: far.connection.process_data_events(0.05), lambda _: len(taken) == 3)

            before = len(cluster.lines)
            stopped = process_of(cluster, 1)
            os.kill(stopped, signal.SIGSTOP)  # as good as dead, and not started again yet
            try:
                wait_for(lambda: far.connection.process_data_events(0.05), lambda _: bool(cancelled))
                with pytest.raises(pika.exceptions.NackError):
                    far.basic_publish("", "orders", b"nobody takes it", PERSISTENT)
                asker = far.connection.channel()
                with refused(asker, 404, down):
                    asker.basic_get("orders")
                asker = far.connection.channel()
                with refused(asker, 404, down):
                    asker.queue_declare("orders", passive=True)
            finally:
                os.kill(stopped, signal.SIGKILL)
            cluster.said(r"^n1 \| ready: ", after=before)

        with channel_to(cluster, 3) as far:
            deadline = time.monotonic() + WITHIN_S
            while True:
                try:
                    assert counts(far, "orders") == (3, 0)
                    break
                except pika.exceptions.ChannelClosedByBroker as error:
                    assert error.reply_code == 404 and time.monotonic() < deadline, error
                    far = far.connection.channel()
            got = [far.basic_get("orders", auto_ack=True) for _ in range(3)]
            assert [body for _, _, body in got] == [b"0", b"1", b"2"]
