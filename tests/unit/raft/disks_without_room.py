"""Disks that are full for a moment, and what cannot be deleted then."""

from __future__ import annotations

from storage.errors import DiskFull
from tests.sim.disk import Call, Fault, SimDisk


class NoRoomAtOnce:
    """The disk is full in one call, and what is deleted right behind it cannot be."""

    def __init__(self, operation: str, suffix: str, turn: int) -> None:
        self.undeleted: list[str] = []
        self._wanted = (operation, suffix)
        self._calls_until = turn  # such calls
        self._failed = 0  # number of the last call

    def __call__(self, call: Call) -> Fault | None:
        operation, suffix = self._wanted
        if call.operation == operation and call.name.endswith(suffix):
            self._calls_until -= 1
            if self._calls_until == 0:
                self._failed = call.number
                return Fault.ENOSPC
        is_of_segment = call.name.endswith((".seg.tmp", ".seg", ".kept"))
        if call.operation == "delete" and is_of_segment and call.number == self._failed + 1:
            self._failed = call.number
            self.undeleted.append(call.name)
            return Fault.EIO
        return None


class NeedsRoomToDelete(SimDisk):
    """As some file systems do. Once, for a segment."""

    undeleted = ""

    def delete(self, name: str) -> None:
        if not self.undeleted and name.endswith(".seg"):
            self.undeleted = name
            raise DiskFull(f"cannot delete {name}: simulated ENOSPC")
        super().delete(name)
