"""What a simulated broker has its own of: told to the watch, and to those who know what clients may see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from broker.broker import Broker
from broker.catalog.carrying_out import CommandOutcome
from broker.history_level import HistoryLevel
from broker.limits import Limits
from broker.pending import Pending
from broker.queues.queue_type import Arrival, DeadMessage, DeathReason, OnArrival, Queue
from classic.store.node_storage import ClassicLimits
from node.catalog.cluster_metadata import ClusterMetadata
from node.foundation import Parts
from node.kernel_settings import KernelSettings
from raft.core.errors import Damaged, Superseded
from raft.core.membership import members_of
from raft.core.messages import MemberId
from raft.core.settings import Settings
from raft.driver import Driver, SnapshotRules
from raft.machine import Machine
from raft.store.group_records import GroupIdentity
from raft.store.member_store import GroupStore
from raft.store.memory_log_store import MemoryLogStore
from raft.store.wal_log_store import WalLogStore
from tests.sim.brokers.classics import WatchedClassicQueues
from tests.sim.brokers.machines import watched_machine
from tests.sim.brokers.plan import BrokerShape
from tests.sim.parts import SlowLog, TellingStore, WatchedGroups, WatchedStore

if TYPE_CHECKING:
    from tests.sim.brokers.process import BrokerProcess

RECONCILE_MS = 5_000  # an hour in production


class BrokerGroups(WatchedGroups):
    """Watches what others add."""

    def add(
        self,
        group: int,
        me: MemberId,
        store: GroupStore,
        machine: Machine,
        settings: Settings,
        rules: SnapshotRules | None = None,
    ) -> Driver:
        process: Any = self.process
        shape = process.site.world.shape
        settings = replace(shape.settings(), eagerness=settings.eagerness, commit_news_s=settings.commit_news_s)
        watched = watched_machine(process, group, machine)
        if isinstance(store, MemoryLogStore):
            process.site.world.watch.began_in_memory(group, me)
            return super().add(group, me, store, watched, settings, rules)
        assert isinstance(store, WalLogStore), f"group {group} is stored in {store}"
        rules = SnapshotRules(shape.snapshot_entries_max, shape.snapshot_bytes_max)
        return super().add(group, me, WatchedStore(process, store), watched, settings, rules)


class BrokerStore(TellingStore):
    """Tells the watch which members come and go, and holds those to account that must be repaired."""

    process: BrokerProcess

    def create_group(self, identity: GroupIdentity) -> int:
        ticket = super().create_group(identity)
        self.process.site.world.watch.created(self.process, identity.group, identity.member, identity.membership)
        return ticket

    def remove_group(self, group: int) -> int:
        ticket = super().remove_group(group)
        self.process.site.world.watch.removed(self.process, group, ticket)
        return ticket

    def repair(self, group: int, damage: Damaged, on_repaired: Callable[[MemberId], None]) -> None:
        if isinstance(damage, Superseded) and self._was_removed(group):
            self.process.site.world.watch.count("removed member is taken in again before it went")
        else:
            self.process.excuse(damage)
        super().repair(group, damage, on_repaired)

    def _was_removed(self, group: int) -> bool:
        """Whether the group goes on without the member that is here."""
        return self.group(group).member not in members_of(self.process.site.world.watch.book(group).membership)


class SimMetadata(ClusterMetadata):
    """Says which entry of the log the answer comes of that is told at the moment."""

    telling: tuple[int, int, int] | None = None  # node, incarnation, number

    def _answer(self, pending: Pending[Any], outcome: CommandOutcome) -> None:
        origin = outcome.origin
        self.telling = (origin.node, origin.incarnation, origin.number)
        try:
            super()._answer(pending, outcome)
        finally:
            self.telling = None


class NoPasswords:
    """Nobody logs in by a password here. Fulfils broker.broker.Authenticator."""

    def verify(self, user: Any, password: bytes, name: str, source: str) -> Pending[bool]:
        return Pending.of(True)


class BuryingBroker(Broker):
    """Counts what becomes of dead letters that are to arrive at least once."""

    def __init__(self, count: Callable[[str], None], **others: Any) -> None:
        super().__init__(**others)
        self._note = count

    def dead_letter_confirmed(
        self,
        queue: Queue,
        reason: DeathReason,
        message: DeadMessage,
        now: int,
        reached: set[int],
        on_answer: Callable[[Arrival], None],
    ) -> None:
        def answered(arrival: Arrival) -> None:
            self._note(f"dead letter {arrival.name.lower()}")
            on_answer(arrival)

        super().dead_letter_confirmed(queue, reason, message, now, reached, answered)

    def release(self, queue: Queue, messages: Sequence[DeadMessage], now: int, on_answer: OnArrival) -> None:
        def answered(members: Sequence[int], arrival: Arrival, reached: set[int]) -> None:
            self._note(f"released {arrival.name.lower()}")
            on_answer(members, arrival, reached)

        super().release(queue, messages, now, answered)


def parts_of(process: BrokerProcess) -> Parts:
    return Parts(
        store=partial(BrokerStore, process),
        log=partial(SlowLog, process),
        groups=partial(BrokerGroups, process),
        metadata=SimMetadata,
        classic=partial(WatchedClassicQueues, process),
        broker=partial(BuryingBroker, process.site.world.watch.count),
    )


def classic_limits(shape: BrokerShape) -> ClassicLimits:
    return ClassicLimits(
        embed_below=shape.classic_embed_below,
        sequences_per_segment=shape.classic_sequences_per_segment,
        store_file_bytes_max=shape.classic_store_file_bytes,
        runs_max=shape.classic_runs_max,
        ram_count_max=shape.classic_ram_count_max,
        ram_bytes_kept=0,
        log_files_kept=shape.log_files_kept,
        loaded_runs_max=8,
        compaction_interval_ms=shape.compaction_interval_ms,
    )


def kernel_settings(process: BrokerProcess) -> KernelSettings:
    shape = process.site.world.shape
    return KernelSettings(
        log=process.log_settings(),
        classic=classic_limits(shape),
        clients=Limits(),
        catalog=None,
        gathering_bytes_max=shape.uncommitted_bytes_max,
        grows=bool(shape.reconcile),
        reconcile_interval_ms=RECONCILE_MS,
        zone=process.site.name,
        steps_per_turn=shape.steps_max,
        queues_per_step=shape.queues_per_step,
        history=HistoryLevel.FULL if process.site.world.plan.seed % 2 else HistoryLevel.BASIC,
        entry_bytes_kept_max=shape.memory_bytes_max,  # so that bodies are read from files all the time
    )
