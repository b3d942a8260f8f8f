"""What a node says of a classic queue that becomes a quorum queue. Part of leveret.records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True, frozen=True)
class QueueConversion:
    """A classic queue that may be on its way to be a quorum queue. `arguments` are those of the quorum queue, and empty where
    nothing is converted."""

    vhost: str
    queue: str
    state: str  # classic, converting or quorum
    messages: int  # ready and unacknowledged
    copied: int  # of them, so far
    arguments: Mapping[str, Any]
    waits_for: str = ""  # what keeps it from going on; empty: nothing
