"""The log of this node's member, as readers see it."""

from __future__ import annotations

from collections.abc import Callable

from stream.machine import StreamMachine


class ReplicaLog:
    """Fulfils ReadableLog. `read_entry` may raise Damaged."""

    def __init__(self, machine: StreamMachine, read_entry: Callable[[int], bytes]) -> None:
        self.read = read_entry
        self._machine = machine

    def at_or_behind(self, index: int) -> int | None:
        return self._machine.state.entry_at_or_behind(index)

    def last_chunk(self) -> int:
        return self._machine.state.last_chunk
