"""How much one node's clients may open. What may be declared is limited by broker/catalog.py, sizes by the fronts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class Limits:
    """Limits of this node; 0 is no limit. Those of a vhost or user are records in the catalog."""

    connections: int = 16_000
    channels_per_node: int = 0
    consumers_per_channel: int = 10_000
