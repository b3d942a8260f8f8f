"""What Prometheus reads, under RabbitMQ's names so that ready-made dashboards work.

Everything is read when it is asked for, from the statistics that the parts keep anyway; what grows with the number of queues
and connections is added up in slices. Who asks again within metrics.cache_ms is given the same. Totals are of the whole
node; figures per queue would grow with the number of queues, and are left to the management API.
"""

from __future__ import annotations

import asyncio
import os
import platform
import resource
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from broker.broker import Broker
from broker.counting.counters import Counters
from broker.operations.federation_facts import FederationLinkFacts
from broker.operations.shovel_facts import ShovelFacts
from broker.queues.queue_type import QueueStatistics
from front.slices import in_slices, made_in_slices
from node.catalog.cluster_metadata import ClusterMetadata
from node.config import Config
from node.exporting.log_export import ExportFigures
from node.peers.calls import PeerCalls
from node.peers.link import PeerLinks
from node.version import VERSION
from node.watching import message_metrics, replicated_metrics
from node.watching.alarms import Watcher
from node.watching.audit_metrics import audit_metrics
from node.watching.exposition import exposed
from node.watching.federation_metrics import federation_metrics
from node.watching.loop_watch import LoopWatch
from node.watching.message_metrics import PROTOCOLS
from node.watching.metric_families import Families, counter, gauge, info
from node.watching.object_metrics import (
    CLUSTER_PREFIX,
    DETAILED_PREFIX,
    EVERYTHING,
    PREFIX,
    Matches,
    MetricScope,
    ObjectMetrics,
)
from node.watching.shovel_metrics import shovel_metrics
from quorum.driver import QuorumQueues
from raft.groups import Groups
from storage.archive.archive import ArchiveFigures
from storage.wal.writer import LogWriter
from stream.driver import StreamQueues

PROMETHEUS_CLIENT_VERSION = version("prometheus_client")
# Of members of replicated queues: sums, which grow as fast as all of them together; of the latencies the longest.
RAFT_SUMS = {
    "rabbitmq_raft_term": "Terms of the members on this node, added up",
    "rabbitmq_raft_commit_index": "Indexes that are durable on a majority, added up over the members on this node",
    "rabbitmq_raft_last_written_index": "Indexes that are durable here, added up",
    "rabbitmq_raft_last_applied": "Indexes that machines have seen, added up",
    "rabbitmq_raft_snapshot_index": "Indexes of snapshots, added up",
    "rabbitmq_raft_commit_latency_seconds": "How long the slowest of the last entries took until it was applied",
}
QUEUE_GAUGES = {
    "ready": ("rabbitmq_queue_messages_ready", "Messages ready to be delivered"),
    "unacknowledged": ("rabbitmq_queue_messages_unacked", "Messages delivered and not acknowledged yet"),
    "ready_bytes": ("rabbitmq_queue_messages_ready_bytes", "Bytes of ready messages"),
    "unacknowledged_bytes": ("rabbitmq_queue_messages_unacked_bytes", "Bytes of unacknowledged messages"),
    "ram": ("rabbitmq_queue_messages_ram", "Messages whose content is in memory"),
    "persistent": ("rabbitmq_queue_messages_persistent", "Persistent messages"),
}
QUEUE_COUNTERS = {
    "disk_reads": ("rabbitmq_queue_disk_reads", "Reads of messages from disk"),
    "disk_writes": ("rabbitmq_queue_disk_writes", "Writes of messages to disk"),
    "published": ("rabbitmq_queue_messages_published", "Messages published to queues"),
}
TOTALS = {
    "connections_opened": ("rabbitmq_connections_opened", "Connections opened"),
    "connections_closed": ("rabbitmq_connections_closed", "Connections closed"),
    "channels_opened": ("rabbitmq_channels_opened", "Channels opened"),
    "channels_closed": ("rabbitmq_channels_closed", "Channels closed"),
    "queues_declared": ("rabbitmq_queues_declared", "Declarations of queues, of new and of existing ones"),
    "queues_created": ("rabbitmq_queues_created", "Queues created"),
    "queues_deleted": ("rabbitmq_queues_deleted", "Queues deleted"),
}
# What the aggregated text has in place of the series of single objects.
SUMMED = (*[name for name, _ in QUEUE_GAUGES.values()], *[name for name, _ in QUEUE_COUNTERS.values()])
SUMMED_ALSO = ("rabbitmq_queue_messages", "rabbitmq_queue_messages_bytes", *RAFT_SUMS)
AGGREGATED, PER_OBJECT, DETAILED = "aggregated", "per-object", "detailed"  # values of rabbitmq_endpoint
# Families of /metrics/detailed about the node as a whole: the beginnings of names, behind the prefix.
NODE_FAMILIES = {
    "connection_churn_metrics": ("connections_", "channels_", "queues_"),
    "node_coarse_metrics": ("process_open_fds", "process_resident_memory_bytes", "disk_space_available_bytes"),
    "node_metrics": (
        "process_max_fds",
        "resident_memory_limit_bytes",
        "disk_space_available_limit_bytes",
        "erlang_uptime_seconds",
    ),
    "auth_attempt_metrics": ("auth_attempts",),
}


@dataclass(slots=True)
class Counted:
    """What takes a walk through all queues, connections and sessions."""

    queues: int = 0
    totals: QueueStatistics = field(default_factory=QueueStatistics)
    connections: int = 0
    channels: int = 0
    publishers: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PROTOCOLS, 0))
    consumers: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PROTOCOLS, 0))
    messages: defaultdict[str, Counters] = field(default_factory=lambda: defaultdict(Counters))  # by protocol
    raft: list[float] = field(default_factory=lambda: [0.0] * len(RAFT_SUMS))


class Metrics:
    """One node's figures."""

    def __init__(
        self,
        broker: Broker,
        log: LogWriter,
        metadata: ClusterMetadata,
        quorum: QuorumQueues,
        streams: StreamQueues,
        calls: PeerCalls,
        links: PeerLinks,
        groups: Groups,
        watcher: Watcher,
        config: Config,
        loop_watch: LoopWatch | None = None,
        archive: Callable[[], ArchiveFigures] = ArchiveFigures,
        exports: ExportFigures | None = None,
        cluster_id: str = "",
        wall_ms: Callable[[], int] = lambda: 0,
        shovels: Callable[[], Sequence[ShovelFacts]] = tuple,
        federation: Callable[[], Sequence[FederationLinkFacts]] = tuple,
    ) -> None:
        self._shovels = shovels
        self._federation = federation
        self._cluster_id = cluster_id
        self._wall_ms, self._started_ms = wall_ms, wall_ms()
        self.objects = ObjectMetrics(broker, quorum, streams, groups)
        self._objects_text = SharedText(config.metrics.cache_ms / 1_000)
        self._detailing = asyncio.Lock()
        self._loop_watch = loop_watch
        self._archive = archive
        self._exports = exports or ExportFigures()
        self._broker = broker
        self._log = log
        self._metadata = metadata
        self._quorum = quorum
        self._streams = streams
        self._calls = calls
        self._links = links
        self._groups = groups
        self._watcher = watcher
        self._config = config
        self._counted = Counted()
        self._text = b""
        self._text_at = 0.0
        self._gathering: asyncio.Task[bytes] | None = None

    async def text(self) -> bytes:
        """All of them, at most metrics.cache_ms old."""
        loop = asyncio.get_running_loop()
        if self._gathering is None:
            if self._text and loop.time() < self._text_at + self._config.metrics.cache_ms / 1000:
                return self._text
            self._gathering = loop.create_task(self._gather())
        return await asyncio.shield(self._gathering)

    async def _gather(self) -> bytes:
        try:
            self._counted = await self._count()
            families = made_in_slices(self._aggregated())  # of thousands of links each takes milliseconds
            self._text = b"".join([generate_latest(Families([family])) async for family in families])
            self._text_at = asyncio.get_running_loop().time()
            return self._text
        finally:
            self._gathering = None

    async def per_object(self) -> Sequence[bytes]:
        """What is of the whole node, and the series of each object."""
        return await self._objects_text.made(self._made_per_object)

    async def _made_per_object(self) -> list[bytes]:
        await self.text()
        summed = {*SUMMED, *SUMMED_ALSO}
        of_node = [one for one in self.collect() if one.name not in summed]
        pieces = [generate_latest(Families([*self._identity(PER_OBJECT), *of_node]))]
        for family in self.objects.families.values():
            if family.per_object:
                pieces += await exposed(PREFIX, family.series, family.rows(EVERYTHING))
        return pieces

    async def detailed(self, families: Sequence[str], has_vhost: Matches, has_queue: Matches) -> Sequence[bytes]:
        """Those that are asked for; what is no family is passed over."""
        async with self._detailing:  # one after the other: each is a walk over all objects
            # Matched here, in slices: where no queue has such a name, no row would ever give up the loop.
            queues = made_in_slices(iter(self._broker.queues()))
            names = frozenset([one.record.name async for one in queues if has_queue(one.record.name)])
            return await self._made_detailed(families, MetricScope(has_vhost, names.__contains__))

    async def _made_detailed(self, families: Sequence[str], scope: MetricScope) -> list[bytes]:
        of_node = [
            renamed(one, name)
            for one in self.collect()
            if any(
                (name := one.name.removeprefix(PREFIX)).startswith(NODE_FAMILIES.get(wanted, ())) for wanted in families
            )
        ]
        pieces = [generate_latest(Families([*self._identity(DETAILED), *of_node]))]
        for name, family in self.objects.families.items():
            if name in families and not (name == "queue_consumer_count" and "queue_metrics" in families):
                prefix = CLUSTER_PREFIX if family.of_cluster else DETAILED_PREFIX
                pieces += await exposed(prefix, family.series, family.rows(scope))
        return pieces

    async def _count(self) -> Counted:
        counted = Counted()
        async for queue in made_in_slices(iter(self._broker.queues())):
            # Every node knows all queues, and a sum over nodes is to count each once.
            if queue.accounted_here:
                counted.queues += 1
                sizes = queue.sizes()
                for name in (*QUEUE_GAUGES, *QUEUE_COUNTERS):
                    setattr(counted.totals, name, getattr(counted.totals, name) + getattr(sizes, name))
        async for connection in in_slices(self._broker.connections()):
            counted.connections += 1
            counted.publishers[connection.protocol] += connection.publishes
        async for session in in_slices(self._broker.sessions()):
            counted.channels += 1
            counted.consumers[session.connection.protocol] += count(session.consumers())
            counted.messages[session.connection.protocol].add(session.counters)
        async for client in in_slices(self._broker.streams):
            counted.messages[client.connection.protocol].add(client.counters)
        for (protocol, _), ended in tuple(self._broker.ended.counters.items()):
            counted.messages[protocol].add(ended)
        async for row in made_in_slices(self.objects.families["ra_metrics"].rows(EVERYTHING)):
            if row is None:
                continue
            *indexes, latency_s = row.values
            sums = [so_far + index for so_far, index in zip(counted.raft[:-1], indexes, strict=True)]
            counted.raft = [*sums, max(counted.raft[-1], latency_s)]
        return counted

    def _aggregated(self) -> Iterator[Metric]:
        yield from self._identity(AGGREGATED)
        yield from self.collect()

    def collect(self) -> Iterator[Metric]:
        yield from self._objects()
        yield from self._queues()
        yield from self._messages()
        yield from self._clients()
        yield from self._resources()
        yield from self._log_and_metadata()
        yield from audit_metrics(self._broker.audit)
        yield from shovel_metrics(self._shovels())
        yield from federation_metrics(self._federation())
        if self._loop_watch is not None:
            yield from slow_turns(self._loop_watch)

    def _identity(self, endpoint: str) -> Iterator[Metric]:
        """Dashboards join everything with these: a node's figures are those of the same scrape."""
        config = self._config
        identity = {
            "rabbitmq_node": config.node_name,
            "rabbitmq_cluster": config.cluster_name,
            "rabbitmq_cluster_permanent_id": self._cluster_id,
            "rabbitmq_endpoint": endpoint,
        }
        yield info("rabbitmq_identity_info", "Who this node is", identity)
        announced = config.amqp.announce_version if config.amqp.announce_product else VERSION
        build = {
            "product_name": "Leveret",
            "product_version": VERSION,
            "rabbitmq_version": announced,
            "prometheus_client_version": PROMETHEUS_CLIENT_VERSION,
            "prometheus_plugin_version": VERSION,
            "erlang_version": platform.python_version(),
        }
        yield info("rabbitmq_build_info", "What this node runs", build)

    def _objects(self) -> Iterator[Metric]:
        broker = self._broker
        counted = self._counted
        yield gauge("rabbitmq_connections", "Open connections", counted.connections)
        yield gauge("rabbitmq_channels", "Open channels", counted.channels)
        yield gauge("rabbitmq_consumers", "Consumers", sum(counted.consumers.values()))
        yield gauge("rabbitmq_queues", "Queues", counted.queues)
        for part, (name, help_text) in TOTALS.items():
            yield counter(name, help_text, getattr(broker.totals, part))

    def _queues(self) -> Iterator[Metric]:
        totals = self._counted.totals
        for (name, help_text), total in zip(RAFT_SUMS.items(), self._counted.raft, strict=True):
            yield gauge(name, help_text, total)
        for part, (name, help_text) in QUEUE_GAUGES.items():
            yield gauge(name, help_text, getattr(totals, part))
        for part, (name, help_text) in QUEUE_COUNTERS.items():
            yield counter(name, help_text, getattr(totals, part))
        yield gauge("rabbitmq_queue_messages", "Messages, ready or not", totals.ready + totals.unacknowledged)
        size = totals.ready_bytes + totals.unacknowledged_bytes
        yield gauge("rabbitmq_queue_messages_bytes", "Bytes of messages, ready or not", size)

    def _messages(self) -> Iterator[Metric]:
        broker = self._broker
        yield from message_metrics.passed(self._counted.messages)
        yield from message_metrics.died(broker.dead_lettered())
        yield message_metrics.sizes(broker.message_sizes)
        yield from message_metrics.stream_errors(broker.stream_refusals)
        yield counter(
            "leveret_dead_letters_too_large",
            "Messages that died and went: their headers left no room for what had become of them",
            broker.dead_letters_too_large,
        )
        yield gauge(
            "leveret_rate_limited",
            "Channels and connections that wait under a limit of their rate",
            broker.rates.holding,
        )
        yield counter(
            "leveret_rate_limit_waits", "Waits of publishers under limits of their rate", broker.rates.held_total
        )
        yield counter("leveret_traced_messages", "Copies given to amq.rabbitmq.trace", broker.tracer.traced)
        yield counter(
            "leveret_traced_messages_dropped",
            "Messages of traced virtual hosts that were not copied: too many waited, or no room for what is to be said",
            broker.tracer.dropped,
        )

    def _clients(self) -> Iterator[Metric]:
        """Who publishes and who consumes now, by protocol."""
        for name, help_text, counted in (
            ("rabbitmq_global_publishers", "Connections that have published", self._counted.publishers),
            ("rabbitmq_global_consumers", "Consumers", self._counted.consumers),
        ):
            family = GaugeMetricFamily(name, help_text, labels=["protocol"])
            for protocol, label in PROTOCOLS.items():
                family.add_metric([label], counted[protocol])
            yield family

    def _resources(self) -> Iterator[Metric]:
        measured = self._watcher.statistics()
        yield gauge(
            "rabbitmq_erlang_uptime_seconds", "How long the node has run", (self._wall_ms() - self._started_ms) / 1_000
        )
        yield gauge("rabbitmq_process_resident_memory_bytes", "Memory used", measured["memory_used"])
        yield gauge("rabbitmq_resident_memory_limit_bytes", "Memory watermark", measured["memory_limit"])
        yield gauge("rabbitmq_disk_space_available_bytes", "Disk space free", measured["disk_free"])
        yield gauge("rabbitmq_disk_space_available_limit_bytes", "Disk space to keep free", measured["disk_free_limit"])
        open_files, open_files_max = file_descriptors()
        yield gauge("rabbitmq_process_open_fds", "Open file descriptors, sockets among them", open_files)
        yield gauge("rabbitmq_process_max_fds", "File descriptors that may be open", open_files_max)
        raised = {alarm.kind for alarm in self._broker.alarms.raised()}
        yield gauge("rabbitmq_alarms_memory_used_watermark", "1 while the memory alarm is on", "memory" in raised)
        yield gauge("rabbitmq_alarms_free_disk_space_watermark", "1 while the disk alarm is on", "disk" in raised)

    def _log_and_metadata(self) -> Iterator[Metric]:
        log = self._log.statistics()
        yield counter("leveret_log_commits", "Commits of the node's log: one write and one fsync each", log["commits"])
        yield counter("leveret_log_bytes", "Bytes written to the node's log", log["bytes"])
        yield gauge("leveret_log_waiting_bytes", "Bytes appended and not durable yet", log["waiting_bytes"])
        yield gauge("leveret_log_files", "Files of the node's log", log["files"])
        archive = self._archive()
        yield gauge("leveret_archive_bytes", "Bytes of files that are kept for questions asked later", archive.size)
        yield gauge("leveret_archive_oldest_seconds", "How far back they reach", archive.oldest_s)
        exports = self._exports
        yield gauge("leveret_log_export_readers", "Clients that read the log of this node now", exports.readers)
        yield counter("leveret_log_export_files", "Files of the log that clients have read to their end", exports.files)
        yield counter("leveret_log_export_bytes", "Bytes of the log that were sent to clients", exports.bytes)
        yield gauge(
            "leveret_log_failed", "1 after a failed write or fsync: nothing is written any more", bool(log["failed"])
        )
        yield counter("leveret_metadata_commits", "Commits of the metadata store", self._metadata.commits)
        yield from replicated_metrics.kind_of_queue("quorum", "quorum queues", self._quorum)
        yield from replicated_metrics.kind_of_queue("stream", "streams", self._streams)
        yield from replicated_metrics.of_streams(self._streams)
        yield gauge(
            "leveret_metadata_halted",
            "1 while this node does not follow the catalog, as its log holds what this node does not know",
            self._metadata.halted is not None,
        )
        yield counter(
            "leveret_metadata_refusals",
            "Commands of other nodes that were not taken, as not every node could carry them out",
            self._metadata.refusals,
        )
        yield counter(
            "leveret_peer_handler_failures",
            "Times that this node failed to handle what another one said: faults of this node, see its log",
            self._calls.handler_failures,
        )
        yield counter(
            "leveret_peer_wrong_checksums",
            "Links to other nodes that ended because bytes were changed on their way",
            self._links.wrong_checksums,
        )
        yield counter(
            "leveret_raft_forgetful_members",
            "Members of replicated logs on this node that had lost, without noticing, what they had acknowledged",
            self._groups.forgetful_members,
        )


class SharedText:
    """A text that takes long to make: made once for all who ask within `cache_s`."""

    def __init__(self, cache_s: float) -> None:
        self._cache_s = cache_s
        self._pieces: Sequence[bytes] = ()
        self._made_at = -cache_s
        self._making = asyncio.Lock()

    async def made(self, make: Callable[[], Awaitable[Sequence[bytes]]]) -> Sequence[bytes]:
        async with self._making:
            now = asyncio.get_running_loop().time
            if not self._pieces or now() >= self._made_at + self._cache_s:
                self._pieces = await make()
                self._made_at = now()
            return self._pieces


def slow_turns(watch: LoopWatch) -> Iterator[Metric]:
    turns = CounterMetricFamily(
        "leveret_loop_slow_turns", "Turns of the event loop that took too long, by what ran", labels=["work"]
    )
    seconds = CounterMetricFamily("leveret_loop_slow_turn_seconds", "How long these took", labels=["work"])
    for work, times in watch.counts.items():
        turns.add_metric([work], times)
        seconds.add_metric([work], watch.seconds[work])
    yield turns
    yield seconds
    yield gauge("leveret_loop_longest_turn_seconds", "The longest of them since the start", watch.longest_s)


def file_descriptors() -> tuple[int, int]:
    """How many this process has open, and may have."""
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    try:
        return len(os.listdir("/proc/self/fd")), allowed
    except OSError:  # there is none left to look through
        return allowed, allowed


def renamed(family: Metric, name: str) -> Metric:
    """The same among the detailed ones."""
    found = Metric(DETAILED_PREFIX + name, family.documentation, family.type)
    found.samples = [one._replace(name=DETAILED_PREFIX + one.name.removeprefix(PREFIX)) for one in family.samples]
    return found


def count(things: Any) -> int:
    return sum(1 for _ in things)
