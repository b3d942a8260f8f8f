"""Room on the disk for what retention has removed: stream/group/reclaiming.py, over whole nodes and by itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from broker.messages.message import Run
from broker.records import QueueRecord
from native.content import encode
from raft.store.store_limits import StoreLimits
from storage.names import SEGMENT_SUFFIX, SNAPSHOT_SUFFIX
from stream.group.reclaiming import ROUND_MS, TICKS_A_ROUND, Reclaiming
from tests.sim.disk import Call, Fault, SimDisk
from tests.unit.quorum.nodes import Cluster
from tests.unit.stream.test_random_streams import StreamClients

KEPT_BYTES = 1 << 20
SEGMENT_BYTES = 1 << 19
BODY_BYTES = 50_000
BODIES = 100  # five times what is kept
# Entries are copied out of the log, so that files have as many bytes as count.
LIMITS = StoreLimits(log_files_kept=0, entries_kept=0, compaction_interval_ms=0, kept_pack_bytes_min=1 << 20)


def world() -> tuple[StreamClients, QueueRecord]:
    clients = StreamClients(3, limits=LIMITS)
    limits = {"x-max-length-bytes": KEPT_BYTES, "x-stream-max-segment-size-bytes": SEGMENT_BYTES}
    record = clients.cluster.declare("s", (1, 2, 3), **limits)
    clients.cluster.leader(record)
    kind, queue = clients.of(1, record)
    for number in range(BODIES):
        content = encode(b"\0\0", bytes([number]) * BODY_BYTES)
        kind.publish((queue,), Run("", "s", content, 1, BODY_BYTES), None, clients.now)
        clients.cluster.run(0.1)
    return clients, record


def pass_time(cluster: Cluster, seconds: float) -> None:
    """Work beside the loop, too, which looks for what has no entry that counts."""
    cluster.run(seconds)
    for node in cluster.alive():
        node.store.tick(cluster.wall_ms())
    cluster.run(0.1)


def segment_bytes(disk: SimDisk) -> int:
    return sum(len(disk.content(name)) for name in disk.files() if name.endswith(SEGMENT_SUFFIX))


def test_what_was_removed_leaves_the_disk_of_each_member_though_nothing_more_comes() -> None:
    clients, record = world()
    nodes = clients.cluster.alive()
    assert all(segment_bytes(node.disk) > 3 * KEPT_BYTES for node in nodes)
    pass_time(clients.cluster, ROUND_MS / 1000 + 2)
    assert all(node.queue(record).member.machine.state.size <= KEPT_BYTES for node in nodes)
    assert all(segment_bytes(node.disk) <= KEPT_BYTES + SEGMENT_BYTES for node in nodes)
    for node in nodes:
        member = node.queue(record).member
        first = member.machine.state.segments[0].first_index
        assert len(node.store.group(1 << 32 | record.id).read_entry(first)) > BODY_BYTES, "and what is kept is there"


def test_what_could_not_be_removed_for_want_of_room_is_removed_when_there_is_some() -> None:
    """The snapshot was not tried again before as much had come as one is worth; where there is no room nothing comes."""
    clients, _ = world()

    def no_room(call: Call) -> Fault | None:
        return Fault.ENOSPC if SNAPSHOT_SUFFIX in call.name else None

    node = clients.cluster.nodes[1]
    node.disk.faults = no_room
    pass_time(clients.cluster, 3 * ROUND_MS / 1000)
    assert segment_bytes(node.disk) > 3 * KEPT_BYTES
    node.disk.faults = lambda call: None
    pass_time(clients.cluster, ROUND_MS / 1000 + 1)
    assert segment_bytes(node.disk) <= KEPT_BYTES + SEGMENT_BYTES


@dataclass
class CutStream:
    """Of which a part is removed. Fulfils CutStream, with route and driver and member in one."""

    cut_at: int = 7
    snapshot_index: int = 0
    asked: int = 0

    @property
    def route(self) -> Any:
        return self

    @property
    def driver(self) -> Any:
        return self

    @property
    def member(self) -> Any:
        return self

    def take_snapshot_for_room(self) -> None:
        self.asked += 1


@dataclass
class Ticked:
    """Time passes."""

    streams: list[CutStream]
    now: int = 1_000_000
    asked: list[int] = field(default_factory=list)  # behind each tick: how often

    def __post_init__(self) -> None:
        self.reclaiming = Reclaiming(lambda: self.streams)

    def tick(self, count: int, step_ms: int = 100) -> None:
        for _ in range(count):
            self.reclaiming.tick(self.now)
            self.now += step_ms
            self.asked.append(sum(stream.asked for stream in self.streams))


def test_many_streams_have_their_turns_one_after_another_and_each_once_in_a_round() -> None:
    run = Ticked([CutStream() for _ in range(1_000)])
    run.tick(TICKS_A_ROUND)
    assert all(later - before <= 11 for before, later in zip(run.asked, run.asked[1:], strict=False))
    assert [stream.asked for stream in run.streams] == [1] * 1_000
    run.tick(TICKS_A_ROUND)
    assert [stream.asked for stream in run.streams] == [2] * 1_000, "as long as there is no snapshot"


def test_a_stream_whose_snapshot_is_behind_its_last_cut_is_left_alone() -> None:
    run = Ticked([CutStream(cut_at=7, snapshot_index=7), CutStream(cut_at=0), CutStream(cut_at=8, snapshot_index=7)])
    run.tick(10)
    assert [stream.asked for stream in run.streams] == [0, 0, 1]


def test_a_clock_that_was_set_back_delays_nothing() -> None:
    run = Ticked([CutStream()])
    run.tick(1)
    run.now -= 1_000 * ROUND_MS
    run.tick(1)
    assert run.asked == [1, 2]
