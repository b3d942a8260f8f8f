"""Everything that the machine's rules look at, as plain data: the same on all members, and what a snapshot holds."""

from __future__ import annotations

from quorum.fifo.consumers import MachineConsumers
from quorum.fifo.delayed import Delayed
from quorum.fifo.held_dead import HeldDead
from quorum.fifo.producers import Producers
from quorum.fifo.ready import ReadyMessages
from quorum.fifo.returning import Returning
from quorum.fifo.rules import Rules
from quorum.fifo.sessions import Sessions
from quorum.fifo.stored import NEVER
from quorum.fifo.versions import VERSION_OLDEST


class QueueState:
    """A message is in exactly one of `ready`, `returning`, `delayed`, `dead` and what `consumers` have checked out."""

    __slots__ = (
        "applied", "consumers", "dead", "deadline", "delayed", "digest", "now", "producers", "ready", "returning", "rules",
        "sessions", "used_at", "version",
    )  # fmt: skip

    def __init__(self) -> None:
        self.version = VERSION_OLDEST
        self.applied = 0  # index of the last entry
        self.now = 0  # ms; of the entries so far, it never goes back
        self.digest = 0  # rolls over all that was handed out, settled and counted
        self.used_at = 0  # ms; when somebody consumed or got last
        self.rules = Rules()
        self.sessions = Sessions()
        self.producers = Producers()
        self.ready = ReadyMessages()
        self.returning = Returning()
        self.delayed = Delayed()
        self.dead = HeldDead()
        self.consumers = MachineConsumers()
        self.deadline = NEVER  # ms; nothing is due before. Follows from the rest, and may be too early
