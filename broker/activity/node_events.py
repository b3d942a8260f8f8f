"""Events of a node: clients that come and go, alarms, and what commands of the catalog have changed.

Kinds are named as those of RabbitMQ's event exchange. An event of the catalog comes on every node that applies it; one of a
client or an alarm on its own node only (`local`). Declaring again what exists is no event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from broker.activity.ring import NumberedRing
from broker.catalog.commands import catalog_commands as commands
from broker.errors import bounded

EVENTS_MAX = 2_000
VHOST_OF_ITSELF = (commands.PutVhost, commands.DeleteVhost)

KINDS: dict[type[Any], str] = {
    commands.DeclareQueue: "queue.created",
    commands.DeleteQueue: "queue.deleted",
    commands.DeleteExchange: "exchange.deleted",
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


@dataclass(slots=True, frozen=True)
class NodeEvent:
    kind: str
    at: int
    name: str = ""  # of what it is about
    vhost: str = ""  # empty: it is about none
    user: str = ""  # whose client it was
    detail: str = ""
    local: bool = False


class NodeEvents:
    """See the module."""

    def __init__(self, now: Callable[[], int]) -> None:
        self.ring: NumberedRing[NodeEvent] = NumberedRing(EVENTS_MAX)
        self._now = now

    def applied(self, command: commands.Command) -> None:
        """It has changed something."""
        kind = KINDS.get(type(command))
        if kind is not None:
            record = getattr(command, "record", command)
            vhost = getattr(record, "vhost", "")
            self.ring.add(
                NodeEvent(kind, self._now(), _name(record), "" if isinstance(command, VHOST_OF_ITSELF) else vhost)
            )

    def connection(self, kind: str, name: str, vhost: str, user: str, protocol: str) -> None:
        self.ring.add(NodeEvent(f"connection.{kind}", self._now(), bounded(name), vhost, user, protocol, local=True))

    def alarm(self, kind: str, reason: str | None) -> None:
        """`reason`: None when it is over."""
        verb = "cleared" if reason is None else "set"
        self.ring.add(NodeEvent(f"alarm.{verb}", self._now(), kind, detail=reason or "", local=True))

    def after(self, number: int) -> Iterator[tuple[int, NodeEvent]]:
        """See NumberedRing."""
        return self.ring.after(number)


def _name(record: Any) -> str:
    """Of a permission it is whose it is."""
    return bounded(
        str(next((getattr(record, field) for field in ("name", "user", "vhost") if hasattr(record, field)), ""))
    )
