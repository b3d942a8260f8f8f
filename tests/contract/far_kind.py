"""Classic queues under the contract suite, used from another node than the one that they live on: two nodes joined by
in-memory PeerCalls, real classic queues at home.

What clients see on their node may be older than what the home knows. The broker asks before it tells a client a count
(`Queue.used`), and so does this world whenever the suite looks at one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from broker.catalog.policy import EffectiveArguments
from broker.messages.confirms import Receipt
from broker.messages.message import Run
from broker.queues.queue_type import DeadMessage, DeathReason, Queue, QueueHost, QueueStatistics, QueueType
from broker.records import QueueRecord
from broker.turns import Turns
from node.anywhere.home_queues import HomeQueues
from node.anywhere.remote_queues import RemoteQueue, RemoteQueues
from node.queue_types import ClassicAnywhere
from tests.contract.memory_queue import MemoryQueues
from tests.sim.clock import SimLoop
from tests.unit.node.memory_calls import MemoryNetwork

HERE, HOME = 1, 2
NAMES = {"here": HERE, "home": HOME}


class FarQueue(RemoteQueue):
    """Asks its home whenever it is looked at, and passes on what each node's broker tells its queues by itself."""

    far: FarClassic

    @property
    def ready_count(self) -> int:
        self.far.ask_figures(self.record.id)
        return super().ready_count

    @property
    def consumer_count(self) -> int:
        self.far.ask_figures(self.record.id)
        return super().consumer_count

    def statistics(self) -> QueueStatistics:
        self.far.ask_figures(self.record.id)
        return super().statistics()

    def policy_changed(self, effective: EffectiveArguments, now: int) -> None:
        self.far.settle()
        self.far.at_home(self).policy_changed(effective, now)


class FarQueues(RemoteQueues):
    far: FarClassic

    def open(self, record: QueueRecord) -> RemoteQueue:
        queue = self._queues[record.id] = FarQueue(record, self)
        queue.far = self.far
        return queue


class HomeBroker:
    """The broker of the home node. What concerns the suite is told to it, about the queue that its clients see."""

    def __init__(self, far: FarClassic, host: QueueHost, loop: SimLoop) -> None:
        self._far = far
        self._host = host
        self.work = host.work
        turns = Turns(loop.call_soon, far.now, host.work)
        self.wake, self.deliver_from = turns.wake, turns.deliver_from

    def call_at(self, when: int, call: Callable[[int], None]) -> Callable[[], None]:
        return self._host.call_at(when, call)

    def call_after(self, delay_ms: int, call: Callable[[int], None]) -> Callable[[], None]:
        return self._host.call_after(delay_ms, call)

    def dead_letter(self, queue: Queue, reason: DeathReason, messages: Sequence[DeadMessage], now: int) -> None:
        self._host.dead_letter(self._far.seen_by_client(queue), reason, messages, now)

    def delete_queue(self, queue: Queue, reason: str, unused: Callable[[], bool] | None = None) -> None:
        self._host.delete_queue(self._far.seen_by_client(queue), reason, unused)


class FarClassic:
    """The kind on both nodes, used through the one that is not the queues' home. Fulfils QueueType."""

    name = "classic"

    def __init__(self, host: Any, loop: SimLoop, kind_at_home: Callable[[QueueHost], QueueType]) -> None:
        self._host = host
        self.network = MemoryNetwork(loop)
        here, home = self.network.join(HERE), self.network.join(HOME)
        home_broker = HomeBroker(self, host, loop)
        self._queues: dict[int, tuple[RemoteQueue, Queue]] = {}  # as seen here, and at home

        remote = FarQueues(host, here, NAMES.get)
        remote.far = self
        nothing_here = MemoryQueues(host)
        self.here = ClassicAnywhere(
            "here", nothing_here, HomeQueues(nothing_here, host, here, loop, self.now, lambda _: False), remote, here
        )
        classic = kind_at_home(home_broker)
        serving = HomeQueues(classic, home_broker, home, loop, self.now, lambda _: False)
        self.home = ClassicAnywhere("home", classic, serving, RemoteQueues(home_broker, home, NAMES.get), home)
        self.network.connect(HERE, HOME)

    def now(self) -> int:
        now: int = self._host.now
        return now

    def settle(self) -> None:
        """Both nodes have heard all, and their disks have done all."""
        self.network.run()
        assert not self.network.bad, f"a link ended: {self.network.bad[0]}"

    def ask_figures(self, queue_id: int) -> None:
        self.settle()
        self.home.home.tell_figures([queue_id])
        self.settle()

    def at_home(self, queue: Queue) -> Queue:
        return self._queues[queue.record.id][1]

    def seen_by_client(self, queue: Queue) -> Queue:
        return self._queues[queue.record.id][0]

    # QueueType

    def check(self, record: QueueRecord) -> None:
        self.here.check(record)

    def open(self, record: QueueRecord, effective: EffectiveArguments, now: int) -> Queue:
        record = replace(record, home="home")
        at_home, here = self.home.open(record, effective, now), self.here.open(record, effective, now)
        assert isinstance(here, RemoteQueue), f"{record.name} is not on another node"
        self._queues[record.id] = here, at_home
        return here

    def delete(self, queue: Queue, now: int) -> int:
        """Here is heard first of it."""
        self.ask_figures(queue.record.id)
        ready = self.here.delete(queue, now)
        self.home.delete(self.at_home(queue), now)
        return ready

    def publish(self, queues: Sequence[Queue], run: Run, receipt: Receipt | None, now: int) -> None:
        self.here.publish(queues, run, receipt, now)
