"""Quorum queues with x-delayed-messages, published to and consumed from with pika: what has a header comes when its time has
come, whoever is killed meanwhile, and is listed and cancelled by queue."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, UnroutableError

import leveret
from tests.e2e.test_cli import ctl, ctl_json
from tests.e2e.test_cluster import process_of
from tests.e2e.test_delayed_messages import COMES_WITHIN_S, came, channel_of
from tests.e2e.test_far_queues import channel_to, known
from tests.e2e.test_http import ask
from tests.e2e.test_management import done, get
from tests.e2e.test_quorum_queues import all_are_voters
from tests.running_cluster import running_cluster
from tests.running_node import RunningNode, running_node, start_node

DELAYING = {"x-queue-type": "quorum", "x-delayed-messages": True}
HOLDING = "amq.delayed-queue.slow"
PATH = "/api/leveret/queues/%2F/slow/delayed"
HOUR_MS = 3_600_000


def declared(channel: BlockingChannel, queue: str = "slow", **arguments: Any) -> None:
    channel.queue_declare(queue, durable=True, arguments={**DELAYING, **arguments})
    channel.confirm_delivery()


def published(channel: BlockingChannel, body: bytes, exchange: str = "", key: str = "slow", **headers: Any) -> float:
    """Confirmed; when it was published."""
    at = time.monotonic()
    properties = pika.BasicProperties(delivery_mode=2, headers=headers or None)
    channel.basic_publish(exchange, key, body, properties, mandatory=True)
    return at


@pytest.fixture(scope="module")
def alone() -> Iterator[RunningNode]:
    with running_node() as node:
        yield node


@pytest.fixture
def channel(alone: RunningNode) -> Iterator[BlockingChannel]:
    with channel_of(alone) as channel:
        declared(channel)
        yield channel
        channel.queue_delete("slow")


def test_what_has_the_header_comes_later_and_the_rest_at_once(channel: BlockingChannel) -> None:
    at = {body: (published(channel, body, **{"x-delay": delay}), delay) for body, delay in ((b"b", 700), (b"a", 300))}
    published(channel, b"now")
    published(channel, b"no delay", **{"x-delay": "soon"})
    got = came(channel, 4, "slow")
    assert [body for body, _, _ in got] == [b"now", b"no delay", b"a", b"b"]
    for body, when, properties in got[2:]:
        began, delay = at[body]
        assert when - began >= delay / 1000
        assert properties.headers == {"x-delay": -delay}


def test_what_is_to_be_delivered_at_a_time_comes_then(channel: BlockingChannel) -> None:
    in_ms = int(time.time() * 1000) + 600
    in_s = datetime.fromtimestamp(int(time.time()) + 2, UTC)
    published(channel, b"timestamp", **{"x-deliver-at": in_s})
    published(channel, b"ms", **{"x-deliver-at": in_ms})
    published(channel, b"past", **{"x-deliver-at": 1_000})
    told = {}
    for body, _, properties in came(channel, 3, "slow"):
        told[body] = properties.headers["x-deliver-at"], time.time()
    assert list(told) == [b"past", b"ms", b"timestamp"]
    assert [at for at, _ in told.values()] == [-1_000, -in_ms, -int(in_s.timestamp()) * 1000]


def test_it_is_routed_when_it_is_published_by_any_exchange_with_further_keys(channel: BlockingChannel) -> None:
    channel.queue_declare("plain", durable=True)
    channel.queue_bind("slow", "amq.topic", "a.#")
    published(channel, b"both", "amq.topic", "a.b", **{"x-delay": 400, "BCC": ["plain"]})
    channel.basic_publish(
        "", "slow", b"both", pika.BasicProperties(headers={"x-delay": 400, "CC": ["plain"]}), mandatory=True
    )
    channel.queue_unbind("slow", "amq.topic", "a.#")
    [(_, at_once, properties)] = came(channel, 1, "plain")
    assert properties.headers == {"x-delay": 400, "CC": ["plain"]}
    for method, _, body in channel.consume("slow", inactivity_timeout=COMES_WITHIN_S):
        assert (method.exchange, method.routing_key, body) == ("amq.topic", "a.b", b"both")
        channel.basic_ack(method.delivery_tag)
        break
    channel.cancel()
    assert time.monotonic() - at_once >= 0.2
    assert len(came(channel, 1, "slow")) == 1
    channel.queue_delete("plain")


def test_a_time_to_live_begins_when_it_goes_on_and_what_dies_says_so(channel: BlockingChannel) -> None:
    channel.queue_declare("dead", durable=True)
    declared(
        channel, "short", **{"x-message-ttl": 100, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    )
    at = published(channel, b"dies", key="short", **{"x-delay": 400})
    [(_, when, properties)] = came(channel, 1, "dead")
    assert when - at >= 0.5
    assert properties.headers["x-delay"] == -400
    [death] = properties.headers["x-death"]
    assert (death["queue"], death["reason"], death["count"]) == ("short", "expired", 1)
    for queue in ("short", "dead"):
        channel.queue_delete(queue)


def test_a_dead_letter_waits_in_a_queue_that_delays(channel: BlockingChannel) -> None:
    dying = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "slow", "x-message-ttl": 1}
    channel.queue_declare("dying", durable=True, arguments=dying)
    at = published(channel, b"retried", key="dying", **{"x-delay": 400})
    [(_, when, properties)] = came(channel, 1, "slow")
    assert when - at >= 0.4
    assert (properties.headers["x-delay"], properties.headers["x-last-death-queue"]) == (-400, "dying")
    channel.queue_delete("dying")


def test_a_queue_that_is_full_gets_it_once_it_has_room(channel: BlockingChannel) -> None:
    declared(channel, "small", **{"x-max-length": 1, "x-overflow": "reject-publish"})
    published(channel, b"first", key="small")
    published(channel, b"waits", key="small", **{"x-delay": 1})
    published(channel, b"waits, too", key="slow", **{"x-delay": 100})
    assert came(channel, 1, "slow")[0][0] == b"waits, too"  # the other was refused meanwhile, or will be
    assert [body for body, _, _ in came(channel, 2, "small")] == [b"first", b"waits"]
    channel.queue_delete("small")


def test_what_waits_stays_when_the_queue_is_purged_and_goes_when_it_is_deleted(channel: BlockingChannel) -> None:
    published(channel, b"kept", **{"x-delay": 300})
    assert channel.queue_purge("slow").method.message_count == 0
    assert came(channel, 1, "slow")[0][0] == b"kept"
    published(channel, b"never", **{"x-delay": 300})
    assert channel.queue_purge(HOLDING).method.message_count == 1
    published(channel, b"never", **{"x-delay": 300})
    channel.queue_delete("slow")
    declared(channel)
    published(channel, b"only", **{"x-delay": 600})
    assert [body for body, _, _ in came(channel, 1, "slow")] == [b"only"]


def test_what_cannot_be_is_refused_with_406(channel: BlockingChannel) -> None:
    for queue, arguments, why in (
        ("odd", {"x-queue-type": "quorum", "x-delayed-messages": "yes"}, "invalid arg 'x-delayed-messages'"),
        ("odd", {"x-queue-type": "classic", "x-delayed-messages": True}, "of queue type rabbit_classic_queue"),
        ("slow", {"x-queue-type": "quorum"}, "inequivalent arg 'x-delayed-messages'"),
    ):
        another = channel.connection.channel()
        with pytest.raises(ChannelClosedByBroker, match=why) as refused:
            another.queue_declare(queue, durable=True, arguments=arguments)
        assert refused.value.reply_code == 406


def test_clients_do_not_use_the_queue_in_which_messages_wait(channel: BlockingChannel) -> None:
    with pytest.raises(ChannelClosedByBroker, match="keeps the delayed messages of queue 'slow'"):
        channel.connection.channel().basic_get(HOLDING)
    with pytest.raises(UnroutableError):
        published(channel, b"", key=HOLDING)


def test_definitions_take_it_along_without_what_waits(alone: RunningNode, channel: BlockingChannel) -> None:
    published(channel, b"never", **{"x-delay": HOUR_MS})
    definitions = get(alone, "/api/definitions/%2F")
    assert [one["name"] for one in definitions["queues"]] == ["slow"]
    channel.queue_delete("slow")
    done(alone, "POST", "/api/definitions/%2F", definitions, status=204)
    assert get(alone, PATH) == []
    published(channel, b"a", **{"x-delay": HOUR_MS})
    assert [one["payload"] for one in get(alone, PATH)] == ["a"]


@pytest.fixture
def waiting(alone: RunningNode, channel: BlockingChannel) -> list[dict[str, Any]]:
    """Three messages, which wait for hours: as listed."""
    for hours, body in ((3, b"c"), (1, b"a"), (2, b"b")):
        published(channel, body, **{"x-delay": hours * HOUR_MS})
    found: list[dict[str, Any]] = get(alone, PATH)
    assert [one["payload"] for one in found] == ["a", "b", "c"]
    return found


def test_they_are_listed_and_cancelled_over_http(alone: RunningNode, waiting: list[dict[str, Any]]) -> None:
    assert [one["payload"] for one in get(alone, f"{PATH}?order=published&limit=2")] == ["c", "a"]
    done(alone, "DELETE", f"{PATH}/{waiting[1]['id']}", status=204)
    assert [one["payload"] for one in get(alone, PATH)] == ["a", "c"]
    assert ask(alone, "DELETE", f"{PATH}/{waiting[1]['id']}")[0] == 404


def test_they_are_listed_and_cancelled_over_grpc(alone: RunningNode, waiting: list[dict[str, Any]]) -> None:
    with leveret.connect_sync(f"{alone.grpc[0]}:{alone.grpc[1]}") as connected:
        found = connected.call(lambda asked: asked.topology.delayed(queue="slow", limit=2))
        assert [(one.id, one.body) for one in found] == [(waiting[0]["id"], b"a"), (waiting[1]["id"], b"b")]
        connected.call(lambda asked: asked.topology.cancel_delayed("", found[0].id, queue="slow"))
        with pytest.raises(leveret.errors.NotFound, match="waits in queue 'slow'"):
            connected.call(lambda asked: asked.topology.cancel_delayed("", found[0].id, queue="slow"))
        left = connected.call(lambda asked: asked.topology.delayed_after(queue="slow"))
        assert [one.body for one in left] == [b"c", b"b"]
        for both in ({}, {"exchange": "amq.direct", "queue": "slow"}):
            with pytest.raises(leveret.errors.InvalidRequest, match="and not both"):
                connected.call(lambda asked, both=both: asked.topology.delayed(**both))


def test_they_are_listed_and_cancelled_on_the_command_line(alone: RunningNode, waiting: list[dict[str, Any]]) -> None:
    assert [one["id"] for one in ctl_json(alone, "delayed", "list", "slow", "--queue")] == [
        one["id"] for one in waiting
    ]
    assert ctl_json(alone, "delayed", "list", "--queue", "slow", "--after", "")[0]["body"] == "c"
    done_ = ctl_json(alone, "delayed", "cancel", "--queue", "slow", waiting[0]["id"], waiting[1]["id"])
    assert done_ == {"queue": "slow", "messages": 2}
    assert [one["body"] for one in ctl_json(alone, "delayed", "list", "slow", "--queue")] == ["c"]
    assert "waits in queue 'slow' (any more)" in ctl(
        alone, "delayed", "cancel", "--queue", "slow", waiting[0]["id"], code=65
    )


def test_messages_wait_for_queues_with_the_argument_only(alone: RunningNode, channel: BlockingChannel) -> None:
    channel.queue_declare("plain", durable=True)
    status, raw = ask(alone, "GET", "/api/leveret/queues/%2F/plain/delayed")
    assert (status, b"declared without x-delayed-messages" in raw) == (400, True)
    assert ask(alone, "GET", "/api/leveret/queues/%2F/none/delayed")[0] == 404
    channel.queue_delete("plain")


def test_who_may_not_read_the_queue_neither_sees_nor_cancels_what_waits(
    alone: RunningNode, waiting: list[dict[str, Any]]
) -> None:
    done(alone, "PUT", "/api/users/late", {"password": "late", "tags": "management"}, status=201)
    rights = {"configure": ".*", "write": ".*", "read": "^other$"}
    done(alone, "PUT", "/api/permissions/%2F/late", rights, status=201)
    assert ask(alone, "GET", PATH, login="late:late")[0] == 401
    assert ask(alone, "DELETE", f"{PATH}/{waiting[0]['id']}", login="late:late")[0] == 401
    assert len(get(alone, PATH)) == 3
    done(alone, "DELETE", "/api/users/late", status=204)


def test_a_node_that_is_killed_loses_none_and_none_comes_early(tmp_path: Path) -> None:
    node = start_node(tmp_path / "data")
    with channel_of(node) as channel:
        declared(channel)
        bodies = [str(number).encode() for number in range(50)]
        at = {body: published(channel, body, **{"x-delay": 2_000 + number}) for number, body in enumerate(bodies)}
    node.kill()
    node = start_node(tmp_path / "data")
    try:
        with channel_of(node) as channel:
            got = came(channel, 50, "slow")
    finally:
        node.stop()
    assert {body for body, _, _ in got} == at.keys()
    assert all(when - at[body] >= 2 for body, when, _ in got)


def test_the_leader_is_killed_and_what_waits_comes_in_time_on_the_other_nodes(tmp_path: Path) -> None:
    """Of both queues: they were declared on the node that is killed."""
    with running_cluster(tmp_path / "data") as cluster:
        all_are_voters(cluster)
        with channel_to(cluster, 1) as channel:
            declared(channel)
        with channel_to(cluster, 2) as publisher, channel_to(cluster, 3) as consumer:
            known(publisher, "slow").confirm_delivery()
            known(consumer, "slow")
            bodies = [str(number).encode() for number in range(100)]
            at = {
                body: published(publisher, body, **{"x-delay": 1 + 50 * number}) for number, body in enumerate(bodies)
            }
            seen_before = len(cluster.lines)
            os.kill(process_of(cluster, 1), signal.SIGKILL)
            seen: Counter[bytes] = Counter()
            for method, properties, body in consumer.consume("slow", inactivity_timeout=COMES_WITHIN_S):
                assert method is not None, f"{len(seen)} of {len(bodies)} messages came, the others did not"
                assert time.monotonic() - at[body] >= -properties.headers["x-delay"] / 1000
                consumer.basic_ack(method.delivery_tag)
                seen[body] += 1
                if len(seen) == len(bodies):
                    break
            assert seen.keys() == set(bodies), "one that was on its way may come twice, and none is lost"
            cluster.said(r"^n1 +\| ready: ", seen_before)
