"""What a shovel says of itself."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class ShovelState(Enum):
    STARTING = "starting"
    RUNNING = "running"
    FLOW = "flow"  # the destination reads more slowly than is written to it
    BLOCKED = "blocked"  # the destination takes no publishes now
    STALLED = "stalled"  # work waited and nothing moved: it begins again
    TERMINATED = "terminated"  # until its next try, or for good


@dataclass(frozen=True, slots=True)
class ShovelStatus:
    state: ShovelState
    reason: str  # of the last end; empty: none yet
    since_ms: int  # in this state
    remaining: int | None  # messages until it ends by itself; None: it does not
    remaining_unacked: int | None
    pending: int  # delivered by the source, and not published yet
    unconfirmed: int
    forwarded: int  # ever, by this process
    returned: int  # came back from the destination without a queue for them
    restarts: int
    stalls: int
