"""Metrics over a broker of a few lines: names parse, figures add up over protocols, and no series appears only later."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count, pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from broker.catalog.catalog import Catalog, default_commands
from broker.catalog.commands.catalog_commands import DeleteUser
from broker.counting.counters import Counters
from broker.counting.flows import FlowCounts
from broker.counting.message_sizes import MessageSizes
from broker.login.audit import Audit
from broker.login.client_address import ClientAddress
from broker.node_queues import Totals
from broker.pending import Pending
from broker.queues.queue_type import QueueStatistics
from front.slices import SLICE_S
from node.config import Config, MetricsSection, NodeSection
from node.watching.exposition import GAUGE, LINES_AT_ONCE, MetricSeries, ObjectRow, exposed, labelled
from node.watching.message_metrics import PROTOCOLS, STREAM_ERRORS
from node.watching.metrics import Metrics
from node.watching.object_metrics import EVERYTHING
from node.watching.shovel_metrics import shovel_metrics
from storage.archive.archive import ArchiveFigures
from stream.queue_figures import ReadingFigures
from wire.stream.command_keys import ResponseCode

MEASURED = {"memory_used": 100, "memory_limit": 400, "disk_free": 7, "disk_free_limit": 5}
LOG = {"commits": 3, "bytes": 300, "waiting_bytes": 0, "files": 1, "failed": False}


def queue(statistics: QueueStatistics, home: str) -> Any:
    record = SimpleNamespace(id=1, home=home, vhost="/", name=f"q{statistics.ready}", kind="classic")
    return SimpleNamespace(
        record=record,
        accounted_here=home != "n2",
        consumer_count=statistics.consumers,
        counts=lambda: statistics,
        sizes=lambda: statistics,
    )


def session(connection: Any, consumers: int) -> Any:
    """One that has published two messages to a queue, and whose consumers were given some."""
    flows = FlowCounts(Counter({"amq.topic": 2}), Counter({"amq.topic": 2}), Counter({("amq.topic", "q2"): 2}))
    one = SimpleNamespace(queue=SimpleNamespace(record=SimpleNamespace(name="q2")), no_ack=False, delivered=3)
    return SimpleNamespace(
        connection=connection,
        vhost=connection.vhost,
        number=1,
        counters=Counters(),
        publisher=SimpleNamespace(flows=lambda: flows),
        consumers=lambda: [one] * consumers,
        statistics=lambda: dict.fromkeys(
            ("consumers", "unacknowledged", "unconfirmed", "uncommitted", "prefetch", "global_prefetch"), 1
        ),
    )


class FakeBroker:
    def __init__(self) -> None:
        self.totals = Totals(connections_opened=5, connections_closed=3, queues_deleted=1)
        self.raised: list[Any] = []
        self.dead_letters_too_large = 2
        self.rates = SimpleNamespace(holding=0, held_total=0)
        self.tracer = SimpleNamespace(traced=0, dropped=0)
        self.audit = Audit(note=lambda line: None, warn=lambda line: None)
        self.alarms = SimpleNamespace(raised=lambda: self.raised)
        amqp = SimpleNamespace(protocol="AMQP 0-9-1", publishes=True, name="one", vhost="/", statistics=dict)
        grpc = SimpleNamespace(protocol="gRPC", publishes=False, name="two", vhost="v", statistics=dict)
        self._connections = [amqp, grpc]
        self._sessions = [session(amqp, 1), session(grpc, 2)]
        self.catalog = Catalog()
        self.ended = SimpleNamespace(counters={}, exchanges={"/": {"amq.topic": (7, 9)}})
        self.message_sizes: dict[str, MessageSizes] = {}
        self.stream_refusals: Counter[int] = Counter()
        self.streams: list[Any] = []

    def connections(self) -> list[Any]:
        return self._connections

    def sessions(self) -> list[Any]:
        return self._sessions

    def consumers(self) -> list[Any]:
        return [1, 2, 3]

    def queues(self) -> list[Any]:
        one = QueueStatistics(ready=2, unacknowledged=1, ready_bytes=20, unacknowledged_bytes=10, disk_reads=4)
        two, elsewhere = QueueStatistics(ready=5, ready_bytes=50), QueueStatistics(ready=1_000)
        homes = ((one, "n1"), (two, ""), (elsewhere, "n2"))
        return [queue(statistics, home) for statistics, home in homes]

    def dead_lettered(self) -> dict[str, int]:
        return {"rejected": 2, "expired": 0}


def stream(figures: ReadingFigures) -> Any:
    record = SimpleNamespace(vhost="/", name="s")
    return SimpleNamespace(reading_figures=lambda: figures, member=None, record=record)


def replicated(name: str, group: int) -> Any:
    return SimpleNamespace(
        record=SimpleNamespace(vhost="v", name=name), member="here", group=group, accounted_here=False
    )


def driver_of(group: int) -> Any:
    status = SimpleNamespace(term=2, commit=90, durable=100, applied=80, snapshot=50)
    return SimpleNamespace(core=SimpleNamespace(status=lambda: status), commit_latency_s=0.25)


def metrics_of(broker: FakeBroker, cache_ms: int = 60_000) -> Metrics:
    config = Config(node=NodeSection(name="n1", cluster_name="c1"), metrics=MetricsSection(cache_ms=cache_ms))
    return Metrics(
        broker,  # type: ignore[arg-type]
        SimpleNamespace(statistics=lambda: LOG),  # type: ignore[arg-type]
        SimpleNamespace(commits=9, halted=None, refusals=2),  # type: ignore[arg-type]
        SimpleNamespace(
            verdicts=SimpleNamespace(divergences=4),
            members=SimpleNamespace(quarantined=["q"]),
            refusals=3,
            queues={7: replicated("raft", group=7)},
        ),  # type: ignore[arg-type]
        SimpleNamespace(
            verdicts=SimpleNamespace(divergences=8),
            members=SimpleNamespace(quarantined=["s", "t"]),
            refusals=9,
            skipped=11,
            undecodable=12,
            queues={1: stream(ReadingFigures(2, 1, 100, 7)), 2: stream(ReadingFigures(3, 2, 50, 40))},
        ),  # type: ignore[arg-type]
        SimpleNamespace(handler_failures=5),  # type: ignore[arg-type]
        SimpleNamespace(wrong_checksums=6),  # type: ignore[arg-type]
        SimpleNamespace(forgetful_members=7, driver=driver_of),  # type: ignore[arg-type]
        SimpleNamespace(statistics=lambda: MEASURED),  # type: ignore[arg-type]
        config,
        archive=lambda: ArchiveFigures(4096, 2, 90.5),
        cluster_id="id",
        wall_ms=iter(range(0, 10**9, 1_500)).__next__,
    )


def samples(broker: FakeBroker) -> dict[tuple[str, tuple[str, ...]], float]:
    metrics = metrics_of(broker)
    families = list(text_string_to_metric_families(asyncio.run(metrics.text()).decode()))
    assert len({family.name for family in families}) == len(families), "a name is used twice"
    found = {}
    for family in families:
        for sample in family.samples:
            found[sample.name, tuple(sorted(sample.labels.values()))] = sample.value
    return found


def test_queues_are_added_up_by_the_node_that_is_their_home() -> None:
    """Every node knows all of them; a sum over nodes is to count each once."""
    found = samples(FakeBroker())
    assert found["rabbitmq_queues", ()] == 2
    assert found["rabbitmq_queue_messages_ready", ()] == 7
    assert found["rabbitmq_queue_messages_unacked", ()] == 1
    assert found["rabbitmq_queue_messages", ()] == 8
    assert found["rabbitmq_queue_messages_bytes", ()] == 80
    assert found["rabbitmq_queue_disk_reads_total", ()] == 4
    assert (found["rabbitmq_connections_opened_total", ()], found["rabbitmq_queues_deleted_total", ()]) == (5, 1)
    assert found["rabbitmq_identity_info", ("aggregated", "c1", "id", "n1")] == 1


def test_messages_are_counted_by_protocol_and_reason() -> None:
    broker = FakeBroker()
    amqp, grpc = broker.sessions()
    amqp.counters, grpc.counters = Counters(published=8, delivered=4, got_no_ack=1), Counters(published=3)
    broker.ended.counters = {("AMQP 0-9-1", "v"): Counters(published=2)}
    found = samples(broker)
    assert found["rabbitmq_global_messages_received_total", ("amqp091",)] == 10
    assert found["rabbitmq_global_messages_received_total", ("grpc",)] == 3
    labels = ("amqp091", "rabbit_classic_queue")
    assert found["rabbitmq_global_messages_delivered_consume_manual_ack_total", labels] == 4
    assert found["rabbitmq_global_messages_delivered_total", labels] == 5
    dead = found["rabbitmq_global_messages_dead_lettered_rejected_total", ("at_most_once", "rabbit_classic_queue")]
    assert (dead, found["leveret_dead_letters_too_large_total", ()]) == (2, 2)
    assert (found["rabbitmq_global_publishers", ("amqp091",)], found["rabbitmq_global_consumers", ("grpc",)]) == (1, 2)


def test_a_series_is_there_from_the_start_so_that_its_first_increase_is_seen() -> None:
    busy = FakeBroker()
    busy.ended.counters = {(protocol, "v"): Counters(published=1) for protocol in PROTOCOLS}
    busy.message_sizes = {protocol: MessageSizes() for protocol in PROTOCOLS}
    busy.stream_refusals.update(list(STREAM_ERRORS))
    assert samples(FakeBroker()).keys() == samples(busy).keys()


def test_an_alarm_is_1_while_it_is_on() -> None:
    broker = FakeBroker()
    assert samples(broker)["rabbitmq_alarms_memory_used_watermark", ()] == 0
    broker.raised = [SimpleNamespace(kind="memory")]
    found = samples(broker)
    assert found["rabbitmq_alarms_memory_used_watermark", ()] == 1
    assert found["rabbitmq_alarms_free_disk_space_watermark", ()] == 0


class ManyQueues(FakeBroker):
    """Counts how often a queue is looked at."""

    looked = 0

    def queues(self) -> list[Any]:
        return [SimpleNamespace(accounted_here=True, sizes=self._look) for _ in range(100)]

    def _look(self) -> QueueStatistics:
        self.looked += 1
        return QueueStatistics(ready=1)


def test_who_asks_all_the_time_is_given_what_was_counted_before() -> None:
    broker = ManyQueues()
    metrics = metrics_of(broker)

    async def ask() -> set[bytes]:
        together = await asyncio.gather(*(metrics.text() for _ in range(20)))
        return {*together, *[await metrics.text() for _ in range(20)]}

    assert len(asyncio.run(ask())) == 1
    assert broker.looked == 100, "forty requests took one walk"


def test_figures_that_are_old_are_counted_again() -> None:
    broker = ManyQueues()
    metrics = metrics_of(broker, cache_ms=0)

    async def ask() -> None:
        await metrics.text()
        await metrics.text()

    asyncio.run(ask())
    assert broker.looked == 200


def test_clients_are_served_while_many_queues_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = count()
    monkeypatch.setattr("front.slices.perf_counter", lambda: next(ticks) * SLICE_S / 10)  # ten queues take a slice
    broker = ManyQueues()
    metrics = metrics_of(broker)
    served: list[int] = []

    async def serve() -> None:
        while broker.looked < 100:
            served.append(broker.looked)
            await asyncio.sleep(0)

    async def run() -> None:
        await asyncio.gather(metrics.text(), serve())

    asyncio.run(run())
    assert len(served) >= 9
    assert max(after - before for before, after in pairwise(served)) <= 11


def test_clients_are_served_between_two_families_of_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of 5,000 shovels took one turn of 0.15 s with all the others."""
    ticks = count()
    monkeypatch.setattr("front.slices.perf_counter", lambda: next(ticks) * SLICE_S)  # each takes a slice
    made: list[str] = []

    def made_in_turn(shovels: Sequence[Any]) -> Iterator[Metric]:
        for family in shovel_metrics(shovels):
            made.append(family.name)
            yield family

    monkeypatch.setattr("node.watching.metrics.shovel_metrics", made_in_turn)
    metrics = metrics_of(FakeBroker())
    served: list[int] = []

    async def serve() -> None:
        while len(made) < 5:
            served.append(len(made))
            await asyncio.sleep(0)

    async def run() -> None:
        await asyncio.gather(metrics.text(), serve())

    asyncio.run(run())
    assert set(served) >= {1, 2, 3}


def test_logins_and_changes_are_counted() -> None:
    broker = FakeBroker()
    client = ClientAddress("192.0.2.7", 4_000, False, "HTTP")
    broker.audit.logged_in(client)
    for _ in range(2):
        broker.audit.login_failed(None, client, "wrong user or password")
    broker.audit.watched(DeleteUser("u"), Pending.of(None))
    found = samples(broker)
    assert found["rabbitmq_auth_attempts_total", ("http",)] == 3
    assert found["rabbitmq_auth_attempts_succeeded_total", ("http",)] == 1
    assert found["rabbitmq_auth_attempts_failed_total", ("http",)] == 2
    assert found["rabbitmq_auth_attempts_failed_total", ("amqp091",)] == 0
    assert found["leveret_audited_changes_total", ("DeleteUser", "done")] == 1


def test_streams_have_figures_of_their_own() -> None:
    found = samples(FakeBroker())
    told = {name: value for (name, _), value in found.items() if name.startswith("leveret_stream_")}
    assert told == {
        "leveret_stream_divergences_total": 8,
        "leveret_stream_quarantined": 2,
        "leveret_stream_refusals_total": 9,
        "leveret_stream_segments": 5,
        "leveret_stream_readers": 3,
        "leveret_stream_reader_bytes_sent_total": 150,
        "leveret_stream_reader_skipped_total": 11,
        "leveret_stream_undecodable_total": 12,
        "leveret_stream_reader_lag_max": 40,
    }


def test_what_is_archived_is_told() -> None:
    found = samples(FakeBroker())
    assert found["leveret_archive_bytes", ()] == 4096
    assert found["leveret_archive_oldest_seconds", ()] == 90.5


def test_sizes_of_messages_are_in_the_buckets_that_dashboards_name() -> None:
    broker = FakeBroker()
    sizes = broker.message_sizes["AMQP 0-9-1"] = MessageSizes()
    for count_, size in ((3, 300), (1, 101), (2, 2_000_000), (1, 200_000_000)):
        sizes.add(count_, size)
    found = samples(broker)
    bounds = ("100.0", "1000.0", "10000.0", "100000.0", "1e+06", "1e+07", "5e+07", "1e+08", "+Inf")
    counts = [found["rabbitmq_message_size_bytes_bucket", tuple(sorted((bound, "amqp091")))] for bound in bounds]
    assert counts == [3, 4, 4, 4, 6, 6, 6, 6, 7]
    assert found["rabbitmq_message_size_bytes_count", ("amqp091",)] == 7
    assert found["rabbitmq_message_size_bytes_sum", ("amqp091",)] == 202_000_401


def test_what_stream_clients_were_refused_is_counted_by_what_was_wrong() -> None:
    broker = FakeBroker()
    broker.stream_refusals[ResponseCode.NO_SUCH_STREAM] = 3
    assert samples(broker)["rabbitmq_global_stream_error_stream_does_not_exist_total", ("stream",)] == 3


def test_members_are_added_up_and_of_their_latencies_the_longest_is_told() -> None:
    found = samples(FakeBroker())
    assert (found["rabbitmq_raft_commit_index", ()], found["rabbitmq_raft_last_written_index", ()]) == (90, 100)
    assert found["rabbitmq_raft_commit_latency_seconds", ()] == 0.25
    assert found["rabbitmq_erlang_uptime_seconds", ()] > 0


def objects(pieces: Sequence[bytes]) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    families = list(text_string_to_metric_families(b"".join(pieces).decode()))
    names = [family.name for family in families]
    assert len(set(names)) == len(names), "a series is told twice"
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def at(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


def test_each_object_has_series_in_place_of_the_sums() -> None:
    found = objects(asyncio.run(metrics_of(FakeBroker()).per_object()))
    assert found[at("rabbitmq_queue_messages_ready", vhost="/", queue="q2")] == 2
    assert found[at("rabbitmq_raft_term", vhost="v", queue="raft")] == 2
    assert found[at("rabbitmq_exchange_messages_published_total", vhost="/", exchange="amq.topic")] == 9
    assert found[at("rabbitmq_channel_consumers", channel="one (1)")] == 1
    assert found[at("rabbitmq_connections")] == 2
    assert at("rabbitmq_queue_messages_ready") not in found
    assert at("rabbitmq_queue_messages_ready", vhost="/", queue="q1000") not in found, "another node tells of it"
    identity = [labels for name, labels in found if name == "rabbitmq_identity_info"]
    assert [dict(labels)["rabbitmq_endpoint"] for labels in identity] == ["per-object"]


def test_families_are_told_that_are_asked_for_and_of_the_objects_that_are_asked_for() -> None:
    broker = FakeBroker()
    for command in default_commands("hash"):
        broker.catalog.apply(command)
    declared: list[Any] = [*broker.queues(), replicated("raft", group=7)]  # a node knows replicated queues, too
    metrics = metrics_of(broker)
    broker.queues = lambda: declared  # type: ignore[method-assign]

    def detailed(*families: str, vhost: str = "", queue: str = "") -> set[str]:
        pieces = asyncio.run(metrics.detailed(families, lambda one: vhost in ("", one), lambda one: queue in ("", one)))
        return {name for name, _ in objects(pieces)} - {"rabbitmq_identity_info", "rabbitmq_build_info"}

    coarse = {f"rabbitmq_detailed_queue_messages{what}" for what in ("", "_ready", "_unacked")}
    assert detailed("queue_coarse_metrics") == detailed("queue_coarse_metrics", "no_family") == coarse
    assert detailed("queue_coarse_metrics", vhost="v") == detailed("queue_coarse_metrics", queue="other") == set()
    assert detailed("queue_coarse_metrics", vhost="/", queue="q2") == coarse
    assert "rabbitmq_detailed_queue_consumers" in detailed("queue_consumer_count", "queue_metrics")
    assert detailed("vhost_status", "exchange_names", "exchange_bindings") == {
        "rabbitmq_cluster_vhost_status",
        "rabbitmq_cluster_exchange_name",
        "rabbitmq_cluster_exchange_bindings",
    }
    assert detailed("node_coarse_metrics") >= {"rabbitmq_detailed_process_open_fds"}
    assert detailed("connection_churn_metrics") >= {"rabbitmq_detailed_connections_opened_total"}
    assert detailed("ra_metrics", vhost="v") >= {"rabbitmq_detailed_raft_term"}
    assert detailed() == set()


def test_every_family_has_as_many_values_as_series() -> None:
    metrics = metrics_of(FakeBroker())
    for name, family in metrics.objects.families.items():
        for row in family.rows(EVERYTHING):
            assert row is None or len(row.values) == len(family.series), name


def test_an_object_that_is_passed_over_gives_the_loop_its_turn_too() -> None:
    """Where all queues were another node's, a node went over them in one turn."""
    broker = FakeBroker()
    away: list[Any] = [queue(QueueStatistics(ready=number), "n2") for number in range(3)]
    broker.queues = lambda: away  # type: ignore[method-assign]
    families = metrics_of(broker).objects.families
    for name in (
        "queue_coarse_metrics",
        "queue_consumer_count",
        "queue_metrics",
        "queue_delivery_metrics",
        "queue_info",
    ):
        assert list(families[name].rows(EVERYTHING)) == [None] * 3, name


def test_of_very_many_objects_each_has_one_line_in_each_series() -> None:
    series = (MetricSeries("a", GAUGE, "first"), MetricSeries("b", GAUGE, "second"))
    rows = [ObjectRow(f'queue="{number}"', (number, -number)) for number in range(2 * LINES_AT_ONCE + 1)]
    text = b"".join(asyncio.run(exposed("x_", series, rows))).decode()
    lines = [f"x_{name}{{{row.labels}}} {row.values[place]}" for place, name in enumerate("ab") for row in rows]
    assert [line for line in text.splitlines() if not line.startswith("#")] == lines


def test_names_with_quotes_and_newlines_stay_one_label() -> None:
    assert labelled(queue='a"b\\c\nd') == 'queue="a\\"b\\\\c\\nd"'
