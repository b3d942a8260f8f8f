"""Delayed messages, published and consumed with pika: they come when their time has come, whoever is killed meanwhile."""

from __future__ import annotations

import math
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, UnroutableError

from quorum.dead_letters import RELEASED_MAX
from tests.bench.client import Client
from tests.bench.delayed import WINDOW, unit
from tests.e2e.test_cluster import on, process_of
from tests.e2e.test_far_queues import channel_to
from tests.e2e.test_quorum_queues import QUORUM, all_are_voters
from tests.running_cluster import RunningCluster, running_cluster
from tests.running_node import RunningNode, running_node, start_node

COMES_WITHIN_S = 30.0
EXCHANGE = "later"
HOLDING = "amq.delayed.later"


@contextmanager
def channel_of(node: RunningNode) -> Iterator[BlockingChannel]:
    with pika.BlockingConnection(pika.URLParameters(node.amqp_url)) as connection:
        yield connection.channel()


def delayed(delay: Any, **properties: Any) -> pika.BasicProperties:
    return pika.BasicProperties(delivery_mode=2, headers={"x-delay": delay}, **properties)


def declared(channel: BlockingChannel, queue: str = "due", kind: str = "direct", **arguments: Any) -> None:
    """The exchange, with a quorum queue bound to it."""
    channel.exchange_declare(
        EXCHANGE, "x-delayed-message", durable=True, arguments={"x-delayed-type": kind, **arguments}
    )
    channel.queue_declare(queue, durable=True, arguments=QUORUM)
    channel.queue_bind(queue, EXCHANGE, "key")
    channel.confirm_delivery()


def published(channel: BlockingChannel, delay_ms: int, body: bytes) -> float:
    """Confirmed; when it was published."""
    at = time.monotonic()
    channel.basic_publish(EXCHANGE, "key", body, delayed(delay_ms), mandatory=True)
    return at


def came(channel: BlockingChannel, count: int, queue: str = "due") -> list[tuple[bytes, float, pika.BasicProperties]]:
    """Body, when it came and properties of so many messages."""
    got: list[tuple[bytes, float, pika.BasicProperties]] = []
    for method, properties, body in channel.consume(queue, inactivity_timeout=COMES_WITHIN_S):
        assert method is not None, f"{len(got)} of {count} messages came, and no more within {COMES_WITHIN_S:g} s"
        got.append((body, time.monotonic(), properties))
        channel.basic_ack(method.delivery_tag)
        if len(got) == count:
            break
    channel.cancel()
    return got


@pytest.fixture(scope="module")
def channel() -> Iterator[BlockingChannel]:
    with running_node() as node, channel_of(node) as channel:
        declared(channel)
        yield channel


@pytest.fixture
def another(channel: BlockingChannel) -> BlockingChannel:
    """One that may be closed by what it does."""
    return channel.connection.channel()


def test_they_come_in_the_order_of_their_times_none_early_and_the_header_is_negative(channel: BlockingChannel) -> None:
    at = {body: (published(channel, delay, body), delay) for delay, body in ((900, b"last"), (300, b"first"))}
    got = came(channel, 2)
    assert [body for body, _, _ in got] == [b"first", b"last"]
    for body, when, properties in got:
        began, delay = at[body]
        assert when - began >= delay / 1000
        assert properties.headers == {"x-delay": -delay}


@pytest.mark.parametrize("delay", [0, -5, 2**62, "soon", True, {}])
def test_what_is_no_delay_is_routed_at_once_and_keeps_its_header(channel: BlockingChannel, delay: Any) -> None:
    channel.basic_publish(EXCHANGE, "key", b"now", delayed(delay), mandatory=True)
    [(body, _, properties)] = came(channel, 1)
    assert (body, properties.headers) == (b"now", {"x-delay": delay})


def test_properties_are_as_they_were_published_and_further_keys_count(channel: BlockingChannel) -> None:
    channel.queue_declare("copy", durable=True)
    channel.queue_bind("copy", EXCHANGE, "hidden")
    headers = {"x-delay": "50", "BCC": ["hidden"], "other": "kept"}
    said = {"message_id": "m", "expiration": "60000", "priority": 3}
    properties = pika.BasicProperties(headers=headers, delivery_mode=2, **said)
    channel.basic_publish(EXCHANGE, "key", b"once", properties)
    for queue in ("due", "copy"):
        [(body, _, found)] = came(channel, 1, queue)
        assert body == b"once"
        assert found.headers == {"x-delay": -50, "other": "kept"}
        assert {name: getattr(found, name) for name in said} == said


def test_what_has_no_queue_when_it_is_due_is_dropped_like_any_other_publish(channel: BlockingChannel) -> None:
    channel.basic_publish(EXCHANGE, "nobody's", b"", delayed(1), mandatory=True)
    published(channel, 100, b"behind it")
    assert [body for body, _, _ in came(channel, 1)] == [b"behind it"]
    with pytest.raises(UnroutableError):
        channel.basic_publish(EXCHANGE, "nobody's", b"", mandatory=True)


def test_a_dead_letter_waits_too(channel: BlockingChannel) -> None:
    dying = {"x-dead-letter-exchange": EXCHANGE, "x-dead-letter-routing-key": "key", "x-message-ttl": 1}
    channel.queue_declare("dying", durable=True, arguments=dying)
    at = time.monotonic()
    channel.basic_publish("", "dying", b"retried", delayed(400))
    [(_, when, properties)] = came(channel, 1)
    assert when - at >= 0.4
    assert (properties.headers["x-delay"], properties.headers["x-last-death-queue"]) == (-400, "dying")


def test_clients_do_not_use_the_queue_in_which_messages_wait(another: BlockingChannel) -> None:
    connection = another.connection
    for use in (
        lambda channel: channel.basic_get(HOLDING),
        lambda channel: channel.basic_consume(HOLDING, lambda *_: None),
        lambda channel: channel.queue_delete(HOLDING),
        lambda channel: channel.queue_bind(HOLDING, "amq.fanout"),
    ):
        with pytest.raises(ChannelClosedByBroker, match="keeps the delayed messages of exchange 'later'"):
            use(connection.channel())
    confirmed = connection.channel()
    confirmed.confirm_delivery()
    with pytest.raises(UnroutableError):
        confirmed.basic_publish("", HOLDING, b"", mandatory=True)


def test_what_waits_is_counted_looked_at_and_cancelled_as_the_messages_of_any_queue(channel: BlockingChannel) -> None:
    for _ in range(3):
        published(channel, 1_000, b"never")
    assert channel.queue_declare(HOLDING, passive=True).method.message_count == 3
    assert channel.queue_purge(HOLDING).method.message_count == 3
    published(channel, 1_100, b"behind them")
    assert [body for body, _, _ in came(channel, 1)] == [b"behind them"]


@pytest.mark.parametrize("arguments", [{}, {"x-delayed-type": "x-delayed-message"}, {"x-delayed-type": 1}])
def test_an_exchange_without_a_type_that_routes_is_refused(another: BlockingChannel, arguments: dict[str, Any]) -> None:
    with pytest.raises(ChannelClosedByBroker, match="'x-delayed-type' must be an existing exchange type"):
        another.exchange_declare("odd", "x-delayed-message", arguments=arguments)


def test_what_waits_goes_with_its_exchange(another: BlockingChannel) -> None:
    for _ in range(2):
        another.exchange_declare("short", "x-delayed-message", arguments={"x-delayed-type": "fanout"})
        another.queue_declare("heard", durable=True)
        another.queue_bind("heard", "short")
        another.basic_publish("short", "", b"never", delayed(300))
        another.exchange_delete("short")
    another.exchange_declare("short", "x-delayed-message", arguments={"x-delayed-type": "fanout"})
    another.queue_bind("heard", "short")
    another.basic_publish("short", "", b"only", delayed(400))
    assert [body for body, _, _ in came(another, 1, "heard")] == [b"only"]


def test_a_node_that_is_killed_loses_none_and_none_comes_early(tmp_path: Path) -> None:
    node = start_node(tmp_path / "data")
    with channel_of(node) as channel:
        declared(channel)
        at = {str(number).encode(): published(channel, 2_000 + number, str(number).encode()) for number in range(50)}
    node.kill()
    node = start_node(tmp_path / "data")
    try:
        with channel_of(node) as channel:
            got = came(channel, 50)
    finally:
        node.stop()
    assert {body for body, _, _ in got} == at.keys()
    assert all(when - at[body] >= 2 for body, when, _ in got)


def test_the_leader_is_killed_and_what_waits_comes_in_time_on_the_other_nodes(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "data") as cluster:
        all_are_voters(cluster)
        with channel_to(cluster, 1) as channel:
            declared(channel)
        with channel_to(cluster, 2) as publisher, channel_to(cluster, 3) as consumer:
            publisher.confirm_delivery()
            bodies = [str(number).encode() for number in range(100)]
            at = {body: published(publisher, 50 * number, body) for number, body in enumerate(bodies)}
            seen_before = len(cluster.lines)
            os.kill(process_of(cluster, 1), signal.SIGKILL)  # it leads: the exchange was declared there
            seen: Counter[bytes] = Counter()
            for method, properties, body in consumer.consume("due", inactivity_timeout=COMES_WITHIN_S):
                assert method is not None, f"{len(seen)} of {len(bodies)} messages came, the others did not"
                assert time.monotonic() - at[body] >= -properties.headers["x-delay"] / 1000
                consumer.basic_ack(method.delivery_tag)
                seen[body] += 1
                if len(seen) == len(bodies):
                    break
            assert seen.keys() == set(bodies), "one that was on its way may come twice, and none is lost"
            cluster.said(r"^n1 +\| ready: ", seen_before)


def killed(cluster: RunningCluster) -> Callable[[], object]:
    """Returns what waits until its node is back: one that is ended while it starts does not end in order."""
    seen_before = len(cluster.lines)
    os.kill(process_of(cluster, 1), signal.SIGKILL)  # it leads: the exchange was declared there
    return lambda: cluster.said(r"^n1 +\| ready: ", seen_before)


def moved(cluster: RunningCluster) -> Callable[[], object]:
    on(cluster.grpc(2), lambda node: node.admin.transfer_queue_leader(HOLDING, "n2"))
    return lambda: None


@pytest.mark.parametrize("leave", [killed, moved])
def test_the_leader_goes_in_the_middle_of_a_release_and_none_is_lost_or_early(
    tmp_path: Path, leave: Callable[[RunningCluster], Callable[[], object]]
) -> None:
    """What was on its way comes twice, and that is at most so many."""
    count, came, seen = 20_000, 0, Counter[bytes]()
    with running_cluster(tmp_path / "data") as cluster:
        all_are_voters(cluster)
        with channel_to(cluster, 1) as channel:
            declared(channel)
        publisher = Client(*cluster.amqp(2))
        with closing(publisher), channel_to(cluster, 3) as consumer:
            due = [time.monotonic() + 6 + number / 5_000 for number in range(count)]
            for at in range(0, count, WINDOW):
                now = time.monotonic()
                units = [
                    unit(math.ceil(1000 * max(0.001, when - now)), b"%.6f" % when) for when in due[at : at + WINDOW]
                ]
                publisher.publish(units, len(units), WINDOW)
            consumer.basic_qos(prefetch_count=WINDOW)
            for method, _, body in consumer.consume("due", inactivity_timeout=COMES_WITHIN_S):
                assert method is not None, f"{len(seen)} of {count} messages came, the others did not"
                assert time.monotonic() >= float(body)
                consumer.basic_ack(method.delivery_tag)
                came += 1
                if came == count // 4:
                    until_it_is_back = leave(cluster)
                if not method.redelivered or body not in seen:
                    seen[body] += 1
                if len(seen) == count:
                    break
        until_it_is_back()
    assert seen.total() - count <= RELEASED_MAX
