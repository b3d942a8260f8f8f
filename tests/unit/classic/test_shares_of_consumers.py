"""How much of what is ready each of several consumers gets."""

from __future__ import annotations

import random

from broker.queues.consumer import Consumer
from classic.consumers import Consumers
from tests.unit.classic.classic_world import Sink, World, record_of


def test_a_share_is_what_counting_all_with_room_would_give() -> None:
    """Counting is left out where it changes nothing: with a thousand consumers it was most of a delivery's cost."""
    chance = random.Random(3)
    world = World([record_of("a", 1)])
    for _ in range(300):
        consumers = Consumers(world.records[0], single_active=False)
        everybody = []
        for number in range(chance.randrange(2, 8)):
            one = Consumer(
                f"c{number}",
                world.queues["a"],
                Sink(),
                prefetch=chance.choice((1, 2, 10, 100)),
                priority=chance.randrange(2),
            )
            one.outstanding = chance.choice((0, 0, one.prefetch, one.prefetch // 2))
            consumers.add(one)
            everybody.append(one)
        ready = chance.choice((1, 2, 5, 50, 1000))
        turn = consumers.next(ready)
        with_room = [one for one in everybody if one.room() > 0]
        if turn is None:
            assert not with_room
            continue
        highest = max(one.priority for one in with_room)
        sharing = sum(1 for one in with_room if one.priority == highest)
        assert turn[0].priority == highest
        assert turn[1] == min(turn[0].room(), -(-ready // sharing))
