"""What a queue's state comes to in numbers."""

from __future__ import annotations

from dataclasses import dataclass, field

from quorum.commands import ConsumerKey


@dataclass(slots=True)
class Counters:
    """What has happened since this member started or was restored. Of this process, not of the replicated state."""

    published: int = 0
    rejected: int = 0  # publishes that found the queue full
    delivered: int = 0
    redelivered: int = 0
    got: int = 0
    acknowledged: int = 0
    dead: int = 0  # for any reason, dead-lettered or dropped


@dataclass(slots=True)
class ConsumerFigures:
    """One consumer as the management API shows it."""

    key: ConsumerKey
    tag: str
    priority: int
    prefetch: int
    no_ack: bool
    exclusive: bool
    status: str  # up, quiescing, timed_out or suspected
    active: bool  # may be given messages
    unacknowledged: int


@dataclass(slots=True)
class Figures:
    """Of the state as it is now."""

    ready: int
    ready_bytes: int
    unacknowledged: int
    unacknowledged_bytes: int
    delayed: int
    dead: int  # held until they have arrived
    dead_bytes: int
    consumers: int
    active: ConsumerKey | None  # the single active one
    counters: Counters = field(default_factory=Counters)
