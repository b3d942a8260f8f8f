"""What nodes that are not linked say to each other: whether one still belongs to the cluster, and whether it is taken in.

The messages are drawn in proto/node/peers/peer.proto; node/peers/stranger.py and node/peers/server.py carry them.
"""

from __future__ import annotations

from broker.catalog.commands.metadata_entry import ENTRY_NEWEST
from broker.records import NodeRecord
from node.identity import KnownNode, NodeIdentity
from node.peers import peer_pb2
from node.version import VERSION

ANSWER_S = 1.0  # for the answer to a greeting


def greeting_of(identity: NodeIdentity, address: str) -> peer_pb2.Greeting:
    """From a node that has its place: am I still one of you, and where are the others?"""
    return peer_pb2.Greeting(
        instance=identity.instance,
        name=identity.name,
        address=address,
        cluster_id=identity.cluster_id,
        number=identity.number,
        incarnation=identity.incarnation,
        disk_id=identity.disk_id,
        earlier_incarnation=identity.earlier_incarnation,
    )


def join_request(identity: NodeIdentity, cluster_id: str, joiner: str, address: str, zone: str) -> peer_pb2.JoinRequest:
    """From a blank node; `joiner` is what this process calls itself."""
    return peer_pb2.JoinRequest(
        cluster_id=cluster_id,
        name=identity.name,
        address=address,
        kind=identity.kind,
        zone=zone,
        version=VERSION,
        incarnation=identity.incarnation,
        joiner=joiner,
        catalog_entries=ENTRY_NEWEST,
    )


def take_up(identity: NodeIdentity, response: peer_pb2.JoinResponse) -> None:
    """A blank node was taken in. Blocks; raises what the disk raises."""
    identity.join(response.cluster_id, response.number, response.disk_id, map(known_node, response.nodes))


def told_node(record: NodeRecord) -> peer_pb2.KnownNode:
    return peer_pb2.KnownNode(number=record.number, name=record.name, address=record.address, kind=record.kind)


def known_node(node: peer_pb2.KnownNode) -> KnownNode:
    return KnownNode(node.number, node.name, node.address, node.kind)


def removed_text(name: str, why: str) -> str:
    return f"node '{name}' belongs to its cluster no more: {why}. To join again, start it with an empty data directory"
