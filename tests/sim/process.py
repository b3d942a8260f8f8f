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
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from node.foundation import Foundation, LogSettings, Ports
from raft.core.errors import Damaged
from raft.core.messages import Message, node_of
from raft.failure_detector import DetectorSettings
from raft.groups import Groups
from raft.store.node_log import RaftStore
from raft.transport import Letter, joined
from tests.sim import marks
from tests.sim.clock import Timer
from tests.sim.disk import Call, Fault, SimDisk
from tests.sim.parts import NodeRandom, SlowLog, SlowWork, no_delay

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

    def wall_us(self) -> int:
        return self._clock.wall_us() + self.wall_offset_ms * 1000

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

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Timer:
        return self.call_at(self._site.clock.monotonic() + delay, callback, *args)

    def call_after(self, delay: float, callback: Callable[..., object], *args: Any) -> Timer:
        """In seconds of the world."""
        timer = Timer(callback, args)
        self._loop.call_later(delay, self._site.run_timer, self._life, timer)
        return timer


class Process:
    """One life of a node, from its start to its end. Raises what a start may raise, and Crash.

    It is made in two steps: the first reads the disk, and `begin` takes part in what was found there."""

    foundation: Foundation

    def __init__(self, site: Site) -> None:
        self.site = site
        self.failed: str | None = None
        self.is_given_up = False  # it is to be started again soon
        self.found: list[str] = []
        self._unsent: dict[int, list[tuple[int, Message]]] = {}
        self.loop = NodeLoop(site)
        self.ports = Ports(
            loop=self.loop,
            clock=site.clock,
            random=NodeRandom(site.random),
            disk=site.disk,
            process=self,
            jobs=lambda name: SlowWork(self.loop, site.job_delay_s),
        )
        self.read_disk()

    def read_disk(self) -> None:
        """Make the `foundation`, and have its log read."""
        raise NotImplementedError

    def begin(self) -> None:
        """Take part in the groups that are known here."""
        self._tick()

    def log_settings(self) -> LogSettings:
        shape = self.site.world.shape
        detector = DetectorSettings(shape.ping_interval_s, shape.ping_interval_s * shape.pings_missed)
        return LogSettings(shape.file_bytes_max, None, shape.store_limits(), detector, shape.snapshot_bytes_per_s)

    # What is there

    @property
    def store(self) -> RaftStore:
        return self.foundation.store

    @property
    def log(self) -> SlowLog:
        assert isinstance(self.foundation.log, SlowLog), f"{self.foundation.log}"
        return self.foundation.log

    @property
    def groups(self) -> Groups:
        return self.foundation.groups

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
        self.log.delay_s = no_delay
        self.foundation.close()

    def _tick(self) -> None:
        self.tick()
        self.loop.call_after(self.site.world.shape.tick_s, self._tick)

    def tick(self) -> None:
        """Now and then."""
        self.store.tick(self.site.clock.wall_ms())
        if self.log.failed is None:
            self.log.flush_lazy()

    # The port Process

    def stop(self, reason: str) -> None:
        self.failed = self.failed or reason

    def fail(self, reason: str) -> None:
        raise AssertionError(f"a fault of its own: {reason}")

    def end(self, reason: str) -> None:
        raise AssertionError(f"nobody asked for it: {reason}")

    def restart(self, reason: str, *, join: str = "") -> None:
        raise AssertionError(reason)

    # The port Net

    def sending(self, group: int, message: Message) -> None:
        self.site.world.watch.sending(self, group, message)
        self._unsent.setdefault(node_of(message.to), []).append((group, message))

    def send(self, node: int, letter: Letter) -> None:
        whole = joined(letter)
        messages = self._unsent.pop(node, ()) if whole[0] == 1 else ()
        self.site.world.network.send(self.site.number, node, whole, messages)


class Site:
    """Where the processes of one node run."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.life = 0
        self.process: Process | None = None
        self.disk = SimDisk()
        self.disks_replaced = 0
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
            self.world.watch.heard(self.process, messages)

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
