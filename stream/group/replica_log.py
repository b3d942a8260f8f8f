"""The log of this node's member, as readers see it."""

from __future__ import annotations

from replicated.stored_entries import StoredEntries
from stream.group.machine import StreamMachine


class ReplicaLog:
    """Fulfils ReadableLog."""

    def __init__(self, machine: StreamMachine, entries: StoredEntries) -> None:
        self.read = entries.read
        self.in_file = entries.in_file
        self._machine = machine

    def at_or_behind(self, index: int) -> int | None:
        return self._machine.state.entry_at_or_behind(index)

    def last_chunk(self) -> int:
        return self._machine.state.last_chunk
