"""Nodes by the names that people give them, and the other way round."""

from __future__ import annotations

from broker.catalog.catalog import Catalog
from broker.errors import NotFound
from broker.records import NodeRecord
from raft.core.messages import NodeId


def node_named(catalog: Catalog, name: str) -> NodeRecord:
    """Raises NotFound."""
    record = catalog.nodes.get(name)
    if record is None:
        known = ", ".join(sorted(catalog.nodes))
        raise NotFound(f"no node '{name}' belongs to this cluster: there are {known}")
    return record


def name_of_node(catalog: Catalog, number: NodeId) -> str:
    record = catalog.node_of_number(number)
    return record.name if record is not None else f"number {number}, removed"
