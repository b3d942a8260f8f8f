"""The shovels of this node, with what they need of it: who else could run them, its clock, its own AMQP listener."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from broker.operations.node_facts import ListenerFacts
from links.shovel.node_shovels import NodeShovels
from links.sockets import LinkLoopClock, LinkSockets
from node.addresses import host_and_port
from node.catalog.cluster_metadata import ClusterMetadata
from node.clock import NodeTime, Random
from node.listening import ANY_ADDRESS
from raft.core.messages import NodeId

LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}


class ShovelsCluster(Protocol):
    def reaches(self, number: NodeId) -> bool: ...


def own_shovels(
    node: str,
    metadata: ClusterMetadata,
    cluster: ShovelsCluster,
    listeners: Callable[[], Sequence[ListenerFacts]],
    clock: NodeTime,
    random: Random,
    cluster_name: str,
) -> NodeShovels:
    """They follow the catalog from now on, and run once they are started."""

    def candidates() -> list[str]:
        """None while this node cannot know: without a majority the others have given it up."""
        if metadata.status().missing:
            return []
        nodes = metadata.catalog.nodes.values()
        return [one.name for one in nodes if not one.draining and cluster.reaches(one.number)]

    shovels = NodeShovels(
        node,
        metadata.catalog,
        candidates,
        metadata.submit,
        LinkSockets(lambda: own_amqp_listener(listeners())),
        LinkLoopClock(clock.monotonic, clock.wall_ms),
        random.fraction,
        logging.getLogger("leveret.shovel"),
        cluster_name,
    )
    metadata.subscribe(shovels.applied)
    return shovels


def own_amqp_listener(listeners: Sequence[ListenerFacts]) -> tuple[str, int, bool] | None:
    """Host, port, and whether within TLS; None: this node listens for no AMQP."""
    found = [one for one in listeners if one.protocol in ("amqp", "amqps")]
    if not found:
        return None
    chosen = min(found, key=lambda one: one.tls)
    host, port = host_and_port(chosen.address)
    return (LOOPBACK[host] if host in ANY_ADDRESS else host), port, chosen.tls
