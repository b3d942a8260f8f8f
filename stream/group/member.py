"""This node's member of a stream's group: the machine over the entries, and the way to the messages in its log.

Fulfils raft/machine.py, and ReplicatedMember of replicated/member.py. Entries come here from Raft's driver, in the middle of a
round that serves all groups, so nothing is delivered from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from raft.core.live_entries import LiveEntries
from raft.core.messages import Entry
from replicated.member import Marks
from storage.disk import Buffer
from stream.group.chunk_reading import StreamReading
from stream.group.machine import StreamMachine, Written
from stream.group.place_finder import PlaceFinder


class StreamFollower(Protocol):
    """Who is told what becomes of the stream: the queue."""

    def moved(self, written: Sequence[Written]) -> None:
        """Entries were applied, with these results."""


class StreamMember:
    """See the module."""

    def __init__(self, machine: StreamMachine, reading: StreamReading, follower: StreamFollower) -> None:
        self.machine = machine
        self.reading = reading
        self.places = PlaceFinder(machine, reading)
        self.marks = Marks()
        self.told_digests: dict[int, int] = {}  # by index, when a leader asked for them last
        self.cut_at = 0  # an entry by which retention had removed all that it has removed
        self._follower = follower

    @property
    def version(self) -> int:
        return self.machine.version

    @version.setter
    def version(self, version: int) -> None:
        raise AttributeError(f"only a command changes the version of the machine, to {version}")

    def apply(self, entries: Sequence[Entry]) -> Sequence[list[Written]]:
        written: list[Written] = []
        first_offset = self.machine.state.first_offset
        for entry in entries:
            self.marks.before(entry.index, self.machine)
            written.append(self.machine.apply(entry.index, entry.data))
            self.reading.applied(entry.index, entry.data)
        if self.machine.state.first_offset != first_offset:
            self.cut_at = entries[-1].index
        self._follower.moved(written)
        return [[one] for one in written]

    def snapshot(self) -> Sequence[Buffer]:
        return self.machine.snapshot()

    def restore(self, state: bytes, version: int) -> None:
        self.machine.restore(state, version)
        self.marks.clear()
        self.cut_at = 0
        self.told_digests = {}  # of a state that is no more
        self._follower.moved(())

    @property
    def held_bytes(self) -> int:
        """None that goes by itself: see stream/group/reclaiming.py."""
        return 0

    def live_entries(self) -> LiveEntries:
        return self.machine.live_entries()
