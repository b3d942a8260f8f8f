"""Series of single objects: each value stands under its own name, and only for the objects that are asked for."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from broker.counting.flows import FlowCounts
from broker.queues.queue_type import QueueStatistics
from node.watching.object_metrics import EVERYTHING, MetricScope, ObjectMetrics
from stream.queue_figures import ReadingFigures

Shown = dict[str, dict[str, float]]  # by labels, and names of series


def queue(name: str, kind: str = "classic", *, here: bool = True, member: object = None, **figures: float) -> Any:
    statistics = QueueStatistics(**figures)  # type: ignore[arg-type]
    return SimpleNamespace(
        record=SimpleNamespace(id=name, name=name, vhost="v", kind=kind),
        accounted_here=here,
        member=member,
        group=1,
        consumer_count=statistics.consumers,
        counts=lambda: statistics,
        sizes=lambda: statistics,
        reading_figures=lambda: ReadingFigures(segments=11, readers=2, bytes_sent=0, lag=12),
    )


def session(connection: Any, **flows: Any) -> Any:
    numbers = {
        "consumers": 1, "unacknowledged": 2, "unconfirmed": 3, "uncommitted": 4, "prefetch": 5, "global_prefetch": 6,
    }  # fmt: skip
    read = SimpleNamespace(record=SimpleNamespace(name="q"))
    return SimpleNamespace(
        connection=connection,
        vhost="v",
        number=1,
        statistics=lambda: numbers,
        publisher=SimpleNamespace(flows=lambda: FlowCounts(**flows)),
        consumers=lambda: [
            SimpleNamespace(queue=read, no_ack=no_ack, delivered=delivered)
            for no_ack, delivered in ((False, 3), (True, 5), (False, 10))
        ],
    )


class World:
    """A vhost with an exchange, a queue, a stream, a connection and a channel."""

    def __init__(self) -> None:
        figures = {"bytes_in": 1, "bytes_out": 2, "pending_out_bytes": 3, "channels": 4}
        self.connection = SimpleNamespace(name="c", vhost="v", statistics=lambda: figures)
        self.queues = [queue("q")]
        self.sessions = [session(self.connection, published=Counter({"e": 3}), into=Counter({("e", "q"): 2}))]
        self.ended = {"v": {"e": (40, 9), "gone": (7, 9)}, "w": {"e": (500, 9)}}
        self.stream = queue("s", "stream", member="here")
        exchange = SimpleNamespace(name="e", kind="topic")
        self.catalog = SimpleNamespace(
            vhosts={"v": None, "w": None},
            exchanges=lambda vhost: [exchange] if vhost == "v" else [],
            bindings=lambda vhost: iter("abcd"),
            bindings_of_source=lambda vhost, name: iter("abc"),
        )
        status = SimpleNamespace(term=1, commit=2, durable=3, applied=4, snapshot=5)
        self.driver = SimpleNamespace(core=SimpleNamespace(status=lambda: status), commit_latency_s=0.5)

    def metrics(self) -> ObjectMetrics:
        broker: Any = SimpleNamespace(
            catalog=self.catalog,
            queues=lambda: self.queues,
            sessions=lambda: self.sessions,
            connections=lambda: [self.connection],
            ended=SimpleNamespace(exchanges=self.ended),
        )
        quorum: Any = SimpleNamespace(queues={})
        streams: Any = SimpleNamespace(queues={"s": self.stream})
        groups: Any = SimpleNamespace(driver=lambda group: self.driver)
        return ObjectMetrics(broker, quorum, streams, groups)

    def shown(self, family: str, scope: MetricScope = EVERYTHING) -> Shown:
        found = self.metrics().families[family]
        names = [series.name for series in found.series]
        return {row.labels: dict(zip(names, row.values, strict=True)) for row in found.rows(scope) if row is not None}

    def of_queue(self, family: str, **figures: float) -> dict[str, float]:
        self.queues = [queue("q", **figures)]
        return self.shown(family)['vhost="v",queue="q"']


def test_messages_of_a_queue_are_told_under_their_names() -> None:
    assert World().of_queue("queue_coarse_metrics", ready=5, unacknowledged=2) == {
        "queue_messages_ready": 5, "queue_messages_unacked": 2, "queue_messages": 7,
    }  # fmt: skip


def test_sizes_of_a_queue_are_told_under_their_names() -> None:
    figures = {
        "consumers": 1, "consumer_capacity": 0.5, "memory_bytes": 2, "ram": 3, "persistent": 4, "ready_bytes": 50,
        "unacknowledged_bytes": 6, "disk_reads": 7, "disk_writes": 8,
    }  # fmt: skip
    assert World().of_queue("queue_metrics", **figures) == {
        "queue_consumers": 1,
        "queue_consumer_capacity": 0.5,
        "queue_consumer_utilisation": 0.5,
        "queue_process_memory_bytes": 2,
        "queue_messages_ram": 3,
        "queue_messages_persistent": 4,
        "queue_messages_bytes": 56,
        "queue_messages_ready_bytes": 50,
        "queue_messages_unacked_bytes": 6,
        "queue_disk_reads_total": 7,
        "queue_disk_writes_total": 8,
        "stream_segments": 0,
    }


def test_of_a_stream_its_segments_are_told_too() -> None:
    world = World()
    world.queues = [world.stream]
    assert world.shown("queue_metrics")['vhost="v",queue="s"']["stream_segments"] == 11


def test_deliveries_of_a_queue_are_told_under_their_names() -> None:
    counts = {"got": 1, "delivered": 2, "delivered_no_ack": 3, "redelivered": 4, "acknowledged": 5}
    assert World().of_queue("queue_delivery_metrics", **counts) == {
        "queue_get_ack_total": 1,
        "queue_messages_delivered_ack_total": 2,
        "queue_messages_delivered_total": 3,
        "queue_messages_redelivered_total": 4,
        "queue_messages_acked_total": 5,
    }


def test_what_clients_were_given_of_a_replicated_queue_each_node_tells_and_of_a_classic_one_its_home() -> None:
    world = World()
    world.queues = [queue("classic", here=False), queue("quorum", "quorum", here=False)]
    assert list(world.shown("queue_delivery_metrics")) == ['vhost="v",queue="quorum"']
    assert world.shown("queue_coarse_metrics") == world.shown("queue_consumer_count") == {}


def test_a_queue_is_told_of_by_each_node_with_a_member_and_says_which_leads() -> None:
    world = World()
    world.queues = [
        queue("home"),
        queue("led", "quorum", member="here"),
        queue("followed", "stream", here=False, member="here"),
        queue("away", "quorum", here=False),
        queue("of another", here=False),
    ]
    kinds = {"home": "classic", "led": "quorum", "followed": "stream"}
    assert list(world.shown("queue_info")) == [
        f'vhost="v",queue="{name}",queue_type="rabbit_{kind}_queue",'
        f'membership="{"follower" if name == "followed" else "leader"}"'
        for name, kind in kinds.items()
    ]


def test_an_exchange_has_what_channels_have_published_that_are_open_and_that_are_gone() -> None:
    world = World()
    world.sessions *= 2
    total = "exchange_messages_published_total"
    assert world.shown("exchange_metrics", MetricScope("v".__eq__, lambda queue: True)) == {
        'vhost="v",exchange="e"': {total: 40 + 3 + 3},
        'vhost="v",exchange="gone"': {total: 7},
    }


def test_an_exchange_has_the_bindings_that_lead_from_it() -> None:
    assert World().shown("exchange_bindings") == {'vhost="v",exchange="e",type="topic"': {"exchange_bindings": 3}}


def test_a_channel_is_told_of_under_its_names() -> None:
    assert World().shown("channel_metrics") == {
        'channel="c (1)"': {
            "channel_consumers": 1,
            "channel_messages_unacked": 2,
            "channel_messages_unconfirmed": 3,
            "channel_messages_uncommitted": 4,
            "channel_acks_uncommitted": 0,
            "consumer_prefetch": 5,
            "channel_prefetch": 6,
        }
    }


def test_what_consumers_of_a_channel_were_given_of_a_queue_is_one_series_by_how_it_is_acknowledged() -> None:
    assert World().shown("channel_queue_metrics") == {
        'channel="c (1)",vhost="v",queue="q"': {
            "channel_messages_delivered_ack_total": 13,
            "channel_messages_delivered_total": 5,
        }
    }


def test_a_connection_is_told_of_under_its_names() -> None:
    world = World()
    assert world.shown("connection_coarse_metrics") == {
        'connection="c"': {"connection_incoming_bytes_total": 1, "connection_outgoing_bytes_total": 2}
    }
    assert world.shown("connection_metrics") == {
        'connection="c"': {"connection_pending_bytes": 3, "connection_channels": 4}
    }


def test_a_member_is_told_of_under_its_names() -> None:
    assert World().shown("ra_metrics") == {
        'vhost="v",queue="s"': {
            "raft_term": 1,
            "raft_commit_index": 2,
            "raft_last_written_index": 3,
            "raft_last_applied": 4,
            "raft_snapshot_index": 5,
            "raft_commit_latency_seconds": 0.5,
        }
    }


@pytest.mark.parametrize("family", World().metrics().families)
def test_nothing_is_told_of_a_vhost_or_queue_that_is_not_asked_for(family: str) -> None:
    world = World()
    told = world.shown(family)
    assert told, "there is one of each in this world"
    assert world.shown(family, MetricScope(lambda vhost: False, lambda queue: True)) == {}
    of_queues = {labels for labels in told if 'queue="' in labels and not labels.startswith("channel=")}
    others = world.shown(family, MetricScope(lambda vhost: True, lambda queue: False))
    assert set(others) == set(told) - of_queues
