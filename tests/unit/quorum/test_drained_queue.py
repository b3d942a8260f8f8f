"""Room on the disk for what consumers have taken: LogGrowth of raft/log_growth.py, over whole nodes."""

from __future__ import annotations

from typing import Any

from broker.messages.message import Run
from broker.records import QueueRecord
from native.content import encode
from raft.driver import SnapshotRules
from raft.store.store_limits import StoreLimits
from storage.names import SEGMENT_SUFFIX
from tests.sim.disk import SimDisk
from tests.unit.quorum.clients import Clients

BODY_BYTES = 50_000
BODIES = 100
GROWTH_BYTES = 2_000_000  # the log's, before a snapshot is due
# Entries are copied out of the log, so that files have as many bytes as count.
COPIED = StoreLimits(log_files_kept=0, entries_kept=0, compaction_interval_ms=0, kept_pack_bytes_min=1 << 20)
WITH_RECENT = StoreLimits(log_files_kept=0, compaction_interval_ms=0, kept_pack_bytes_min=1 << 20)


def drained(limits: StoreLimits, bytes_max: int) -> tuple[Clients, QueueRecord]:
    """A queue that had large messages, all of which were acknowledged."""
    clients = Clients(limits=limits, rules=SnapshotRules(bytes_max=bytes_max))
    record = clients.cluster.declare("q", (1, 2, 3))
    clients.cluster.leader(record)
    node = clients.cluster.nodes[1]
    for number in range(BODIES):
        content = encode(b"\0\0", bytes([number]) * BODY_BYTES)
        node.kind.publish((node.queue(record),), Run("", "q", content, 1, BODY_BYTES), None, clients.cluster.wall_ms())
        clients.cluster.run(0.05)
    assert len(clients.drain(1, record)) == BODIES
    return clients, record


def settle(clients: Clients) -> None:
    """Work beside the loop, too, which looks for what has no entry that counts."""
    clients.cluster.run(1)
    for node in clients.cluster.alive():
        node.store.tick(clients.cluster.wall_ms())
    clients.cluster.run(0.1)


def segment_bytes(node: Any) -> int:
    disk: SimDisk = node.disk
    return sum(len(disk.content(name)) for name in disk.files() if name.endswith(SEGMENT_SUFFIX))


def test_a_queue_that_was_drained_leaves_the_disk_though_nothing_more_comes() -> None:
    """All of a backlog stayed until as much had come again as a snapshot is worth, whatever it had been."""
    clients, _ = drained(COPIED, GROWTH_BYTES)
    settle(clients)
    for node in clients.cluster.alive():
        assert segment_bytes(node) <= GROWTH_BYTES + BODY_BYTES


def test_with_a_full_disk_all_that_is_dead_goes_on_each_member() -> None:
    """A disk alarm held publishers for ever: what filled the disk could go with the next snapshot only, and that comes with
    what is published."""
    clients, _ = drained(WITH_RECENT, 1 << 30)
    settle(clients)
    nodes = clients.cluster.alive()
    assert all(segment_bytes(node) > BODIES * BODY_BYTES / 2 for node in nodes)
    for node in nodes:
        node.groups.give_room()
    settle(clients)
    assert all(segment_bytes(node) < 2 * BODY_BYTES for node in nodes)
