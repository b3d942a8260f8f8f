"""The links of this node, with what they need of it: who else could run them, its clock, its own AMQP listener."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from broker.broker import Broker
from broker.operations.node_facts import ListenerFacts
from broker.operations.shovel_facts import COMPONENT as SHOVEL
from links.federation.link_maker import AmqpLinkMaker
from links.federation.node_federation import CLAIMED_AS as FEDERATION
from links.federation.node_federation import NodeFederation
from links.federation.upstream import UPSTREAM, UPSTREAM_SET, check_upstream, check_upstream_set
from links.link_claims import LinkClaims
from links.shovel.definition import read_definition
from links.shovel.doors import PortMaker
from links.shovel.node_shovels import NodeShovels
from links.sockets import LinkLoopClock, LinkSockets
from node.addresses import host_and_port
from node.catalog.cluster_metadata import ClusterMetadata
from node.clock import NodeTime, Random
from node.config import Config, static_shovels
from node.doors.listening import ANY_ADDRESS
from raft.core.messages import NodeId

LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}
# Of runtime parameters, by component.
CHECKS: Mapping[str, Callable[[str, Any], object]] = {
    SHOVEL: read_definition,
    UPSTREAM: check_upstream,
    UPSTREAM_SET: check_upstream_set,
}


class LinksCluster(Protocol):
    def reaches(self, number: NodeId) -> bool: ...


@dataclass(frozen=True, slots=True)
class OwnLinks:
    """They follow the catalog, and run between `start` and `stop`."""

    shovels: NodeShovels
    federation: NodeFederation
    ports: PortMaker

    def hold_publishers(self, held: bool) -> None:
        """Of shovels that publish here; they are no clients of a listener."""
        self.ports.hold_publishers(held)

    def start(self) -> None:
        self.shovels.start()
        self.federation.start()

    def stop(self) -> None:
        self.federation.stop()
        self.shovels.stop()


def own_links(
    config: Config,
    broker: Broker,
    metadata: ClusterMetadata,
    cluster: LinksCluster,
    listeners: Callable[[], Sequence[ListenerFacts]],
    clock: NodeTime,
    random: Random,
) -> OwnLinks:
    def candidates() -> list[str]:
        """None while this node cannot know: without a majority the others have given it up."""
        if metadata.status().missing:
            return []
        nodes = metadata.catalog.nodes.values()
        return [one.name for one in nodes if not one.draining and cluster.reaches(one.number)]

    def claims_on(kind: str) -> LinkClaims:
        return LinkClaims(kind, broker.node, metadata.catalog, candidates, broker.metadata.submit, time)

    net, time = LinkSockets(lambda: own_amqp_listener(listeners())), LinkLoopClock(clock.monotonic, clock.wall_ms)
    ports = PortMaker(broker, net, time)
    shovels = NodeShovels(
        broker.node,
        metadata.catalog,
        claims_on(SHOVEL),
        metadata.submit,
        ports,
        time,
        random.fraction,
        logging.getLogger("leveret.shovel"),
        config.cluster_name,
        static_shovels(config),
    )
    maker = AmqpLinkMaker(broker, net, time, random.fraction, config.cluster_name)
    federation = NodeFederation(
        broker, claims_on(FEDERATION), candidates, maker, time, logging.getLogger("leveret.federation")
    )
    metadata.subscribe(shovels.applied)
    metadata.subscribe(federation.applied)
    return OwnLinks(shovels, federation, ports)


def own_amqp_listener(listeners: Sequence[ListenerFacts]) -> tuple[str, int, bool] | None:
    """Host, port, and whether within TLS; None: this node listens for no AMQP."""
    found = [one for one in listeners if one.protocol in ("amqp", "amqps")]
    if not found:
        return None
    chosen = min(found, key=lambda one: one.tls)
    host, port = host_and_port(chosen.address)
    return (LOOPBACK[host] if host in ANY_ADDRESS else host), port, chosen.tls
