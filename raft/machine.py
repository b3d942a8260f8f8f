"""The protocol of a replicated machine: the same entries in the same order give the same state on every member.

A machine asks nothing of the world: what it needs of time or chance is in its commands. Its state between two calls
is a function of the entries applied. Versions: a group runs the machine at one version, which only a command raises, so
all members switch at the same index; code that does not know a version must refuse it, never guess.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from raft.core.live_entries import LiveEntries
from raft.core.messages import Entry
from storage.disk import Buffer


class Machine(Protocol):
    """One group's state on this node."""

    version: int
    """Of the rules by which the state came about; goes into snapshots."""

    def apply(self, entries: Sequence[Entry]) -> Sequence[Any]:
        """Apply commands in order; one result for each, passed to its proposer on this node. Entries of other kinds are
        not shown. A command that makes no sense has a result that says so. What it raises for an
        entry that it does not know, or by mistake, halts this member: see raft/driver.py."""

    def snapshot(self) -> Sequence[Buffer]:
        """The state at what was applied last, without what live entries hold. Must not change afterwards."""

    def restore(self, state: bytes, version: int) -> None:
        """Forget everything and stand where `snapshot` stood. Raises ValueError when these bytes are not that, or of a
        version that this code does not know."""

    @property
    def held_bytes(self) -> int:
        """About how many bytes of its live entries there are. 0: they do not go by what is applied."""

    def live_entries(self) -> LiveEntries | None:
        """Which entries the state still refers to; they outlive the snapshot. None: it refers to none and never will."""
