"""A job that moves messages, with the session that it has for itself, for whichever front its operator uses."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, TypeVar

from broker.operations.message_jobs import JobView, MessageJob, MessageJobs

if TYPE_CHECKING:
    from broker.session.session import Session

J = TypeVar("J", bound=MessageJob)
Visit = AbstractContextManager["Session"]


class StartedJob:
    """To be closed when it is over, or when nobody waits for that any more."""

    def __init__(self, jobs: MessageJobs[J], view: JobView[J], now: Callable[[], int]) -> None:
        self._open = ExitStack()
        self._open.callback(lambda: jobs.ended(view, now()))

    def enter(self, visit: Visit) -> Session:
        """It is left when this is closed."""
        return self._open.enter_context(visit)

    def close(self) -> None:
        self._open.close()
