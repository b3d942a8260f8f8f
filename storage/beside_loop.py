"""The port Background: work that blocks, beside the event loop. node/background.py is the thread behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Background(Protocol):
    """A thread that does one thing at a time, or none at all."""

    def run(self, work: Callable[[], None], done: Callable[[None, Exception | None], None]) -> None:
        """Do `work` without holding up the event loop, then call `done` on the loop, with what was raised."""

    def close(self) -> None:
        """Wait for the work that has begun. Nothing more is asked for. Closing twice does no harm."""


class AtOnce:
    """Work is done where it is asked for: for simulations."""

    def run(self, work: Callable[[], None], done: Callable[[None, Exception | None], None]) -> None:
        try:
            work()
        except Exception as error:
            done(None, error)
        else:
            done(None, None)

    def close(self) -> None:
        pass
