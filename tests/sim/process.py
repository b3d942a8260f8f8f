"""A node of the simulated cluster: a *site*, with a disk, a clock and its share of bad luck, and on it one *process* after
another.

A process is what raft/ and storage/ are on a real node: the log, the store, the groups, and what stands on them: the machine to
test with (tests/sim/engine.py), or a whole broker (tests/sim/brokers/). What is simulated is only what lies below their ports:
the loop, the clock, the disk, the network, the thread for slow work.

Whatever a process asks to be called for goes through its site, which holds it back while the process is stopped (SIGSTOP) and
drops it when the process has died; after each such call the watch looks at what has changed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from raft.driver import Driver
from raft.errors import Damaged, NumbersUsedUp
from raft.failure_detector import DetectorSettings
from raft.groups import Groups
from raft.live_entries import LiveEntries
from raft.messages import Entry, Message, SnapshotMeta, node_of
from raft.node_log import RaftStore
from raft.ready import Facts
from raft.replicas import NewReplica
from raft.wal_log_store import Done, Installed, WalLogStore
from storage.disk import Buffer
from storage.errors import DiskFailed
from storage.log_users import LogUsers
from storage.wal import Commit, LogCore
from storage.wal_facts import load_or_create
from storage.wal_file_reader import Chunk
from storage.wal_replay import Replay
from storage.wal_writer import LogWriter
from tests.sim import marks
from tests.sim.clock import Timer
from tests.sim.disk import Call, Fault, SimDisk

if TYPE_CHECKING:
    from tests.sim.world import World


class Crash(BaseException):
    """The process ends in the middle of a call to its disk. No handler of the product may hold it up."""

    def __init__(self, *, power: bool) -> None:
        super().__init__("power cut" if power else "kill -9")
        self.power = power


class NodeClock:
    """A node's own clock: it begins anywhere, and may be too fast or too slow."""

    def __init__(self, world: World, start: float) -> None:
        self._clock = world.loop.clock
        self._since = 0.0
        self._stood_at = start
        self.rate = 1.0
        self.wall_offset_ms = 0

    def monotonic(self) -> float:
        return self._stood_at + (self._clock.now - self._since) * self.rate

    def wall_ms(self) -> int:
        return self._clock.wall_ms() + self.wall_offset_ms

    def go_at(self, rate: float) -> None:
        self._stood_at = self.monotonic()
        self._since = self._clock.now
        self.rate = rate

    def world_time(self, when: float) -> float:
        return self._since + (when - self._stood_at) / self.rate


class NodeLoop:
    """The event loop of one process. Calls of a process that has died are never made, nor those that were cancelled, though
    they were due already while it stood still."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._life = site.life
        self._loop = site.world.loop

    def call_soon(self, callback: Callable[..., object], *args: Any) -> Timer:
        timer = Timer(callback, args)
        self._loop.call_soon(self._site.run_timer, self._life, timer)
        return timer

    call_soon_threadsafe = call_soon

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> Timer:
        at = max(self._site.clock.world_time(when), self._loop.clock.now)
        timer = Timer(callback, args)
        self._loop.call_at(at, self._site.run_timer, self._life, timer)
        return timer

    def call_after(self, delay: float, callback: Callable[..., object], *args: Any) -> Timer:
        """In seconds of the world."""
        timer = Timer(callback, args)
        self._loop.call_later(delay, self._site.run_timer, self._life, timer)
        return timer


class SlowLog(LogWriter):
    """The node's log on a device that takes its time: a commit is written and fsynced that much later, and others gather."""

    loop: NodeLoop
    delay_s: Callable[[], float]

    def _dispatch(self, commit: Commit, inline: bool) -> None:
        delay_s = self.delay_s()
        if delay_s:
            self.loop.call_after(delay_s, self._dispatch_now, commit)
        else:
            self._dispatch_now(commit)

    def _dispatch_now(self, commit: Commit) -> None:
        super()._dispatch(commit, inline=True)

    @property
    def is_writing(self) -> bool:
        return self._core.commits.in_flight is not None


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
        self.receive = store.receive
        self.load_state = store.load_state

    def append(self, facts: Facts | None, entries: Sequence[Entry]) -> int:
        ticket = self.store.append(facts, entries)
        self._process.site.world.watch.appended(self._process, self.store.identity.group, ticket, facts, list(entries))
        return ticket

    def save_snapshot(self, meta: SnapshotMeta, state: Sequence[Buffer], live: LiveEntries | None, done: Done) -> None:
        watch = self._process.site.world.watch
        watch.snapshot_taken(self._process, self.store.identity.group, meta, state)

        def ended(kept: bool) -> None:
            if not kept and self.store.snapshot().index >= meta.index:
                watch.count("compaction race")  # a newer one was installed while this one was written
            done(kept)

        self.store.save_snapshot(meta, state, live, ended)

    def install(self, meta: SnapshotMeta, done: Installed) -> None:
        self._process.site.world.watch.count("snapshot install")
        self.store.install(meta, done)


class WatchedGroups(Groups):
    """Tells the watch what is about to leave, before anybody else sees it."""

    process: Process

    def send(self, group: int, message: Message) -> None:
        self.process.sending(group, message)
        super().send(group, message)


class Process:
    """One life of a node, from its start to its end. Raises what a start may raise, and Crash.

    It is made in two steps: the first reads the disk, and `begin` takes part in what was found there."""

    groups_type: type[WatchedGroups] = WatchedGroups
    numbers: NewReplica

    def __init__(self, site: Site) -> None:
        self.site = site
        self.failed: str | None = None
        self.is_given_up = False  # it is to be started again soon
        self.found: list[str] = []
        self._unsent: dict[int, list[tuple[int, Message]]] = {}
        world, disk = site.world, site.disk
        shape = world.shape
        self.loop = NodeLoop(site)
        self.prepare()
        facts = load_or_create(disk, site.random.randbytes(16))
        replay = Replay(disk, facts, salvage=True)
        work = SlowWork(self.loop, site.job_delay_s)
        self.store = self.new_store(work)
        self.recover(self.store.recover(replay, facts.first_file))
        end = replay.finish()
        self.store.finish(end)
        self.recovered(replay)
        core = LogCore(facts.log_id, end, shape.file_bytes_max)
        self.log = SlowLog(core, disk, self.loop, facts, on_failed=self._fail, commit_inline_bytes_max=None)
        self.log.loop, self.log.delay_s = self.loop, lambda: 0.0  # time stands still in a start
        self.log.when_durable(lambda ticket: world.watch.fsynced(self, ticket))  # before anybody is told
        self.users = LogUsers(self.log)
        self.join_log()
        self.log.delay_s = site.fsync_delay_s
        self.groups = self.groups_type(
            self.number,
            self.incarnation,
            loop=self.loop,
            clock=site.clock,
            net=self,
            log=self.log,
            random=site.random.random,
            on_failed=self._fail,
            detector=DetectorSettings(shape.ping_interval_s, shape.ping_interval_s * shape.pings_missed),
            on_leading=self.leading_changed,
            on_damaged=self.member_damaged,
            on_repaired=lambda driver: world.watch.count("repaired member votes again"),
        )
        self.store.on_damaged = self.groups.damaged
        self.groups.process = self

    # What stands on the groups

    def prepare(self) -> None:
        """Before the log is read. From then on `numbers` has those of members."""
        raise NotImplementedError

    def new_store(self, work: SlowWork) -> RaftStore:
        site = self.site
        return RaftStore(site.disk, site.world.shape.store_limits(), work, self.new_replica, self.found.append)

    def new_replica(self, above: int) -> int:
        """As node/assemble.py has it."""
        try:
            return self.numbers(above)
        except (NumbersUsedUp, DiskFailed) as error:
            self._fail(f"no member begins any more: {error}")
            raise

    def recover(self, chunks: Iterable[Chunk]) -> None:
        """Read the log to its end."""
        for _ in chunks:
            pass

    def recovered(self, replay: Replay) -> None:
        """What was found is known."""

    def join_log(self) -> None:
        """Everybody who keeps something in the log has a share in it."""
        self.store.attach(self.log, self.users.join("raft"))

    @property
    def number(self) -> int:
        """Of the node in its cluster."""
        return self.site.number

    @property
    def incarnation(self) -> int:
        return self.site.life

    def begin(self) -> None:
        """Take part in the groups that are known here."""
        self._tick()

    def leading_changed(self, driver: Driver) -> None:
        """A leadership has come to this node, or has left it."""

    def member_damaged(self, driver: Driver, damage: Damaged) -> None:
        """It takes part no more, and is to become another one."""
        raise NotImplementedError

    def excuse(self, damage: Damaged) -> None:
        """Raises AssertionError when nothing can have changed what is on the disk."""
        if not (self.site.damaged or self.site.was_rolled_back):
            raise AssertionError(f"nothing damaged the disk of node {self.site.number}: {damage}") from damage
        self.site.world.watch.count("damage found while running")

    @property
    def may_close(self) -> bool:
        """Nothing is being written: a stop would have to wait, and time stands still in it."""
        return self.log.failed is None and self.failed is None and not self.log.is_writing

    @property
    def has_stopped_its_jobs(self) -> bool:
        """Its disk failed at something that can wait: it goes on, and somebody has to start it again."""
        return self.store.failed is not None

    def close(self) -> None:
        """A clean stop."""
        self.groups.close()
        self.log.delay_s = lambda: 0.0
        self.log.close()
        self.store.close()

    def _fail(self, reason: str) -> None:
        self.failed = self.failed or reason

    def _tick(self) -> None:
        self.tick(self.site.clock.wall_ms())
        if self.log.failed is None:
            self.log.flush_lazy()
        self.loop.call_after(self.site.world.shape.tick_s, self._tick)

    def tick(self, now: int) -> None:
        """Now and then, at milliseconds by the node's clock."""
        self.store.tick(now)

    # The port Net

    def sending(self, group: int, message: Message) -> None:
        self.site.world.watch.sending(self, group, message)
        self._unsent.setdefault(node_of(message.to), []).append((group, message))

    def send(self, node: int, letter: bytes) -> None:
        messages = self._unsent.pop(node, ()) if letter[0] == 1 else ()
        self.site.world.network.send(self.site.number, node, letter, messages)


class Site:
    """Where the processes of one node run."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.life = 0
        self.process: Process | None = None
        self.disk = SimDisk()
        self.groups: dict[int, bool] = {}  # that are to have a member here
        self.random = Random(f"{world.plan.seed} node {number}")
        self.clock = NodeClock(world, self.random.random() * 1000)
        self.leaving: dict[int, bool] = {}  # groups whose log here is deleted soon
        self.stopped = False  # by SIGSTOP
        self.deferred: deque[Callable[[], None]] = deque()
        self.down_until = 0.0  # not started before
        self.down_s = 0.3  # how long it stays down when it ends by itself
        self.hurry()
        self.lied = False  # an fsync said yes and did nothing since the last power cut
        self.logs_at_rest: marks.Logs | None = None  # as the last process left them, since one was damaged
        self.damaged = False  # something at rest may be not what was written, and was not found yet
        self.rolled_back = False  # the disk is an old one, which nobody tells the next process
        self.was_rolled_back = False  # ... nor an earlier one; others may tell it later
        self.equip()

    def new_process(self) -> Process:
        raise NotImplementedError

    def equip(self) -> None:
        """The disk is another one."""
        self.damaged = self.lied = False
        self.logs_at_rest = None
        self.disk.on_delete = lambda name: self.world.watch.deleted(self, name)

    @property
    def unsure(self) -> bool:
        """Whether it may have lost what was fsynced."""
        return self.damaged or self.rolled_back

    def serves(self, group: int) -> bool:
        """Whether a client may ask here."""
        return self.process is not None and group in self.process.store.stores and group in self.groups

    @staticmethod
    def no_faults(call: Call) -> Fault | None:
        return None

    # What the process asks for

    def slow_down(self, slow_s: float, on_effect: Callable[[], None]) -> None:
        """An fsync takes up to so much longer from now on."""
        self._slow_s, self._on_slow = slow_s, on_effect

    def hurry(self) -> None:
        self._slow_s, self._on_slow = 0.0, lambda: None

    def fsync_delay_s(self) -> float:
        self._on_slow()
        return self.world.shape.fsync_s * self.random.random() * 2 + self._slow_s * self.random.random()

    def job_delay_s(self) -> float:
        self._on_slow()
        return self.world.shape.job_s * self.random.random() * 2 + self._slow_s * self.random.random()

    # Its events

    def run(self, life: int, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        """An event of the process of this life."""
        if life != self.life or self.process is None:
            return
        if self.stopped:
            self.deferred.append(partial(self.run, life, callback, args))
            return
        self.world.event(self, callback, args)

    def run_timer(self, life: int, timer: Timer) -> None:
        """As `run`; it may be cancelled for as long as the process is stopped."""
        if self.stopped:
            self.deferred.append(partial(self.run_timer, life, timer))
        elif timer.callback is not None:
            self.run(life, timer.callback, timer.args)

    def receive(self, sender: int, letter: bytes, messages: Sequence[tuple[int, Message]]) -> None:
        self.run(self.life, self._receive, (sender, letter, messages))

    def connected(self, node: int) -> None:
        self.run(self.life, self._connected, (node,))

    def disconnected(self, node: int) -> None:
        self.run(self.life, self._disconnected, (node,))

    def _receive(self, sender: int, letter: bytes, messages: Sequence[tuple[int, Message]]) -> None:
        assert self.process is not None, f"node {self.number} is down"
        self.world.trace.letter(letter)
        self.process.groups.receive(sender, letter)
        if messages:
            self.world.watch.heard(messages)

    def _connected(self, node: int) -> None:
        assert self.process is not None, f"node {self.number} is down"
        self.process.groups.add_node(node)
        self.process.groups.connected(node)

    def _disconnected(self, node: int) -> None:
        assert self.process is not None, f"node {self.number} is down"
        self.process.groups.disconnected(node)

    # Life and death

    @property
    def is_up(self) -> bool:
        return self.process is not None

    def stop(self) -> None:
        self.stopped = True

    def go_on(self) -> None:
        """Everything that came meanwhile happens at once."""
        self.stopped = False
        deferred, self.deferred = self.deferred, deque()
        while deferred:
            if self.stopped:
                self.deferred.extendleft(reversed(deferred))
                return
            deferred.popleft()()

    def end(self, *, power: bool) -> None:
        """The process dies; with `power`, the machine too."""
        process, self.process = self.process, None
        self.life += 1
        self.stopped = False
        self.deferred.clear()
        if power:
            self.world.cut_power(self)
        else:
            self.disk.kill()
        if process is not None:
            self.world.process_ended(self, process, power=power)
