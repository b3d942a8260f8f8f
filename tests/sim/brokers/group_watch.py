"""Groups of readers of which one is active: who is told what, and by which nodes.

That two never read at the same time is promised only as long as the node that decides can hear of both: who comes to lead the
stream, and cannot reach a node, does not know whom that node's clients were told to be. So it is asked for after a while in
which no connection between nodes has come or gone, and otherwise counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from broker.stream_clients.consumer_groups import GroupKey
from broker.stream_clients.node_groups import AGAIN_MS
from tests.sim.brokers import invariants
from tests.sim.brokers.invariants import About

if TYPE_CHECKING:
    from tests.sim.brokers.stream_connection import StreamConnection

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
            self.group.count("group consumer told to stop")
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
    count: Callable[[str], None]
    is_calm_for_s: Callable[[], float]
    consumers: dict[WatchedConsumer, None] = field(default_factory=dict)
    _coordinator: str = ""

    def join(self, connection: StreamConnection) -> WatchedConsumer:
        consumer = WatchedConsumer(connection, self)
        self.consumers[consumer] = None
        connection.consumer = consumer
        return consumer

    def begins(self, consumer: WatchedConsumer) -> None:
        """It is told so by its node."""
        others = [one for one in self.reading() if one is not consumer]
        if others and self._is_known_to_all(consumer):
            who = [one.connection.name for one in others]
            invariants.one_of_a_group_reads(self.about, self.key.name, consumer.connection.name, who)
        elif others:
            self.count("two of a group read at a time")
        self.count("group consumer told to begin")
        consumer.reads = True

    def reading(self) -> list[WatchedConsumer]:
        return [one for one in self.served() if one.reads]

    def served(self) -> list[WatchedConsumer]:
        return [one for one in self.consumers if one.connection.is_served]

    def _is_known_to_all(self, consumer: WatchedConsumer) -> bool:
        """Whether the node that decides has decided for long, and has heard of everybody."""
        process = consumer.connection.process
        assert process is not None, f"{consumer.connection.name} is connected to no node"
        found = process.broker.streams.groups._groups.get(self.key)
        before, self._coordinator = self._coordinator, found.coordinator if found is not None else ""
        return before == self._coordinator and self.is_calm_for_s() > CALM_S
