"""Turns of the event loop, one by one, with room for a few steps of background work each."""

from __future__ import annotations

from collections.abc import Callable

from broker.background_work import BackgroundWork
from tests.unit.broker.broker_world import World


class LaterTurns:
    """Those of a broker, from now on."""

    def __init__(self, world: World, steps_max: int) -> None:
        self.soon: list[Callable[[], None]] = []
        world.broker.work = BackgroundWork(self.soon.append, lambda: 0.0, steps_max=steps_max)

    def one(self) -> bool:
        """False: nothing waited for it."""
        soon = list(self.soon)
        self.soon.clear()
        for call in soon:
            call()
        return bool(soon)

    def all(self) -> None:
        while self.one():
            pass
