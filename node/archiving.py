"""The archive of a node: what the loop has to do for it. Work on files (storage/archive/) is done beside the loop."""

from __future__ import annotations

import logging
from typing import Any

from broker.login.log_throttle import LogThrottle
from broker.pending import Pending
from node.foundation import Ports
from storage.archive.archive import Archive, ArchiveFigures
from storage.archive.archive_window import ArchiveLimits
from storage.archive.roomy_disk import RoomyDisk
from storage.disk import Disk
from storage.interval import Interval

TIDY_MS = 10_000  # between two looks at limits that are hours and gigabytes
FAILURES_LOGGED_S = 60.0

logger = logging.getLogger("leveret")


class NodeArchive:
    """See the module. All of it belongs to the event loop's thread."""

    disk: Disk  # what all others of the node write to: the archive gives way before that is full
    files: Archive

    def __init__(self, ports: Ports, limits: ArchiveLimits) -> None:
        self.files = Archive(ports.disk, limits, ports.clock.wall_ms)
        self.disk = RoomyDisk(ports.disk, self.files.give_room)
        self._monotonic = ports.clock.monotonic
        self._thread = ports.jobs("leveret-archive")
        self._rounds = Interval(TIDY_MS)
        self._tidying = False
        self._failures = LogThrottle(FAILURES_LOGGED_S)

    @property
    def figures(self) -> ArchiveFigures:
        return self.files.figures

    def tick(self, now_ms: int) -> None:
        """The limits are looked at now and then."""
        if not self._tidying and self._rounds.due(now_ms):
            self._tidying = True
            self._thread.run(self.files.tidy, self._tidied)

    def _tidied(self, _: None, error: Exception | None) -> None:
        self._tidying = False
        self._log_failure(error)

    def make_room(self, wanted_bytes: int) -> Pending[None]:
        """Answered when so much is free, or nothing is left to give."""
        pending: Pending[None] = Pending()

        def done(_: Any, error: Exception | None) -> None:
            self._log_failure(error)
            pending.resolve(None)

        self._thread.run(lambda: self._give_room(wanted_bytes), done)
        return pending

    def _give_room(self, wanted_bytes: int) -> None:
        self.files.give_room(wanted_bytes)

    def _log_failure(self, error: Exception | None) -> None:
        """An archive that cannot be tidied ends nothing: a disk that has failed is found by those who need it."""
        if error is not None:
            suppressed = self._failures.may_log(type(error).__name__, self._monotonic())
            if suppressed is not None:
                logger.error("the archive cannot be tidied: %s (%d more like this were not logged)", error, suppressed)

    def close(self) -> None:
        self._thread.close()
