"""Events of a node: clients that come and go, alarms, and what commands of the catalog have changed.

Kinds are named as those of RabbitMQ's event exchange. An event of the catalog comes on every node that applies it; one of a
client, an alarm, or a queue that the node leads now on its own node only (`local`). Declaring again what exists is no event,
nor is what goes with something else, such as the bindings of a queue.

Programs declare bindings and exchanges by the thousand, and a node that ends has others lead all that it led: of the kinds in
BURSTS the first BURST_MAX of BURST_MS are told one by one, and how many more there were as one event behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from broker.activity.ring import NumberedRing
from broker.catalog.commands import catalog_commands as commands
from broker.errors import bounded
from broker.records import BindingRecord, QueueRecord

EVENTS_MAX = 2_000
BURST_MAX = 100
BURST_MS = 1_000
LEADER = "queue.leader.elected"

KINDS: dict[type[Any], str] = {
    commands.DeclareQueue: "queue.created",
    commands.DeleteQueue: "queue.deleted",
    commands.DeclareExchange: "exchange.created",
    commands.DeleteExchange: "exchange.deleted",
    commands.Bind: "binding.created",
    commands.Unbind: "binding.deleted",
    commands.PutPolicy: "policy.set",
    commands.DeletePolicy: "policy.cleared",
    commands.PutVhost: "vhost.set",
    commands.DeleteVhost: "vhost.deleted",
    commands.PutUser: "user.set",
    commands.DeleteUser: "user.deleted",
    commands.PutPermission: "permission.set",
    commands.DeletePermission: "permission.cleared",
    commands.PutTopicPermission: "topic.permission.set",
    commands.DeleteTopicPermission: "topic.permission.cleared",
    commands.SetParameter: "parameter.set",
    commands.ClearParameter: "parameter.cleared",
    commands.SetVhostLimits: "vhost.limits.set",
    commands.SetUserLimits: "user.limits.set",
    commands.AddNode: "node.added",
    commands.JoinNode: "node.added",
    commands.PutNode: "node.changed",
    commands.RemoveNode: "node.removed",
    commands.NodeStarted: "node.started",
    commands.NodeLost: "node.lost",
    commands.SetQueueMembers: "queue.members.changed",
    commands.ConvertQueue: "queue.converted",
}


BURSTS = {LEADER, *(name for name in KINDS.values() if name.startswith(("exchange.", "binding.")))}


@dataclass(slots=True, frozen=True)
class NodeEvent:
    kind: str
    at: int
    name: str = ""  # of what it is about
    vhost: str = ""  # empty: it is about none
    user: str = ""  # whose client it was
    detail: str = ""
    local: bool = False


@dataclass(slots=True)
class _Burst:
    """Of one kind."""

    until: int
    count: int = 0
    local: bool = False

    @property
    def untold(self) -> int:
        return max(0, self.count - BURST_MAX)


class NodeEvents:
    """See the module."""

    def __init__(self, now: Callable[[], int]) -> None:
        self.ring: NumberedRing[NodeEvent] = NumberedRing(EVENTS_MAX, now)
        self._now = now
        self._bursts: dict[str, _Burst] = {}

    def applied(self, command: commands.Command) -> None:
        """It has changed something."""
        kind = KINDS.get(type(command))
        if kind is not None:
            record = getattr(command, "record", command)
            vhost = getattr(record, "vhost", "")
            self._add(NodeEvent(kind, self._now(), _name(record), vhost, detail=_detail(record)))

    def leader(self, record: QueueRecord) -> None:
        """This node leads the queue from now on."""
        self._add(NodeEvent(LEADER, self._now(), bounded(record.name), record.vhost, local=True))

    def connection(self, kind: str, name: str, vhost: str, user: str, protocol: str) -> None:
        self.ring.add(NodeEvent(f"connection.{kind}", self._now(), bounded(name), vhost, user, protocol, local=True))

    def alarm(self, kind: str, reason: str | None) -> None:
        """`reason`: None when it is over."""
        verb = "cleared" if reason is None else "set"
        self.ring.add(NodeEvent(f"alarm.{verb}", self._now(), kind, detail=reason or "", local=True))

    def after(self, number: int) -> Iterator[tuple[int, NodeEvent]]:
        """See NumberedRing."""
        self._end_bursts()
        return self.ring.after(number)

    def _add(self, event: NodeEvent) -> None:
        self._end_bursts()
        if event.kind in BURSTS:
            burst = self._bursts.setdefault(event.kind, _Burst(event.at + BURST_MS, local=event.local))
            burst.count += 1
            if burst.untold:
                return
        self.ring.add(event)

    def _end_bursts(self) -> None:
        """Also those that end only after longer, for the clock was set back."""
        now = self._now()
        for kind, burst in list(self._bursts.items()):
            if not now < burst.until <= now + BURST_MS:
                del self._bursts[kind]
                if burst.untold:
                    self.ring.add(NodeEvent(kind, now, detail=f"and {burst.untold} more", local=burst.local))


def _name(record: Any) -> str:
    """Of a permission it is whose it is, of a binding where it leads to."""
    fields = ("name", "destination", "user", "vhost")
    return bounded(str(next((getattr(record, field) for field in fields if hasattr(record, field)), "")))


def _detail(record: Any) -> str:
    if not isinstance(record, BindingRecord):
        return ""
    return bounded(f"{record.destination_kind} bound to exchange '{record.source}' with key '{record.routing_key}'")
