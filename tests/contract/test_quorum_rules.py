"""What holds for quorum queues where quorum_rules.py says that they do otherwise than classic ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.catalog.arguments import check_queue
from broker.catalog.commands.catalog_commands import DeclareQueue
from broker.errors import PreconditionFailed
from broker.queues.queue_type import DeathReason, Outcome
from quorum.fifo.consumers import UNLIMITED_WINDOW
from tests.contract import test_against_model, test_queue_type
from tests.contract.kinds import KINDS, Kind
from tests.contract.quorum_rules import QUORUM_RULES
from tests.contract.test_queue_type import numbered
from tests.contract.world import World

QUORUM_KINDS = [kind for kind in KINDS if kind.differs is QUORUM_RULES]


@pytest.fixture(params=QUORUM_KINDS, ids=lambda kind: kind.name)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    kind: Kind = request.param
    world = World()
    world.opened = kind.open(world, tmp_path)
    yield world
    world.opened.close()


def test_each_rule_that_they_do_not_keep_is_one_of_the_suite_and_something_holds_instead() -> None:
    rules = {*vars(test_queue_type), *vars(test_against_model)}
    assert set(QUORUM_RULES) <= rules
    assert set(QUORUM_RULES.values()) <= set(globals())


def test_what_came_back_is_handed_out_before_everything_else_in_the_order_of_its_return(world: World) -> None:
    queue = world.queue()
    world.publish(queue, *numbered(5))
    world.publish(queue, b"urgent", priority=9)
    world.turn()
    got = [world.get(queue, no_ack=False) for _ in range(4)]
    for at in (3, 1):
        found = got[at]
        assert found is not None
        world.settle(None, found[1].piece, Outcome.REQUEUED)
    world.turn()
    assert world.drain(queue) == [b"2", b"0", b"3", b"4"]


def test_a_consumer_without_prefetch_holds_2000_at_most(world: World) -> None:
    queue = world.queue()
    consumer, taker = world.consumer(queue)
    for first in range(0, 5_000, 500):
        world.publish(queue, *numbered(500, first))
    world.turn()
    assert taker.bodies == numbered(UNLIMITED_WINDOW)
    assert queue.ready_count == 5_000 - UNLIMITED_WINDOW
    for _ in range(2):
        world.settle_all(consumer, taker)
        world.turn()
    assert taker.bodies == numbered(5_000)


def test_the_group_assigns_by_prefetch_alone_whoever_can_be_written_to(world: World) -> None:
    """It does not know whose socket is full. What waits for one is its own, until it leaves or takes too long."""
    queue = world.queue()
    _, low = world.consumer(queue, "low")
    consumer, high = world.consumer(queue, "high", priority=5, prefetch=1)
    high.writable = False
    world.publish(queue, b"a", b"b")
    world.turn()
    assert (high.bodies, low.bodies, world.get(queue)) == ([], [b"b"], None)
    queue.cancel(consumer, world.now)
    world.turn()
    assert (low.bodies, low.redelivered) == ([b"b", b"a"], [False, False])


def test_a_message_expires_when_its_time_has_come_wherever_it_stands(world: World) -> None:
    queue = world.queue(x_dead_letter_exchange="dlx")
    world.publish(queue, b"lives on")
    world.publish(queue, b"short", expiration_ms=100)
    world.publish(queue, b"too")
    world.turn()
    world.pass_time(101)
    assert queue.ready_count == 2
    assert [(reason, body) for reason, _, _, body, _ in world.dead] == [(DeathReason.EXPIRED, b"short")]
    assert world.drain(queue) == [b"lives on", b"too"]


def test_there_are_always_32_priorities_and_4_is_the_default_one(world: World) -> None:
    queue = world.queue()
    for priority in (None, 3, 4, 5, 31, 32, 255, 0):
        named = {} if priority is None else {"priority": priority}
        world.publish(queue, b"%d" % (priority or 0) if named else b"none", **named)
    world.turn()
    assert world.drain(queue) == [b"31", b"32", b"255", b"5", b"none", b"4", b"0", b"3"]


def test_reject_publish_dlx_is_taken_for_drop_head(world: World) -> None:
    """RabbitMQ accepts it, too, and falls back."""
    queue = world.queue(x_max_length=1, x_overflow="reject-publish-dlx", x_dead_letter_exchange="dlx")
    world.publish(queue, b"a")
    tags = world.publish(queue, b"b", confirm=True)
    world.turn()
    assert world.answers.accepted == tags
    assert [(reason, body) for reason, _, _, body, _ in world.dead] == [(DeathReason.MAXLEN, b"a")]


@pytest.mark.parametrize(
    ("named", "wrong"),
    [
        ({"durable": False}, "non-durable"),
        ({"exclusive": True}, "exclusive-owner"),
        ({"auto_delete": True}, "auto-delete"),
    ],
)
def test_a_queue_that_would_go_with_its_consumers_or_its_node_is_refused(named: dict[str, bool], wrong: str) -> None:
    properties = {"durable": True, "exclusive": False, "auto_delete": False, **named}
    wish = DeclareQueue("/", "q", arguments={"x-queue-type": "quorum"}, **properties)
    with pytest.raises(PreconditionFailed, match=f"^invalid property '{wrong}' for queue 'q' in vhost '/'$"):
        check_queue(wish, "quorum")
