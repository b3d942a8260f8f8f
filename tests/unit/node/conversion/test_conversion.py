"""A classic queue becomes a quorum queue while clients publish and consume through every node, and nodes are killed: what was
confirmed comes to somebody, comes again with the mark only, and in the order of its publisher."""

from __future__ import annotations

import pytest

from broker.catalog.commands.catalog_commands import DeleteQueue
from node.conversion.conversion import PAUSE_MAX_MS, Phase
from tests.unit.node.conversion.converted_world import QUEUE, Comer, ConvertedWorld

BACKLOG = 1_000


def is_quorum_everywhere(world: ConvertedWorld) -> bool:
    return all(world.kind_on(node) == "quorum" for node in world.sim.sites)


def test_a_queue_in_use_is_converted_and_nobody_notices_but_for_a_moment() -> None:
    world = ConvertedWorld(1, BACKLOG)
    world.sim.loop.run_for(1.0)
    world.convert()
    world.until(lambda: world.conversion)
    conversion = world.conversion
    assert conversion is not None
    world.until(lambda: is_quorum_everywhere(world))
    assert conversion.phase is Phase.OVER and 0 < conversion.fenced_ms <= PAUSE_MAX_MS
    world.sim.loop.run_for(1.0)
    assert all(taker.channel is not None for taker in world.takers), "consumers stay"
    world.judge()
    assert all(publisher.published > 150 for publisher in world.publishers)
    process = world.sim.sites[1].process
    assert process is not None
    assert not [record.name for record in process.broker.catalog.queues("/") if record.name.startswith("amq.becoming")]


@pytest.mark.parametrize("node", [1, 2, 3])
@pytest.mark.parametrize("phase", [Phase.FOUNDING, Phase.COPYING, Phase.FENCED, Phase.SEALED, Phase.SWAPPING])
def test_any_node_is_killed_at_any_step_and_the_queue_is_one_or_the_other_with_all_it_had(
    node: int, phase: Phase
) -> None:
    world = ConvertedWorld(10 * node + phase, BACKLOG)
    world.convert()
    world.until(lambda: world.conversion is not None and world.conversion.phase >= phase, step_s=0.0005)
    world.kill(node)
    world.sim.loop.run_for(5.0)
    kinds = {world.kind_on(one) for one in world.sim.sites}
    assert len(kinds) == 1, "all nodes say the same"
    if kinds == {"classic"} and world.conversion is None:
        assert node == 1, "who loses another node goes on"
        world.convert()
    world.until(lambda: is_quorum_everywhere(world))
    world.judge()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_who_comes_and_goes_as_a_consumer_at_the_very_moment_is_not_turned_away(seed: int) -> None:
    world = ConvertedWorld(seed, BACKLOG)
    world.consumers_come_and_go = True
    comers = [Comer(world, node) for node in world.sim.sites]
    world.convert()
    world.until(lambda: is_quorum_everywhere(world))
    world.sim.loop.run_for(1.0)
    assert [one.troubles for one in comers if one.troubles] == []
    assert all(one.came > 20 for one in comers)
    world.judge()


def test_a_queue_that_is_deleted_meanwhile_leaves_nothing_behind() -> None:
    world = ConvertedWorld(5, BACKLOG)
    world.convert()
    world.until(lambda: world.conversion, step_s=0.0005)
    process = world.sim.sites[1].process
    assert process is not None
    before = process.broker.catalog.queue("/", QUEUE)
    assert before is not None
    world.do(lambda running: running.broker.submit(DeleteQueue("/", QUEUE, before.id), 0))
    world.until(lambda: not [one for one in process.broker.catalog.queues("/") if QUEUE in one.name])
    assert world.conversion is None
