"""Replicated queues, before they are shown on a node that may have no member of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from broker.operations.resources import Resources
from broker.records import QueueRecord


async def look_at(resources: Resources, records: Iterable[QueueRecord] | None) -> Sequence[str]:
    """None: at all that there are. Returns the names of nodes that should have said how some of these are, and have not."""
    return () if resources.look_elsewhere is None else await resources.look_elsewhere(records)
