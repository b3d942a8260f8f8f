"""What the machine of a group must be after each committed command: a book keeps one reference for its group.

The engine is run with registers, small enough that a second machine of the same kind is the reference. Other machines bring
references of their own (tests/sim/brokers/).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Protocol

from raft.core.messages import Entry
from storage.disk import Buffer
from tests.raft_node.register import ReadEntry, Register


class Reference(Protocol):
    """Told of every committed command of a group, in their order."""

    def apply(self, entry: Entry) -> str | None:
        """The digest of the state behind it. None: whoever applies it first says what it is."""

    def digest(self) -> str | None:
        """Before the first command."""

    def of_snapshot(self, version: int, state: Sequence[Buffer]) -> str:
        """The digest of a state that a member has taken a snapshot of."""

    def stands_on(self, index: int, state: Sequence[Buffer]) -> int:
        """The last entry that a snapshot at this index knows of: machines that are stored elsewhere may be ahead of the log."""

    def replayed(self, snapshot: tuple[bytes, int] | None, entries: Sequence[Entry], read_entry: ReadEntry) -> str:
        """The digest of what a member becomes that begins with this snapshot and these commands."""


class RegisterReference:
    """Of the machine to test the engine with."""

    def __init__(self) -> None:
        self._data: dict[int, bytes] = {}
        self._machine = Register(self._data.__getitem__)

    def apply(self, entry: Entry) -> str | None:
        self._data[entry.index] = entry.data
        self._machine.apply([entry])
        return self._machine.digest()

    def digest(self) -> str | None:
        return self._machine.digest()

    def stands_on(self, index: int, state: Sequence[Buffer]) -> int:
        return index

    def of_snapshot(self, version: int, state: Sequence[Buffer]) -> str:
        return hashlib.blake2b(b"".join([bytes([version]), *state]), digest_size=8).hexdigest()

    def replayed(self, snapshot: tuple[bytes, int] | None, entries: Sequence[Entry], read_entry: ReadEntry) -> str:
        machine = Register(read_entry)
        if snapshot is not None:
            machine.restore(*snapshot)
        machine.apply(entries)
        return machine.digest()
