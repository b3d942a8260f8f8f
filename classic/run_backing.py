"""What a variable queue asks of the disk, and what that may answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from classic.stored_run import StoredRun
from native.sequence_set import Range


class Backing(Protocol):
    """What a variable queue asks of the disk."""

    def load(self, run: StoredRun) -> None:
        """Read the run's content into memory (`run.loaded`). Raises ContentLost and ContentOutOfReach."""

    def spill(self, run: StoredRun) -> bool:
        """Give a content that is nowhere but in memory a place on disk (`run.where`). False when there is no room."""

    def page_out(self, runs: Sequence[StoredRun]) -> bool:
        """Make sure that the index knows these runs; their objects will be forgotten. False when there is no room."""

    def page_in(self, start: int, end: int, count_max: int) -> tuple[list[StoredRun], int]:
        """Up to `count_max` runs that the index knows and that begin from `start` on and before `end`, in order; and the
        sequence up to which there are no others. Raises ContentOutOfReach."""

    def lost(self, ranges: Sequence[Range]) -> None:
        """These ready messages are not in the index, which should know them: it is damaged."""


class ContentLost(Exception):
    """The content of a run is not where it was written: its file is damaged. The damage has been reported."""


class ContentOutOfReach(Exception):
    """It is there, and cannot be read for now: no file descriptor is left. Retry later."""
