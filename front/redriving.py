"""Beginning a redrive with a session of its own, for whichever front its operator uses."""

from __future__ import annotations

from collections.abc import Callable

from broker.errors import BrokerError
from broker.operations.redrives import Redrives, RedriveView
from broker.pending import Pending
from front.started_job import StartedJob, Visit


class StartedRedrive(StartedJob):
    """See there."""

    def __init__(self, redrives: Redrives, view: RedriveView, now: Callable[[], int]) -> None:
        super().__init__(redrives, view, now)
        self._job = view.job

    def begin(self, visit: Visit, now: int) -> Pending[None]:
        """Answered when it is over. Raises what keeps it from beginning, and is closed then."""
        try:
            return self._job.begin(self.enter(visit), now)
        except BrokerError as error:
            self._job.fail(error)
            self.close()
            raise
