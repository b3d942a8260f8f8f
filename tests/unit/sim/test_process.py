"""tests/sim/process.py: a simulated process is called as a real one is."""

from __future__ import annotations

from tests.sim.engine_layer import LAYER
from tests.sim.process import NodeLoop


def test_what_is_cancelled_while_its_process_is_stopped_is_not_called_when_it_goes_on() -> None:
    """As in asyncio, also when it was due: brokers, seeds 35 and 48, where a timer came though its answer had been first."""
    world = LAYER.world(LAYER.draw(1))
    world.form()
    site = world.sites[1]
    loop, called = NodeLoop(site), list[str]()
    site.stop()
    cancelled = [
        loop.call_soon(called.append, "soon"),
        loop.call_at(site.clock.monotonic(), called.append, "at"),
        loop.call_after(0.001, called.append, "after"),
    ]
    loop.call_after(0.001, called.append, "kept")
    world.loop.run_for(0.01)
    for timer in cancelled:
        timer.cancel()
    site.go_on()
    assert called == ["kept"]
