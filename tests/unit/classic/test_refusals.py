"""Whatever is published in runs, to queues whose limits come and go between: who is told what is what is there."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.catalog.policy import EffectiveArguments
from native.content import messages
from tests.unit.classic.classic_world import World, record_of

LIMITS = [
    EffectiveArguments(),
    EffectiveArguments(max_length=3, overflow="reject-publish"),
    EffectiveArguments(max_length=1, dead_letter_exchange="dlx"),
    EffectiveArguments(max_length_bytes=12, overflow="reject-publish"),
    EffectiveArguments(max_length_bytes=20, dead_letter_exchange="dlx"),
    EffectiveArguments(max_length=4, max_length_bytes=16, overflow="reject-publish"),
]
QUEUES = ["a", "b", "fleeting"]
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("publish"),
            st.lists(st.sampled_from(QUEUES), min_size=1, max_size=3, unique=True),
            st.lists(st.integers(0, 9), min_size=1, max_size=5),
        ),
        st.tuples(st.just("policy"), st.sampled_from(QUEUES), st.sampled_from(LIMITS)),
        st.tuples(st.just("take"), st.sampled_from(QUEUES), st.integers(1, 3)),
        st.tuples(st.just("turn"), st.just(""), st.just(0)),
    ),
    max_size=25,
)


@dataclass
class Published:
    """What a queue was sent and what it had, by body."""

    tags: dict[bytes, int] = field(default_factory=dict)
    taken: set[bytes] = field(default_factory=set)


def test_of_a_run_each_message_that_has_no_room_is_refused() -> None:
    world = World([record_of("q", 1)], effective=EffectiveArguments(max_length_bytes=100, overflow="reject-publish"))
    world.publish(["q"], [b"x" * 60, b"y" * 60, b"z" * 10], confirm=1)
    world.tick()
    assert (world.confirmed.accepted, world.confirmed.refused) == ({1, 3}, {2})
    assert [body[:1] for body, _ in world.waiting("q")] == [b"x", b"z"]


def test_a_full_queue_refuses_its_part_of_what_another_takes() -> None:
    world = World([record_of("q", 1), record_of("r", 2)])
    world.queues["q"].policy_changed(EffectiveArguments(max_length=1, overflow="reject-publish"), world.now)
    world.publish(["q", "r"], [b"a", b"b"], confirm=1)
    world.tick()
    assert (world.confirmed.accepted, world.confirmed.refused) == ({1}, {2})
    assert (len(world.waiting("q")), len(world.waiting("r"))) == (1, 2)


@pytest.mark.parametrize("persistent", [True, False])
@given(steps=STEPS)
def test_confirmed_is_what_every_queue_took_and_refused_is_the_rest(
    persistent: bool, steps: list[tuple[str, object, object]]
) -> None:
    world = World([record_of("a", 1), record_of("b", 2), record_of("fleeting", 3, durable=False)])
    seen = {name: Published() for name in QUEUES}
    next_tag = 1
    for step, what, value in steps:
        if step == "publish":
            assert isinstance(what, list) and isinstance(value, list)
            bodies = [b"%d:" % (next_tag + at) + b"x" * size for at, size in enumerate(value)]
            for name in what:
                seen[name].tags |= {body: next_tag + at for at, body in enumerate(bodies)}
            world.publish(what, bodies, persistent=persistent, confirm=next_tag)
            next_tag += len(bodies)
        elif step == "policy":
            assert isinstance(what, str) and isinstance(value, EffectiveArguments)
            world.queues[what].policy_changed(value, world.now)
        elif step == "take":
            assert isinstance(what, str) and isinstance(value, int)
            for _ in range(value):
                if (got := world.get(what, no_ack=True)) is not None:
                    seen[what].taken.add(messages(got.content[got.piece.position :], 0, 1)[0][1])
        else:
            world.tick()
    world.tick(2)
    missing: set[int] = set()
    for name, published in seen.items():
        had = {body for body, _ in world.waiting(name)} | {body for queue, _, body in world.host.dead if queue == name}
        missing |= {tag for body, tag in published.tags.items() if body not in had and body not in published.taken}
    every = set(range(1, next_tag))
    assert (world.confirmed.refused, world.confirmed.accepted) == (missing, every - missing)
