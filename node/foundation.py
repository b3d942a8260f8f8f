"""What a node stands on: its log, and the groups that are replicated through it.

Whatever reaches the world goes through `Ports`. A node has those of a machine (node/assemble.py). A simulation hands in its
own, and `Parts` that tell it what happens in them; all else is what runs in production.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from broker.broker import Broker
from broker.catalog.catalog import Catalog
from broker.records import QueueRecord
from classic.driver import ClassicQueues
from node.background import Background
from node.catalog.cluster_metadata import ClusterMetadata
from node.clock import NodeTime, Process, Random
from node.recovery import LogReader, Recovered, recover
from raft.core.errors import CannotApply, Damaged
from raft.core.messages import NodeId
from raft.driver import Driver
from raft.failure_detector import DetectorSettings
from raft.groups import Groups
from raft.loop import Timer
from raft.store.group_stores import NodeStores
from raft.store.node_log import RaftStore
from raft.store.replicas import NewReplica
from raft.store.store_limits import StoreLimits
from raft.transport import Net
from storage.archive.archive import Archive
from storage.disk import Disk
from storage.wal.facts import load_or_create
from storage.wal.log_core import LOG_ID_BYTES, LogCore
from storage.wal.log_users import LogShare, LogUsers
from storage.wal.writer import LogWriter

logger = logging.getLogger("leveret")


class NodeLoop(Protocol):
    """What is needed of an event loop."""

    def call_soon(self, callback: Callable[..., object], *args: Any) -> object: ...

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any) -> object: ...

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> Timer: ...

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Timer: ...


@dataclass(frozen=True, slots=True)
class Ports:
    """The world of one node. `jobs` makes a thread of that name, for work beside the loop."""

    loop: NodeLoop
    clock: NodeTime
    random: Random
    disk: Disk
    process: Process
    jobs: Callable[[str], Background]


@dataclass(frozen=True, slots=True)
class Parts:
    """What is built of what."""

    store: Callable[..., RaftStore] = RaftStore
    log: Callable[..., LogWriter] = LogWriter
    groups: Callable[..., Groups] = Groups
    catalog: Callable[[], Catalog] = Catalog
    metadata: Callable[..., ClusterMetadata] = ClusterMetadata
    classic: Callable[..., ClassicQueues] = ClassicQueues
    broker: Callable[..., Broker] = Broker


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Of the log, and of what is replicated through it."""

    file_bytes_max: int
    commit_inline_bytes_max: int | None  # a commit of more is written by a thread; None: by none
    store: StoreLimits = field(default_factory=StoreLimits)
    detector: DetectorSettings = field(default_factory=DetectorSettings)
    snapshot_bytes_per_s: int = 0  # sent to other nodes; 0: no limit


class Foundation:
    """`open_log`; have everybody who keeps something in the log `join` it; `use_log`; `join_groups`. `close` at any time."""

    log: LogWriter
    groups: Groups

    def __init__(
        self,
        ports: Ports,
        settings: LogSettings,
        parts: Parts,
        new_replica: NewReplica,
        archive: Archive | None = None,
    ) -> None:
        """`archive`: where files go that nothing needs any more; None: they are deleted."""
        self._ports = ports
        self._archive = archive
        self._settings = settings
        self._parts = parts
        self._jobs = ports.jobs("leveret-raft")
        self._close: list[Callable[[], None]] = []
        self.store = parts.store(ports.disk, settings.store, self._jobs, new_replica, logger.error)
        self.store.keeper = archive
        self.stores = NodeStores([self.store])

    def open_log(
        self,
        others: LogReader,
        records: Iterable[QueueRecord] = (),
        *,
        had_log: bool = False,
        next_queue_id: int = 1,
        older_catalog: bool = False,
    ) -> Recovered:
        """Read it, for all who keep something in it, and go on in it. See node/recovery.py."""
        ports, settings = self._ports, self._settings
        facts = load_or_create(ports.disk, ports.random.random_bytes(LOG_ID_BYTES))
        recovered = recover(
            ports.disk,
            facts,
            self.stores,
            others,
            records,
            had_log=had_log,
            next_queue_id=next_queue_id,
            older_catalog=older_catalog,
            keeper=self._archive,
        )
        self.log = self._parts.log(
            LogCore(facts.log_id, recovered.end, settings.file_bytes_max, ports.clock.wall_us),
            ports.disk,
            ports.loop,
            facts,
            on_failed=lambda reason: ports.process.stop(f"the log failed and takes nothing more: {reason}"),
            commit_inline_bytes_max=settings.commit_inline_bytes_max,
            keeper=self._archive,
        )
        self._close += [self.stores.close, self.log.close, self._jobs.close]
        self._users = LogUsers(self.log)
        return recovered

    def join(self, name: str) -> LogShare:
        """The share in the log of whoever keeps something in it: files go when nobody needs them."""
        return self._users.join(name)

    def use_log(self) -> None:
        """Everybody who keeps something in the log has joined it. What the start has found broken is durably given up."""
        self.stores.attach(self.log, self.join)

    def join_groups(
        self,
        number: NodeId,
        incarnation: int,
        net: Net,
        *,
        on_leading: Callable[[Driver], None],
        on_damaged: Callable[[Driver, Damaged], None],
        on_repaired: Callable[[Driver], None],
        on_halted: Callable[[Driver, CannotApply], None],
    ) -> None:
        self.groups = self._parts.groups(
            number,
            incarnation,
            loop=self._ports.loop,
            clock=self._ports.clock,
            net=net,
            random=self._ports.random.fraction,
            on_failed=self._ports.process.stop,
            detector=self._settings.detector,
            snapshot_bytes_per_s=self._settings.snapshot_bytes_per_s,
            on_leading=on_leading,
            on_damaged=on_damaged,
            on_repaired=on_repaired,
            on_halted=on_halted,
        )
        self.stores.tell_damage(self.groups.damaged)
        self._close.append(self.groups.close)

    def close(self) -> None:
        undo(self._close)


def undo(steps: list[Callable[[], None]]) -> None:
    """Take all of them, the last first. One that raises keeps none of the others from its turn; the first error is raised then.
    What is no Exception ends it at once: that is how a simulated process dies."""
    failure: Exception | None = None
    while steps:
        try:
            steps.pop()()
        except Exception as error:
            failure = failure or error
    if failure is not None:
        raise failure
