"""The kinds of queue that the contract suite is run on. A new kind adds one line to KINDS."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from broker.queues.queue_type import QueueHost, QueueType
from classic.driver import ClassicQueues
from storage.wal.facts import load_or_create
from storage.wal.log_core import LogCore
from storage.wal.replay import Replay
from storage.wal.writer import LogWriter
from tests.contract.far_kind import FarClassic
from tests.contract.memory_queue import MemoryQueues
from tests.contract.quorum_kinds import ClusteredKind
from tests.contract.quorum_rules import QUORUM_RULES
from tests.contract.stream_rules import STREAM_RULES
from tests.sim.clock import SimLoop
from tests.sim.disk import SimDisk
from tests.unit.quorum.nodes import Cluster
from tests.unit.stream.nodes import StreamCluster

LOG_FILE_BYTES_MAX = 1 << 20  # a log that rolls now and then


def nothing() -> None:
    pass


@dataclass(slots=True)
class Opened:
    """A kind, ready to be tested."""

    kind: QueueType
    let_disk_finish: Callable[[], None] = nothing  # everything that was asked of the disk so far is done after it
    close: Callable[[], None] = nothing
    consumes_with: Mapping[str, Any] = field(default_factory=dict)  # what a consumer has unless its test says otherwise


@dataclass(slots=True, frozen=True)
class Kind:
    name: str
    open: Callable[[QueueHost, Path], Opened]  # with a directory of its own
    differs: Mapping[str, str] = field(
        default_factory=dict
    )  # tests of rules that it does not have: what it has instead
    keeps: frozenset[str] | None = None  # tests of the rules that it has; None: of all others
    node_acknowledges: bool = False  # for clients that do not: the queue's figures count that, too


def open_memory(host: QueueHost, directory: Path) -> Opened:
    return Opened(MemoryQueues(host))


def open_classic(host: QueueHost, directory: Path) -> Opened:
    """Over a log on a simulated disk: an append is durable once the loop has run."""
    on_disk = ClassicOnDisk(SimLoop(), host)

    def let_disk_finish() -> None:
        on_disk.loop.run_soon()
        assert not on_disk.failures, f"the log failed: {on_disk.failures[0]}"

    return Opened(on_disk.kind, let_disk_finish, on_disk.log.close)


def open_far_classic(host: QueueHost, directory: Path) -> Opened:
    """The same, on another node than the client's."""
    homes: list[ClassicOnDisk] = []

    def at_home(home_host: QueueHost) -> QueueType:
        homes.append(ClassicOnDisk(loop, home_host))
        return homes[0].kind

    loop = SimLoop()
    far = FarClassic(host, loop, at_home)

    def let_disk_finish() -> None:
        far.settle()
        assert not homes[0].failures, f"the log failed: {homes[0].failures[0]}"

    return Opened(far, let_disk_finish, homes[0].log.close)


class ClassicOnDisk:
    """The real kind, its log on a simulated disk."""

    def __init__(self, loop: SimLoop, host: QueueHost) -> None:
        self.loop = loop
        self.failures: list[str] = []
        disk = SimDisk()
        facts = load_or_create(disk, bytes(range(16)))
        replay = Replay(disk, facts)
        self.kind = ClassicQueues(disk)
        self.kind.recover(replay.chunks(), set())
        core = LogCore(facts.log_id, replay.finish(), LOG_FILE_BYTES_MAX)
        self.log = LogWriter(core, disk, loop, facts, on_failed=self.failures.append, commit_inline_bytes_max=None)
        self.kind.attach(host, self.log)


def open_quorum(nodes: int, members: Sequence[int], client: int, home: int) -> Callable[[QueueHost, Path], Opened]:
    """On a cluster of so many nodes, whose client is connected to one of them."""

    def open_it(host: QueueHost, directory: Path) -> Opened:
        kind = ClusteredKind(host, Cluster, nodes, members, client, home)
        return Opened(kind, kind.settle, kind.close)

    return open_it


def open_stream(nodes: int, client: int) -> Callable[[QueueHost, Path], Opened]:
    """On a cluster of so many nodes, all of them members; the first one leads. A consumer reads it from the beginning."""

    def open_it(host: QueueHost, directory: Path) -> Opened:
        kind = ClusteredKind(host, StreamCluster, nodes, range(1, nodes + 1), client, 1)
        reads = {"prefetch": 2_000, "arguments": {"x-stream-offset": "first"}}
        return Opened(kind, kind.settle, kind.close, reads)

    return open_it


def kinds_for(test: str) -> list[Kind]:
    """Those that keep the rules of this test."""
    return [kind for kind in KINDS if test not in kind.differs and (kind.keeps is None or test in kind.keeps)]


FAR_CLASSIC_RULES = {
    "test_the_details_that_are_shown_of_a_queue_are_not_kept_with_it": "what its home told is kept, as it was told"
}

KINDS = [
    Kind("memory", open_memory),
    Kind("classic", open_classic),
    Kind("classic-on-another-node", open_far_classic, FAR_CLASSIC_RULES, node_acknowledges=True),
    Kind("quorum-alone", open_quorum(1, [1], 1, 1), QUORUM_RULES),
    Kind("quorum-on-the-leader", open_quorum(3, [1, 2, 3], 1, 1), QUORUM_RULES),
    Kind("quorum-on-a-follower", open_quorum(3, [1, 2, 3], 2, 1), QUORUM_RULES),
    Kind("quorum-without-a-member", open_quorum(3, [1, 2], 3, 1), QUORUM_RULES),
    Kind("stream-alone", open_stream(1, 1), keeps=STREAM_RULES),
    Kind("stream-on-the-leader", open_stream(3, 1), keeps=STREAM_RULES),
    Kind("stream-on-a-follower", open_stream(3, 2), keeps=STREAM_RULES),
]
