"""The node that is asked: how it is, its alarms and its log level."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from broker.catalog.commands import catalog_commands as commands
from broker.counting.counters import Counters
from broker.errors import InvalidRequest
from broker.node_queues import Totals
from broker.operations.node_facts import AlarmFacts, CertificateFacts, NodeFacts, NodePort
from broker.operations.operator import ADMINISTRATOR, MANAGEMENT, MONITORING, Operator, check_named
from broker.operations.parameters import GLOBAL
from broker.pending import Pending
from broker.queues.queue_type import QueueStatistics
from broker.records import ParameterRecord

if TYPE_CHECKING:
    from broker.broker import Broker

CLUSTER_NAME = "cluster_name"  # a global parameter
LOG_LEVELS = ("debug", "info", "warning", "error")


@dataclass(slots=True, frozen=True)
class NodeStatus:
    """A node, without its queues: going through them takes more than one turn."""

    name: str
    facts: NodeFacts
    alarms: Sequence[AlarmFacts]
    connections: int
    channels: int
    consumers: int


@dataclass(slots=True, frozen=True)
class LoginCounts:
    succeeded: int
    failed: int


@dataclass(slots=True)
class QueueTotals:
    """What the figures of queues come to."""

    queues: int = 0
    ready: int = 0
    unacknowledged: int = 0

    def add(self, figures: QueueStatistics) -> None:
        self.queues += 1
        self.ready += figures.ready
        self.unacknowledged += figures.unacknowledged


class ThisNode:
    def __init__(self, broker: Broker, node: NodePort) -> None:
        self._broker = broker
        self._node = node

    @property
    def name(self) -> str:
        return self._node.node_name

    def node_names(self) -> list[str]:
        """Of all nodes of the cluster."""
        return sorted(self._broker.catalog.nodes)

    def cluster_name(self) -> str:
        """As an operator has named it, or else the configuration."""
        record = self._broker.catalog.parameter(GLOBAL, GLOBAL, CLUSTER_NAME)
        return str(record.value) if record is not None else self._node.identity["cluster_name"]

    def name_cluster(self, who: Operator, name: str) -> Pending[Any]:
        who.require_tag(ADMINISTRATOR)
        check_named("cluster", name)
        return self._broker.metadata.submit(commands.SetParameter(ParameterRecord(GLOBAL, GLOBAL, CLUSTER_NAME, name)))

    def churn(self, who: Operator) -> Totals:
        """What came and went on this node since it was started."""
        who.require_tag(MANAGEMENT)
        return self._broker.totals

    def counters(self, who: Operator) -> Counters:
        """Messages on this node since it was started."""
        who.require_tag(MANAGEMENT)
        found = Counters()
        for one in self._broker.counters().values():
            found.add(one)
        return found

    def logins(self, who: Operator) -> dict[str, LoginCounts]:
        """Of this node since it was started or `forget_logins`, by protocol."""
        who.require_tag(MONITORING)
        audit = self._broker.audit
        logins = {key: count - audit.logins_forgotten[key] for key, count in audit.logins.items()}
        return {
            protocol: LoginCounts(logins.get((protocol, True), 0), logins.get((protocol, False), 0))
            for protocol in sorted({protocol for protocol, _ in logins})
        }

    def forget_logins(self, who: Operator) -> None:
        """`logins` begins anew; what /metrics counts goes on."""
        who.require_tag(ADMINISTRATOR)
        audit = self._broker.audit
        audit.logins_forgotten = audit.logins.copy()

    def certificate(self, who: Operator) -> CertificateFacts | None:
        """Raises PreconditionFailed when its file cannot be read."""
        who.require_tag(MANAGEMENT)
        return self._node.certificate()

    def status(self, who: Operator) -> NodeStatus:
        who.require_tag(MANAGEMENT)
        broker = self._broker
        return NodeStatus(
            self._node.node_name,
            self._node.facts(),
            self._node.alarms(),
            connections=sum(1 for _ in broker.connections()),
            channels=sum(1 for _ in broker.sessions()),
            consumers=sum(1 for _ in broker.consumers()),
        )

    def effective_config(self, who: Operator) -> str:
        """One key a line, and no secrets."""
        who.require_tag(ADMINISTRATOR)
        return self._node.effective_config()

    def facts(self) -> NodeFacts:
        """For what the node notes of itself: nobody asks."""
        return self._node.facts()

    def figures_of_queues(self, who: Operator) -> Iterator[QueueStatistics]:
        """Of all queues of all vhosts, for QueueTotals."""
        who.require_tag(MANAGEMENT)
        return (queue.counts() for queue in self._broker.queues())

    def identity(self, who: Operator) -> dict[str, str]:
        who.require_tag(MANAGEMENT)
        return self._node.identity

    def alarms(self, who: Operator) -> Sequence[AlarmFacts]:
        who.require_tag(MANAGEMENT)
        return self._node.alarms()

    def set_log_level(self, who: Operator, level: str) -> None:
        who.require_tag(ADMINISTRATOR)
        if level not in LOG_LEVELS:
            raise InvalidRequest(f"log level '{level}' is none of {', '.join(LOG_LEVELS)}")
        self._node.set_log_level(level)
        what = f"set the log level of node '{self._node.node_name}' to {level}"
        self._broker.audit.changed("SetLogLevel", what)
