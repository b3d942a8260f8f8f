"""Walks over all open queues, while some are opened and closed."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any, cast

from broker.queues.open_queue import OpenQueue
from broker.queues.queue_walk import EMPTY_PLACES_MIN, QueueWalk
from tests.unit.broker.broker_world import World

ANYTHING = cast(Any, None)


def opened(number: int) -> OpenQueue:
    return OpenQueue(ANYTHING, cast(Any, SimpleNamespace(number=number)), ANYTHING)


def numbers(walk: QueueWalk) -> list[int]:
    return [cast(Any, queue).number for queue in walk]


def test_what_stays_open_comes_once_whatever_is_opened_and_closed_during_a_walk() -> None:
    chance, walk, count = random.Random(5), QueueWalk(), 4 * EMPTY_PLACES_MIN
    queues = {number: opened(number) for number in range(count)}
    for one in queues.values():
        walk.add(one)
    begun, seen, next_number = iter(walk), [], count
    while (queue := next(begun, None)) is not None:
        seen.append(cast(Any, queue).number)
        for _ in range(2):
            walk.remove(queues.pop(chance.choice([*queues][: len(queues) // 2 or 1])))
        queues[next_number] = opened(next_number)
        walk.add(queues[next_number])
        next_number += 1
        if len(queues) < EMPTY_PLACES_MIN:
            break
    seen += [cast(Any, queue).number for queue in begun]
    assert len(seen) == len(set(seen))
    assert {number for number in queues if number < count} <= set(seen)
    assert numbers(walk) == sorted(queues)


def test_places_of_closed_queues_are_given_back() -> None:
    walk = QueueWalk()
    for number in range(20 * EMPTY_PLACES_MIN):
        one = opened(number)
        walk.add(one)
        walk.remove(one)
    assert len(walk._places) <= 2 * EMPTY_PLACES_MIN
    assert numbers(walk) == []


def test_the_broker_walks_over_what_is_declared_and_not_over_what_was_deleted() -> None:
    world = World()
    client = world.client()
    for name in ("a", "b", "c"):
        client.declare(name)
    client.delete("b")
    client.declare("b")
    assert [queue.record.name for queue in world.broker.queues()] == ["a", "c", "b"]
    assert [queue.record.name for queue in world.broker.queues()] == ["a", "c", "b"], "each walk begins anew"
