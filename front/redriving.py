"""Beginning a redrive with a session of its own, for whichever front its operator uses."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING

from broker.errors import BrokerError
from broker.operations.redrives import Redrives, RedriveView
from broker.pending import Pending

if TYPE_CHECKING:
    from broker.session.session import Session

Visit = AbstractContextManager["Session"]


class StartedRedrive:
    """To be closed when it is over, or when nobody waits for that any more."""

    def __init__(self, redrives: Redrives, view: RedriveView, now: Callable[[], int]) -> None:
        self.view = view
        self._open = ExitStack()
        self._open.callback(lambda: redrives.ended(view, now()))

    def begin(self, visit: Visit, now: int) -> Pending[None]:
        """Answered when it is over. Raises what keeps it from beginning, and is closed then."""
        try:
            return self.view.job.begin(self._open.enter_context(visit), now)
        except BrokerError as error:
            self.view.job.fail(error)
            self.close()
            raise

    def close(self) -> None:
        self._open.close()
