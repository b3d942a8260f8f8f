"""The consensus engine under simulation: nodes whose groups run registers, and clients that put, compare and set, and read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from broker.pending import ignore
from broker.records import QueueRecord
from node.foundation import Foundation
from raft.core.errors import CannotApply, Damaged, NumbersUsedUp
from raft.core.messages import Entry, Membership, member_id
from raft.driver import Driver, SnapshotRules
from raft.store.group_records import GroupIdentity
from raft.store.wal_log_store import WalLogStore
from storage import names
from storage.errors import DiskFailed, StorageError
from storage.wal.file_reader import Chunk
from tests.disk_numbers import begin_process
from tests.raft_node.register import Register
from tests.sim.clients import Client
from tests.sim.engine_faults import ENGINE_HAPPENINGS
from tests.sim.invariants import Violation
from tests.sim.linearizability import Call, Inconclusive, explain
from tests.sim.parts import WatchedStore, parts_of
from tests.sim.plan import Ask, Plan
from tests.sim.process import Process, Site
from tests.sim.references import Reference, RegisterReference
from tests.sim.world import World


class WatchedRegister(Register):
    """The machine to test with; the watch is told what it has become."""

    def __init__(self, process: Process, store: WalLogStore) -> None:
        super().__init__(store.read_entry)
        self._process = process
        self._group = store.identity.group

    def apply(self, entries: Sequence[Entry]) -> Sequence[Any]:
        results = super().apply(entries)
        self._process.site.world.watch.applied(self._process, self._group, entries, self.digest())
        return results


class NoQueues:
    """Nobody keeps anything in the log but the groups. Fulfils node.recovery.LogReader."""

    def recover(self, chunks: Iterable[Chunk], records: Iterable[QueueRecord]) -> int:
        for _ in chunks:
            pass
        return 0


class EngineProcess(Process):
    """Takes part in groups of registers."""

    def read_disk(self) -> None:
        site = self.site
        life = site.lives_granted + (not site.disk.exists(names.NODE_FACTS))
        _, self._numbers = begin_process(site.disk, life, 0)
        site.lives_granted = life
        self.foundation = Foundation(self.ports, self.log_settings(), parts_of(self), self.new_replica)
        self.foundation.open_log(NoQueues())
        self.foundation.use_log()

    def new_replica(self, above: int) -> int:
        """As node/identity.py has it."""
        try:
            return self._numbers(above)
        except (NumbersUsedUp, DiskFailed) as error:
            self.stop(f"no member begins any more: {error}")
            raise

    def begin(self) -> None:
        self.foundation.join_groups(
            self.site.number,
            self.site.life,
            self,
            on_leading=ignore,
            on_damaged=self.member_damaged,
            on_repaired=ignore,
            on_halted=self.member_halted,
        )
        self.log.delay_s = self.site.fsync_delay_s
        for group in sorted(self.store.stores):
            self.take_part(group)
        super().begin()

    def create(self, group: int, replica: int, membership: Membership) -> None:
        me = member_id(self.site.number, replica)
        self.store.create_group(GroupIdentity(group, me, f"g{group}", "register", membership))
        self.site.world.watch.created(self, group, me, membership)
        self.take_part(group)

    def take_part(self, group: int) -> None:
        shape = self.site.world.shape
        store = self.store.group(group)
        rules = SnapshotRules(shape.snapshot_entries_max, shape.snapshot_bytes_max)
        watched = WatchedStore(self, store)
        try:
            self.groups.add(group, store.member, watched, WatchedRegister(self, store), shape.settings(), rules)
        except Damaged as damage:  # its snapshot
            self._repair(group, damage)

    def member_damaged(self, driver: Driver, damage: Damaged) -> None:
        self._repair(driver.group, damage)

    def member_halted(self, driver: Driver, error: CannotApply) -> None:
        raise AssertionError(f"group {driver.group}: {error}")

    def _repair(self, group: int, damage: Damaged) -> None:
        """What a member reads is not what was written: it becomes another one."""
        self.excuse(damage)
        self.store.repair(group, damage, lambda member: self._take_part_again(group))

    def _take_part_again(self, group: int) -> None:
        """As the owners of groups do: what the disk does then stops the node."""
        try:
            self.take_part(group)
        except StorageError as error:
            self.groups.fail(str(error))
            raise

    def leave(self, group: int) -> None:
        """The group has taken this node out, for ever."""
        if any(driver.group == group for driver in self.groups.drivers()):  # else it is being repaired
            self.groups.remove(group)
        self.site.world.watch.removed(self, group, self.store.remove_group(group))


class EngineSite(Site):
    """Where processes with registers run."""

    process: EngineProcess | None
    lives_granted = (
        0  # to its disks, as a catalog would; a disk that lost power before it was told is granted another one
    )

    def new_process(self) -> EngineProcess:
        return EngineProcess(self)


class EngineWorld(World):
    """See the module."""

    sites: dict[int, EngineSite]  # type: ignore[assignment]  # all of one kind
    happenings = ENGINE_HAPPENINGS

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.history: dict[tuple[int, str], list[Call]] = {}
        self.clients = [Client(self, number, self.history) for number in range(1, self.shape.clients + 1)]

    def reference_of(self, group: int) -> Reference:
        return RegisterReference()

    def new_site(self, number: int) -> EngineSite:
        return EngineSite(self, number)

    def form(self) -> None:
        first = Membership(tuple(member_id(number, 0) for number in range(1, self.shape.voters + 1)))
        for site in self.sites.values():
            self.start(site)
        for number in range(1, self.shape.voters + 1):
            site = self.sites[number]
            for group in range(1, self.shape.groups + 1):
                site.groups[group] = True
                assert site.process is not None, f"node {number} did not start"
                site.process.create(group, 0, first)

    def ask(self, ask: Ask) -> None:
        self.clients[(ask.client - 1) % len(self.clients)].ask(ask)

    def process_begins(self, site: Site, process: Process) -> None:
        assert isinstance(site, EngineSite), f"{site}"
        assert isinstance(process, EngineProcess), f"{process}"
        process.begin()
        for group in [group for group in process.store.stores if group not in site.groups]:
            process.leave(group)  # its deletion was not durable
        self.create_missing(site)

    def create_missing(self, site: EngineSite) -> None:
        """What lived here was lost, or is to be from now on: an empty member begins, to be taken in by the others."""
        process = site.process
        assert process is not None, f"node {site.number} is down"
        for group in site.groups:
            if group not in process.store.stores:
                self.watch.count("empty member begins")
                process.create(group, process.new_replica(0), Membership(()))

    def process_ended(self, site: Site, process: Process, *, power: bool) -> None:
        super().process_ended(site, process, power=power)
        for client in self.clients:
            client.process_ended(process)

    @property
    def answered(self) -> int:
        return sum(client.answered for client in self.clients)

    @property
    def unknown(self) -> int:
        return sum(client.open for client in self.clients)

    def unsettled(self) -> str:
        for client in self.clients:
            if not client.is_idle:
                return f"client {client.number} waits for an answer"
        return ""

    def judge(self) -> None:
        for (group, key), calls in self.history.items():
            places = self.watch.book(group).places
            for call in calls:
                if call.command in places:
                    call.place = 2 * places[call.command]
            try:
                order = explain(calls)
            except Inconclusive as error:
                raise Violation("histories_are_linearizable", f"group {group}, {key}: {error}") from None
            if order is None:
                told = "\n".join(map(str, calls))
                raise Violation("histories_are_linearizable", f"group {group}, {key}: nothing explains\n{told}")
