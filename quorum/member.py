"""This node's member of one queue's group: the machine over the entries, and what it asks for passed on.

Fulfils raft/machine.py. Entries come here from Raft's driver, in the middle of a round that serves all groups: so nothing is
delivered from here. Effects that concern this node are handed to the queue, which performs them at the end of the turn; those
of consumers on other nodes are dropped at once, unless this member leads and serves them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from quorum.bodies import Bodies
from quorum.fifo.commands import ConsumerKey
from quorum.fifo.consumers import ConsumerState
from quorum.fifo.effects import Deliver, Effect
from quorum.fifo.machine import QueueMachine
from quorum.fifo.results import Result
from raft.core.live_entries import LiveEntries
from raft.core.messages import Entry
from replicated.member import Marks
from storage.disk import Buffer


class Performer(Protocol):
    """Who performs effects: the queue."""

    def wants(self, node: int, incarnation: int) -> bool:
        """Whether deliveries for consumers of this session are performed here."""

    def applied(self, index: int, effects: Sequence[Effect]) -> None:
        """What the entry at this index has asked for."""

    def moved(self) -> None:
        """Entries were applied."""

    def restored(self) -> None:
        """The machine stands on a snapshot: what the entries before it asked for was never seen here."""


class QueueMember:
    """See the module."""

    def __init__(self, machine: QueueMachine, bodies: Bodies, performer: Performer) -> None:
        self.machine = machine
        self.bodies = bodies
        self.marks = Marks()
        self.told_digests: dict[int, int] = {}  # by index, when a leader asked for them last
        self.due_elsewhere: Callable[[set[int]], None] | None = None
        """While this member leads: told of nodes whose members have something to deliver now."""
        self._performer = performer

    @property
    def active(self) -> ConsumerKey | None:
        """The single active consumer."""
        active = self.machine.state.consumers.active
        return active.key if active is not None else None

    def holds(self, consumer: ConsumerKey, message_id: int) -> bool:
        """Whether this message is still out to the consumer. What is not may be gone from the log, too."""
        return self.first_held(consumer, message_id) == message_id

    def first_held(self, consumer: ConsumerKey, from_id: int) -> int:
        """Id of the first message of this id and above that is out to the consumer; 0: there is none."""
        found = self.machine.state.consumers.all.get(consumer)
        held = next(found.checked_out.from_id(from_id), None) if found is not None else None
        return held.first_id if held is not None else 0

    def has_timed_out(self, consumer: ConsumerKey) -> bool:
        """It has not settled in time, and is given nothing more: its client is to be told."""
        found = self.machine.state.consumers.all.get(consumer)
        return found is not None and found.state is ConsumerState.TIMED_OUT

    # raft/machine.py

    @property
    def version(self) -> int:
        return self.machine.version

    @version.setter
    def version(self, version: int) -> None:
        raise AttributeError(f"only a command changes the version of the machine, to {version}")

    def apply(self, entries: Sequence[Entry]) -> Sequence[list[Result]]:
        machine, performer, marks = self.machine, self._performer, self.marks
        results: list[list[Result]] = []
        elsewhere: set[int] = set()
        for entry in entries:
            marks.before(entry.index, machine)
            results += machine.apply((entry,))
            effects = machine.take_effects()
            if effects:
                self.bodies.applied(entry.index, entry.data)
                wanted = [one for one in effects if type(one) is not Deliver or performer.wants(*one.consumer[:2])]
                if wanted:
                    performer.applied(entry.index, wanted)
                if self.due_elsewhere is not None and len(wanted) < len(effects):
                    elsewhere.update([one.consumer.node for one in effects if type(one) is Deliver])
        if elsewhere and self.due_elsewhere is not None:
            self.due_elsewhere(elsewhere)
        performer.moved()
        return results

    def snapshot(self) -> Sequence[Buffer]:
        return self.machine.snapshot()

    def restore(self, state: bytes, version: int) -> None:
        self.machine.restore(state, version)
        self.marks.clear()
        self.told_digests = {}  # of a state that is no more
        self._performer.restored()

    @property
    def held_bytes(self) -> int:
        return self.machine.held_bytes

    def live_entries(self) -> LiveEntries:
        return self.machine.live_entries()
