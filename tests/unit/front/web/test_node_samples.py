"""What a node counts for charts and overviews: whose counts go where, and what is left out."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter, deque
from collections.abc import Iterator
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from broker.counting.counters import Counters
from broker.node_queues import Totals
from broker.queues.queue_type import QueueStatistics
from front.web.samples import fresh_sums, node_samples, sampler
from front.web.samples.books import STEP_S
from front.web.samples.fresh_sums import FreshSums
from front.web.samples.node_samples import NodeSamples, counts_row, deliveries_row, node_row, overview_row
from front.web.samples.node_sums import DATA_AT, SESSION_AT, NodeSums, session_row, walked
from front.web.samples.sampler import COLLECTED_EVERY, Sampler, with_young_collected
from front.web.samples.shapes import NODE, OVERVIEW, QUEUE, SESSION
from tests.unit.front.web.test_api import client

CONNECTION = client("root", statistics=lambda: {"bytes_in": 100, "bytes_out": 7})


class Channel(SimpleNamespace):
    """What is taken of a session."""


class Traffic:
    """One connection with one channel, a queue that is counted here and one that is counted elsewhere, a stream's client, and
    what has ended."""

    def __init__(self) -> None:
        flows = SimpleNamespace(
            published=Counter({"e": 5, "f": 1}), routed=Counter({"e": 4}), into=Counter({("e", "q"): 4})
        )
        self.consumers = [self.consumer("by hand", False, 3), self.consumer("at once", True, 2)]
        self.session = Channel(
            vhost="v",
            number=1,
            connection=CONNECTION,
            counters=Counters(published=5, delivered=2),
            publisher=SimpleNamespace(flows=lambda: flows),
            consumers=lambda: self.consumers,
        )
        here = QueueStatistics(ready=20, unacknowledged=3, disk_reads=4, disk_writes=5)
        elsewhere = QueueStatistics(ready=1_000, unacknowledged=1_000, disk_reads=1_000)
        self.all_queues = [self.queue(1, True, here), self.queue(2, False, elsewhere)]
        self.streams = [SimpleNamespace(connection=CONNECTION, counters=Counters(published=10))]
        self.ended = SimpleNamespace(
            counters={("AMQP 0-9-1", "v"): Counters(published=200)},
            bytes={"v": (3_000, 40)},
            exchanges={"v": {"e": (60, 50)}},
        )
        self.catalog = SimpleNamespace(vhosts={"v": None})
        self.totals = Totals()
        self.walks = 0

    @staticmethod
    def consumer(tag: str, no_ack: bool, delivered: int) -> Any:
        return SimpleNamespace(tag=tag, no_ack=no_ack, delivered=delivered)

    @staticmethod
    def queue(number: int, accounted_here: bool, counts: QueueStatistics) -> Any:
        record = SimpleNamespace(vhost="v", id=number, kind="classic")
        return SimpleNamespace(record=record, accounted_here=accounted_here, counts=lambda: counts)

    def queues(self) -> list[Any]:
        self.walks += 1
        return self.all_queues

    def sessions(self) -> list[Any]:
        return [self.session]

    def connections(self) -> list[Any]:
        return [CONNECTION]


def summed() -> NodeSums:
    sums, traffic = NodeSums(), Traffic()
    broker: Any = traffic
    for _ in walked(broker, sums):
        pass
    return sums


def test_messages_are_counted_by_the_node_that_accounts_for_their_queue() -> None:
    sums = summed()
    assert sums.of("v")[:SESSION_AT] == [20, 3]
    assert (sums.disk_reads, sums.disk_writes) == (4, 5)


def test_traffic_is_that_of_channels_stream_clients_and_all_that_have_ended() -> None:
    found = dict(zip(SESSION, summed().of("v")[SESSION_AT:DATA_AT], strict=True))
    assert (found["publish"], found["deliver"], found["ack"]) == (5 + 10 + 200, 2, 0)
    assert summed().of("v")[DATA_AT:] == [3_100, 47], "received, sent"
    assert summed().exchanges == {("v", "e"): [65, 54], ("v", "f"): [1, 0]}
    assert summed().of("another") == [0] * len(summed().of("v"))


def test_counts_stand_in_the_order_of_their_shape() -> None:
    values = {"ready": 1, "unacknowledged": 2, "published": 3, "delivered": 4, "delivered_no_ack": 5, "got": 6}
    row = counts_row(QueueStatistics(**values, redelivered=7, acknowledged=8))
    assert dict(zip(QUEUE.names, row, strict=True)) == {
        "messages_ready": 1, "messages_unacknowledged": 2, "publish": 3, "deliver": 4, "deliver_no_ack": 5, "get": 6,
        "redeliver": 7, "ack": 8,
    }  # fmt: skip
    by_hand, at_once = Traffic().consumers
    assert (deliveries_row(by_hand), deliveries_row(at_once)) == ((3, 0), (0, 2))


def test_what_sessions_count_stands_in_the_order_of_its_shape() -> None:
    counted = {
        "publish": "published", "confirm": "confirmed", "return_unroutable": "returned", "drop_unroutable": "dropped",
        "deliver": "delivered", "deliver_no_ack": "delivered_no_ack", "get": "got", "get_no_ack": "got_no_ack",
        "get_empty": "got_empty", "redeliver": "redelivered", "ack": "acknowledged",
    }  # fmt: skip
    counters = Counters(**{name: number for number, name in enumerate(counted.values(), 1)})
    assert dict(zip(SESSION, session_row(counters), strict=True)) == {
        name: number for number, name in enumerate(counted, 1)
    }


TOTALS = Totals(
    connections_opened=10,
    connections_closed=20,
    channels_opened=30,
    channels_closed=40,
    queues_declared=50,
    queues_created=60,
    queues_deleted=70,
)
CAME_AND_WENT = {
    "connection_created": 10, "connection_closed": 20, "channel_created": 30, "channel_closed": 40, "queue_declared": 50,
    "queue_created": 60, "queue_deleted": 70,
}  # fmt: skip


def test_what_the_overview_counts_stands_in_the_order_of_its_shape() -> None:
    shown = dict(zip(OVERVIEW.names, overview_row(summed(), TOTALS), strict=True))
    counted = {"messages_ready": 20, "messages_unacknowledged": 3, "publish": 215, "deliver": 2}
    of_disks = {"disk_reads": 4, "disk_writes": 5}
    others = dict.fromkeys(set(SESSION) - set(counted), 0)
    assert shown == counted | CAME_AND_WENT | of_disks | others


def test_what_a_node_counts_stands_in_the_order_of_its_shape() -> None:
    shown = dict(zip(NODE.names, node_row(facts(), 8, TOTALS), strict=True))
    assert shown == {
        "mem_used": 1, "fd_used": 2, "sockets_used": 8, "proc_used": 0, "disk_free": 3, "io_read_bytes": 4,
        "io_write_bytes": 5, "gc_num": 6, "context_switches": 7, **CAME_AND_WENT,
    }  # fmt: skip


@pytest.fixture
def traffic(monkeypatch: pytest.MonkeyPatch) -> Traffic:
    monkeypatch.setattr(node_samples, "Session", Channel)
    return Traffic()


def facts() -> Any:
    return SimpleNamespace(
        memory_bytes=1,
        files_open=2,
        disk_free_bytes=3,
        read_bytes=4,
        written_bytes=5,
        collections=6,
        context_switches=7,
    )


def sampled(traffic: Traffic) -> NodeSamples:
    broker: Any = traffic
    return NodeSamples(broker, lambda: 5_000, facts)


def go_round(samples: NodeSamples) -> None:
    for _ in samples.steps():
        pass


def test_a_round_samples_each_object_and_a_vhost_while_it_is_there(traffic: Traffic) -> None:
    samples = sampled(traffic)
    go_round(samples)
    assert [len(book) for book in (samples.queues, samples.exchanges, samples.connections)] == [1, 2, 1]
    assert [len(book) for book in (samples.vhosts, samples.overview, samples.node)] == [1, 1, 1]
    traffic.catalog.vhosts.clear()
    go_round(samples)
    assert len(samples.vhosts) == 0


def test_what_a_connection_received_and_sent_is_sampled_as_that(traffic: Traffic) -> None:
    samples = sampled(traffic)
    samples.connections.add(CONNECTION.id, 0, (0, 0))
    go_round(samples)
    assert samples.connections.rates(CONNECTION.id, 5_000) == {"recv_oct": 20.0, "send_oct": 1.4}


def test_of_a_replicated_queue_each_node_samples_what_its_own_clients_do(traffic: Traffic) -> None:
    elsewhere = traffic.all_queues[1]
    samples = sampled(traffic)
    go_round(samples)
    assert len(samples.queues) == 1
    elsewhere.record.kind = "quorum"
    go_round(samples)
    assert len(samples.queues) == 2


def test_only_so_much_of_what_channels_do_is_sampled_in_each_round(
    traffic: Traffic, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = sampled(traffic)
    go_round(samples)
    assert (len(samples.channels), len(samples.routes), len(samples.consumers)) == (1, 3, 2)
    for most, routes, consumers in ((4, 3, 1), (2, 2, 0), (4, 3, 1)):
        monkeypatch.setattr(node_samples, "ROUTES_MAX", most)
        go_round(samples)
        assert (len(samples.routes), len(samples.consumers)) == (routes, consumers)


def test_a_rate_counts_for_as_long_as_a_round_takes_with_very_many_objects(
    traffic: Traffic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else all rates of a node whose rounds take longer than samples count were 0."""
    samples, rounds, second = sampled(traffic), count(1), asyncio.Event()

    async def a_long_round(steps: Iterator[None], duty: float) -> None:
        if next(rounds) == 2:
            second.set()
        await asyncio.sleep(0.02)

    async def run_until_the_second_round() -> None:
        running = asyncio.create_task(Sampler(samples).run())
        await second.wait()
        running.cancel()

    monkeypatch.setattr(sampler, "STEP_S", 0.001)
    monkeypatch.setattr(sampler, "step_by_step", a_long_round)
    asyncio.run(run_until_the_second_round())
    assert len({book.round_ms for book in samples.books}) == 1, "all are gone over in one round"
    assert 15 <= samples.queues.round_ms < STEP_S * 1_000, "as long as it took, and not what it is at first"


def test_samples_that_take_the_place_of_older_ones_are_not_left_to_one_collection() -> None:
    """It counts what is made less what goes, and went through 100,000 samples in one turn of 80 ms."""
    samples = [(number,) for number in range(5 * COLLECTED_EVERY)]

    def replaced() -> Iterator[None]:
        for number in range(len(samples)):
            samples[number] = (-number,)
            yield

    gc.collect()
    gc.disable()
    try:
        deque(with_young_collected(replaced()), maxlen=0)
        left = sum(type(one) is tuple for one in gc.get_objects(generation=0))
    finally:
        gc.enable()
    assert left <= COLLECTED_EVERY


def test_sums_are_walked_for_once_and_again_when_that_was_long_enough_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(fresh_sums, "perf_counter", lambda: now[0])
    traffic = Traffic()
    broker: Any = traffic

    async def ask() -> list[int]:
        fresh, walks = FreshSums(broker), []
        for passed_s in (0.0, 0.0, 600.0):
            now[0] += passed_s
            first, second = await asyncio.gather(fresh.sums(), fresh.sums())
            assert first is second, "both wait for the same walk"
            walks.append(traffic.walks)
        return walks

    assert asyncio.run(ask()) == [1, 1, 2]


def test_who_asks_no_more_ends_the_walk_for_nobody_else() -> None:
    broker: Any = Traffic()

    async def ask() -> NodeSums:
        fresh = FreshSums(broker)
        gone, stays = (asyncio.ensure_future(fresh.sums()) for _ in range(2))
        await asyncio.sleep(0)
        gone.cancel()
        return await stays

    assert asyncio.run(ask()).of("v")[0] == 20
