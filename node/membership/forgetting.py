"""Classic queues that go with a node that is down when it is forgotten: what the catalog knows of them."""

from __future__ import annotations

from heapq import nsmallest

from broker.catalog.catalog import Catalog
from front.node_ports import ForgottenQueue


def forgotten_with(catalog: Catalog, node: str, limit: int) -> tuple[int, list[ForgottenQueue]]:
    """How many they are, and the first of them. Not those that went with their connection."""
    lost = [
        (record.vhost, record.name)
        for vhost in catalog.vhosts
        for record in catalog.queues(vhost)
        if record.kind == "classic" and record.home == node and record.owner is None
    ]
    return len(lost), [ForgottenQueue(*one) for one in nsmallest(limit, lost)]
