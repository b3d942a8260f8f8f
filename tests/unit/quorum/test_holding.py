"""Queues in which the messages of a delayed exchange wait: released in time, by whoever leads, none early and none lost."""

from __future__ import annotations

import pytest

from broker.messages.message import LOOK_HEADERS, Run
from native.content import encode
from quorum.dead_letters import LOOKED_AT_MAX, RELEASED_MAX, RETRY_MS
from quorum.holding import HOLDING_RULES, ORPHAN_MS
from tests.unit.quorum.holding_world import HoldingWorld
from wire.amqp.tables import encode_properties

HOUR_MS = 3_600_000
LATE_S = 0.05  # what a quiet cluster may need from the time at which a message is due


@pytest.fixture
def world() -> HoldingWorld:
    return HoldingWorld()


def test_each_is_released_when_it_is_due_and_then_forgotten_by_all_members(world: HoldingWorld) -> None:
    for number, delay in enumerate((700, 300, 500, 350)):
        world.publish(delay, str(number).encode(), node=1 + number % 3)
    world.cluster.run(0.2)
    assert world.exchange.released == []
    world.cluster.run(1)
    assert world.exchange.bodies == [b"1", b"3", b"2", b"0"]
    for body, when in world.exchange.released:
        assert 0 <= when - world.at[body] <= LATE_S
    assert [world.kept(node) for node in (1, 2, 3)] == [0, 0, 0]


def test_messages_of_one_run_with_different_delays_wait_for_their_own(world: HoldingWorld) -> None:
    content = b"".join(
        [encode(encode_properties({"headers": {"x-delay": delay}}), str(delay).encode()) for delay in (300, 100, 200)]
    )
    kind, queue = world.clients.of(1, world.record)
    kind.publish((queue,), Run("x", "key", content, 3, 9, look=LOOK_HEADERS), None, world.clients.now)
    world.cluster.run(1)
    assert world.exchange.bodies == [b"100", b"200", b"300"]


@pytest.mark.parametrize("jump_ms", [HOUR_MS, -HOUR_MS])
def test_none_is_early_or_late_when_all_wall_clocks_jump(world: HoldingWorld, jump_ms: int) -> None:
    world.publish(3_000, b"due")
    world.cluster.run(1)
    world.cluster.loop.clock.jump_wall_ms(jump_ms)
    world.cluster.run(1.9)
    assert world.exchange.released == []
    world.cluster.run(1.2)  # a timer that the wall clock makes late is looked after every second
    assert world.exchange.bodies == [b"due"]


def test_none_is_early_when_another_leads_after_the_wall_clocks_have_jumped(world: HoldingWorld) -> None:
    world.publish(5_000, b"due")
    world.cluster.run(1)
    world.cluster.loop.clock.jump_wall_ms(HOUR_MS)
    world.cluster.nodes[1].kill()
    world.cluster.run(3.9)
    assert world.exchange.released == []
    world.cluster.run(1.5)
    assert world.exchange.bodies == [b"due"]


def test_one_whose_queue_is_full_makes_no_other_late(world: HoldingWorld) -> None:
    world.exchange.full = {b"full"}
    world.publish(100, b"full")
    world.publish(200, b"other")
    world.cluster.run(0.5)
    assert world.exchange.bodies == [b"other"]
    world.exchange.full = set()
    world.cluster.run(RETRY_MS / 1000 + 1)
    assert world.exchange.bodies == [b"other", b"full"]
    assert (world.exchange.refused, world.kept(1)) == (1, 0)


def test_only_so_many_are_on_their_way(world: HoldingWorld) -> None:
    world.exchange.silent = True
    world.publish(100, *[str(number).encode() for number in range(2 * RELEASED_MAX)])
    world.cluster.run(0.5)
    assert len(world.exchange.released) == LOOKED_AT_MAX
    world.cluster.run(6)  # nothing but the time has it look again
    assert len(world.exchange.released) == RELEASED_MAX


def test_no_policy_and_no_argument_changes_the_rules() -> None:
    world = HoldingWorld(**{"x-message-ttl": 1, "x-max-length": 1, "x-expires": 1})
    assert world.cluster.nodes[1].queue(world.record).rules == HOLDING_RULES


def test_a_queue_whose_exchange_is_gone_is_deleted_after_a_while(world: HoldingWorld) -> None:
    needed = {"amq.delayed.x"}
    queue = world.cluster.leader(world.record).queue(world.record)
    queue.leading._orphanage._needed = lambda vhost, queue: queue in needed
    world.cluster.run(3)
    needed.clear()
    world.cluster.run(ORPHAN_MS / 1000 - 1)
    assert world.clients.hosts[1].to_delete == []
    world.cluster.run(3)
    assert [found.record.name for found, _ in world.clients.hosts[1].to_delete] == ["amq.delayed.x"]


def test_what_was_on_its_way_when_its_leader_was_lost_is_released_by_the_next(world: HoldingWorld) -> None:
    world.exchange.silent = True
    world.publish(100, b"a", b"b")
    world.cluster.run(0.5)
    assert world.exchange.bodies == [b"a", b"b"]
    world.exchange.silent = False
    world.cluster.nodes[1].kill()
    world.cluster.run(5)
    assert world.exchange.bodies == [b"a", b"b"] * 2
    assert [world.kept(node) for node in (2, 3)] == [0, 0]
