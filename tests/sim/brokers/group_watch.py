"""Groups of readers of which one is active: who is told what, and by which nodes.

That two never read at the same time is promised only as long as the node that decides can hear of both: who comes to lead the
stream, and cannot reach a node, does not know whom that node's clients were told to be. So it is asked for after a while in
which no connection between nodes has come or gone, and the same member has led the stream. Otherwise it is counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from broker.stream_clients.consumer_groups import GroupKey
from broker.stream_clients.node_groups import AGAIN_MS
from tests.sim.brokers import invariants
from tests.sim.brokers.invariants import About

if TYPE_CHECKING:
    from tests.sim.brokers.stream_connection import StreamConnection
    from tests.sim.brokers.world import BrokerWorld

CALM_S = AGAIN_MS / 1000 + 5.0  # by then each node has said what it has to the one that decides


@dataclass(eq=False)
class WatchedConsumer:
    """One reader of a group, as its node knows it."""

    connection: StreamConnection
    group: WatchedGroup
    reads: bool = False  # it was told to, and has not answered that it has stopped

    def told(self, active: bool) -> None:
        if active:
            self.group.begins(self)
        else:
            self.group.world.watch.count("group consumer told to stop")
            self.reads = True  # until it has answered

    def stopped(self) -> None:
        """Its client has answered so."""
        self.reads = False

    def left(self) -> None:
        self.reads = False
        self.group.consumers.pop(self, None)


@dataclass
class WatchedGroup:
    """Its consumers on all nodes."""

    about: About
    key: GroupKey
    world: BrokerWorld
    consumers: dict[WatchedConsumer, None] = field(default_factory=dict)
    _led: tuple[int, int] = (0, 0)  # the stream's group and how many leaders it has had, when that was looked at last
    _led_since: float = 0.0  # since when the same was seen

    def join(self, connection: StreamConnection) -> WatchedConsumer:
        consumer = WatchedConsumer(connection, self)
        self.consumers[consumer] = None
        connection.consumer = consumer
        return consumer

    def begins(self, consumer: WatchedConsumer) -> None:
        """It is told so by its node."""
        others = [one.connection.name for one in self.reading() if one is not consumer]
        if self._is_known_to_all():
            invariants.one_of_a_group_reads(self.about, self.key.name, consumer.connection.name, others)
        elif others:
            self.world.watch.count("two of a group read at a time")
        self.world.watch.count("group consumer told to begin")
        consumer.reads = True

    def reading(self) -> list[WatchedConsumer]:
        return [one for one in self.served() if one.reads]

    def served(self) -> list[WatchedConsumer]:
        return [one for one in self.consumers if one.connection.is_served]

    def _is_known_to_all(self) -> bool:
        """Whether the node that decides has done so for long, and has heard of everybody."""
        before, self._led = self._led, self.world.leaders_so_far(self.key.stream)
        if before != self._led:
            self._led_since = self.world.loop.time()
        return min(self.world.calm_for_s(), self.world.loop.time() - self._led_since) > CALM_S
