"""What replicated queues have to say to people: lines of the log, and what `leveretctl cluster status` tells of this node."""

from __future__ import annotations

import logging
from collections.abc import Callable
from logging import Logger

from broker.login.log_throttle import LogThrottle
from replicated.member import Odd
from replicated.queue import ReplicatedQueue

REFUSALS_TOLD_S = 10.0  # what was not proposed is said again several times a second: one line in so long for each queue
UNDELIVERED_TOLD_S = 10.0  # each reader of a stream meets what cannot be delivered


class QuorumReports:
    """Who is handed to QuorumQueues for what should never happen."""

    def __init__(self, logger: Logger, monotonic: Callable[[], float]) -> None:
        self._logger = logger
        self._monotonic = monotonic
        self._refusals = LogThrottle(REFUSALS_TOLD_S)
        self._undelivered = LogThrottle(UNDELIVERED_TOLD_S)

    def diverged(self, queue: ReplicatedQueue, odd: Odd) -> None:
        name = queue.record.label
        if odd.nodes:
            self._logger.error(
                "members of %s have come to different states after entry %d: those on nodes %s are made anew from the others, "
                "one at a time while all members can be reached",
                name, odd.at, ", ".join(map(str, odd.nodes)),
            )  # fmt: skip
        else:
            self._logger.error(
                "members of %s have come to different states after entry %d, and no majority agrees: "
                "which one is right is for an operator to find out", name, odd.at,
            )  # fmt: skip

    def quarantined(self, queue: ReplicatedQueue, why: str) -> None:
        self._logger.error(
            "%s is quarantined on this node: %s. Its member here votes and keeps what it is sent, but serves nobody: update "
            "this node and start it again. Other queues go on", queue.record.label, why,
        )  # fmt: skip

    def refused(self, queue: ReplicatedQueue, why: str) -> None:
        self._log(logging.ERROR, self._refusals, queue, why)

    def not_delivered(self, queue: ReplicatedQueue, why: str) -> None:
        self._log(logging.WARNING, self._undelivered, queue, why)

    def _log(self, level: int, throttle: LogThrottle, queue: ReplicatedQueue, why: str) -> None:
        suppressed = throttle.may_log(queue.record.label, self._monotonic())
        if suppressed is not None:
            again = f" ({suppressed} more times since the last line)" if suppressed else ""
            self._logger.log(level, "%s: %s%s", queue.record.label, why, again)
