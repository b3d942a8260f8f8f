"""What a simulated process has its own of: slower, and told to the watch. All else is what runs in production."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from node.foundation import Parts
from raft.core.errors import Damaged
from raft.core.live_entries import LiveEntries
from raft.core.messages import Entry, Message, SnapshotMeta
from raft.core.ready import Facts
from raft.driver import Driver
from raft.groups import Groups
from raft.store.node_log import RaftStore
from raft.store.wal_log_store import Done, Installed, WalLogStore
from storage.disk import Buffer
from storage.wal.log_core import Commit
from storage.wal.writer import LogWriter

if TYPE_CHECKING:
    from tests.sim.process import NodeLoop, Process


class NodeRandom:
    """A node's share of bad luck. Fulfils node.clock.Random."""

    def __init__(self, random: Random) -> None:
        self.random_bytes = random.randbytes
        self.fraction = random.random


def no_delay() -> float:
    return 0.0


class SlowLog(LogWriter):
    """The node's log on a device that takes its time: a commit is written and fsynced that much later, and others gather."""

    def __init__(self, process: Process, *what: Any, **settings: Any) -> None:
        super().__init__(*what, **settings)
        self.delay_s: Callable[[], float] = no_delay  # time stands still in a start
        self._node_loop = process.loop
        self.when_durable(lambda ticket: process.site.world.watch.fsynced(process, ticket))  # before anybody is told

    def _dispatch(self, commit: Commit, inline: bool) -> None:
        delay_s = self.delay_s()
        if delay_s:
            self._node_loop.call_after(delay_s, self._dispatch_now, commit)
        else:
            self._dispatch_now(commit)

    def _dispatch_now(self, commit: Commit) -> None:
        super()._dispatch(commit, inline=True)

    @property
    def is_writing(self) -> bool:
        return bool(self._core.commits.in_flight)


class SlowWork:
    """A thread beside the loop: a job's work is done some time after it was asked for, and is told of some time later."""

    def __init__(self, loop: NodeLoop, delay_s: Callable[[], float]) -> None:
        self._loop = loop
        self._delay_s = delay_s

    def run(self, work: Callable[[], None], done: Callable[[None, Exception | None], None]) -> None:
        self._loop.call_after(self._delay_s(), self._work, work, done)

    def close(self) -> None:
        """There is no thread that would have to end."""

    def _work(self, work: Callable[[], None], done: Callable[[None, Exception | None], None]) -> None:
        failure: Exception | None = None
        try:
            work()
        except Exception as error:
            failure = error
        self._loop.call_after(self._delay_s(), done, None, failure)


class WatchedStore:
    """A group's store, whose twin is told of all that is appended."""

    def __init__(self, process: Process, store: WalLogStore) -> None:
        self.store = store
        self._process = process
        self.facts = store.facts
        self.snapshot = store.snapshot
        self.memberships = store.memberships
        self.first_index = store.first_index
        self.last_index = store.last_index
        self.term = store.term
        self.entries = store.entries
        self.snapshot_size = store.snapshot_size
        self.read_snapshot = store.read_snapshot
        self.note_committed = store.note_committed
        self.receive = store.receive
        self.note_committed = store.note_committed
        self.durability = store.durability
        self.load_state = store.load_state

    def append(self, facts: Facts | None, entries: Sequence[Entry]) -> int:
        ticket = self.store.append(facts, entries)
        self._process.site.world.watch.appended(self._process, self.store.identity.group, ticket, facts, list(entries))
        return ticket

    def save_snapshot(
        self,
        meta: SnapshotMeta,
        state: Sequence[Buffer],
        live: LiveEntries | None,
        done: Done,
        *,
        keeps_recent: bool = True,
    ) -> None:
        watch = self._process.site.world.watch
        watch.snapshot_taken(self._process, self.store.identity.group, meta, state)

        def ended(kept: bool) -> None:
            if not kept and self.store.snapshot().index >= meta.index:
                watch.count("compaction race")  # a newer one was installed while this one was written
            done(kept)

        self.store.save_snapshot(meta, state, live, ended, keeps_recent=keeps_recent)

    def install(self, meta: SnapshotMeta, done: Installed) -> None:
        self._process.site.world.watch.count("snapshot install")
        self.store.install(meta, done)


class WatchedGroups(Groups):
    """Tells the watch what is about to leave, before anybody else sees it, and what becomes of members."""

    def __init__(self, process: Process, *what: Any, **settings: Any) -> None:
        damaged, repaired, watch = settings["on_damaged"], settings["on_repaired"], process.site.world.watch

        def on_damaged(driver: Driver, damage: Damaged) -> None:
            watch.found_damaged(driver.group, driver.me, damage)
            damaged(driver, damage)

        def on_repaired(driver: Driver) -> None:
            watch.count("repaired member votes again")
            repaired(driver)

        settings |= {"on_damaged": on_damaged, "on_repaired": on_repaired}
        settings["on_halted"] = None  # what cannot be applied is raised
        super().__init__(*what, **settings)
        self.process = process

    def send(self, group: int, message: Message) -> None:
        self.process.sending(group, message)
        super().send(group, message)


class TellingStore(RaftStore):
    """Keeps what it has found for the watch."""

    def __init__(self, process: Process, *what: Any) -> None:
        *others, _ = what
        super().__init__(*others, found=process.found.append)
        self.process = process


def parts_of(process: Process) -> Parts:
    return Parts(
        store=partial(TellingStore, process), log=partial(SlowLog, process), groups=partial(WatchedGroups, process)
    )
