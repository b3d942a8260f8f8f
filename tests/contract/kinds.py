"""The kinds of queue that the contract suite is run on. A new kind adds one line to KINDS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from broker.queue_type import QueueHost, QueueType
from classic.driver import ClassicQueues
from storage.wal import LogCore
from storage.wal_facts import load_or_create
from storage.wal_replay import Replay
from storage.wal_writer import LogWriter
from tests.contract.memory_queue import MemoryQueues
from tests.sim.clock import SimLoop
from tests.sim.disk import SimDisk

LOG_FILE_BYTES_MAX = 1 << 20  # a log that rolls now and then


def nothing() -> None:
    pass


@dataclass(slots=True)
class Opened:
    """A kind, ready to be tested."""

    kind: QueueType
    let_disk_finish: Callable[[], None] = nothing  # everything that was asked of the disk so far is done after it
    close: Callable[[], None] = nothing


@dataclass(slots=True, frozen=True)
class Kind:
    name: str
    open: Callable[[QueueHost, Path], Opened]  # with a directory of its own


def open_memory(host: QueueHost, directory: Path) -> Opened:
    return Opened(MemoryQueues(host))


def open_classic(host: QueueHost, directory: Path) -> Opened:
    """Over a log on a simulated disk: an append is durable once the loop has run."""
    disk, loop, failures = SimDisk(), SimLoop(), list[str]()
    facts = load_or_create(disk, bytes(range(16)))
    replay = Replay(disk, facts)
    kind = ClassicQueues(disk)
    kind.recover(replay.chunks(), set())
    core = LogCore(facts.log_id, replay.finish(), LOG_FILE_BYTES_MAX)
    log = LogWriter(core, disk, loop, facts, on_failed=failures.append, commit_inline_bytes_max=None)
    kind.attach(host, log)

    def let_disk_finish() -> None:
        loop.run_soon()
        assert not failures, f"the log failed: {failures[0]}"

    return Opened(kind, let_disk_finish, log.close)


KINDS = [Kind("memory", open_memory), Kind("classic", open_classic)]
