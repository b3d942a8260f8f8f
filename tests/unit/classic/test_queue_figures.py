"""What a classic queue says of the message that comes next."""

from __future__ import annotations

from broker.catalog.policy import EffectiveArguments
from broker.messages.message import Run
from classic.store.node_storage import ClassicLimits
from native.content import encode
from tests.unit.classic.classic_world import World, record_of
from wire.amqp.tables import encode_properties


def publish(world: World, *stamps: int | None, priority: int = 0) -> None:
    """One run, in which each message has this timestamp. It stays in memory, for it is on no disk."""
    properties = [encode_properties({} if stamp is None else {"timestamp": stamp}) for stamp in stamps]
    content = b"".join(encode(one, b"body") for one in properties)
    run = Run("x", "key", content, len(stamps), 4 * len(stamps), persistent=False, priority=priority)
    world.kind.publish([world.queues["a"]], run, None, world.now)


def head_timestamp(world: World) -> int | None:
    return world.queues["a"].statistics().head_timestamp


def test_the_head_says_when_its_publisher_made_it() -> None:
    world = World([record_of("a", 1, durable=False)], limits=ClassicLimits())
    assert head_timestamp(world) is None
    publish(world, 7, None, 9)
    seen = [head_timestamp(world)]
    while world.get("a", no_ack=True):
        seen.append(head_timestamp(world))
    assert seen == [7, None, 9, None]


def test_of_a_queue_with_priorities_it_is_the_message_that_goes_first() -> None:
    world = World(
        [record_of("a", 1, durable=False)], limits=ClassicLimits(), effective=EffectiveArguments(max_priority=3)
    )
    publish(world, 7)
    publish(world, 8, priority=2)
    assert head_timestamp(world) == 8


def test_properties_that_nobody_can_read_have_no_timestamp() -> None:
    world = World([record_of("a", 1, durable=False)], limits=ClassicLimits())
    world.publish(["a"], [b"without flags"])
    assert head_timestamp(world) is None
