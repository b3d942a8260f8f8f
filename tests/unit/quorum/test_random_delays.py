"""Delayed messages under kills and clocks that are set, drawn: each comes, and none early."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.quorum.holding_world import HoldingWorld
from tests.unit.quorum.test_holding import HOUR_MS


@settings(max_examples=25, deadline=None)
@given(
    delays=st.lists(st.integers(1, 4_000), min_size=1, max_size=40),
    killed_at=st.floats(0.2, 4),
    jumps=st.lists(st.tuples(st.floats(0.1, 4), st.sampled_from((HOUR_MS, -HOUR_MS, 2_000))), max_size=3),
)
def test_whatever_is_killed_and_set_each_comes_and_none_early(
    delays: list[int], killed_at: float, jumps: list[tuple[float, int]]
) -> None:
    """All were confirmed before. What was on its way when its leader was killed may come twice."""
    world = HoldingWorld()
    bodies = [str(number).encode() for number in range(len(delays))]
    for body, delay in zip(bodies, delays, strict=True):
        world.publish(delay, body, node=2)
    world.cluster.run(0.1)
    loop = world.cluster.loop
    for after, by in jumps:
        loop.call_later(after, lambda by=by: loop.clock.jump_wall_ms(by))
    world.cluster.run(killed_at)
    world.cluster.nodes[1].kill()
    world.cluster.run(10)
    assert Counter(world.exchange.bodies).keys() == set(bodies)
    assert all(when >= world.at[body] - 0.001 for body, when in world.exchange.released)
    assert [world.kept(node) for node in (2, 3)] == [0, 0]
