"""Dead letters for more queues than a turn has room for: they get them over several, in the order in which they died."""

from __future__ import annotations

from itertools import pairwise

import pytest

from broker.queues.queue_type import Arrival, DeadMessage, DeathReason
from native.content import encode
from tests.unit.broker.broker_world import World
from tests.unit.broker.later_turns import LaterTurns
from wire.amqp.tables import encode_properties

TARGETS = [f"d{number}" for number in range(5)]


class Graves:
    """`src`, whose dead letters go to five queues, two of them with each step; a turn has room for one."""

    def __init__(self) -> None:
        self.world = World()
        self.world.broker.queues_per_step = 2
        self.client = self.world.client()
        self.client.declare_exchange("graves", "fanout")
        for name in TARGETS:
            self.client.declare(name)
            self.client.bind(name, "graves", "")
        self.client.declare("src", dead_letter_exchange="graves", max_length=1)
        self.later = LaterTurns(self.world, steps_max=1)

    def kill(self, body: bytes) -> None:
        """The next message pushes it out of its queue."""
        self.client.publish("", "src", body)
        self.client.publish("", "src", b"next")

    def turn(self) -> bool:
        went_on = self.later.one()
        self.world.end_turn()
        return went_on

    def holding(self) -> list[int]:
        return [self.world.ready(name) for name in TARGETS]


@pytest.fixture
def graves() -> Graves:
    return Graves()


def test_queues_get_a_dead_letter_over_several_turns(graves: Graves) -> None:
    graves.kill(b"1")
    held = [sum(graves.holding())]
    while graves.turn():
        held.append(sum(graves.holding()))
    assert (held[0], held[-1], max(b - a for a, b in pairwise(held))) == (4, 5, 1), (
        "a step at once, one that fits into the turn, and the rest in the next"
    )
    assert graves.world.broker.dead_lettered()["maxlen"] == 1


def test_what_dies_meanwhile_waits_behind_it(graves: Graves) -> None:
    for body in (b"1", b"2", b"3"):
        graves.client.publish("", "src", body)
    graves.client.publish("", "src", b"next")
    assert 0 < sum(graves.holding()) < 5
    while graves.turn():
        pass
    for name in TARGETS:
        assert graves.client.bodies_of(name) == [b"1", b"2", b"3"]


def test_a_queue_that_is_deleted_before_it_got_a_dead_letter_has_taken_it(graves: Graves) -> None:
    heard: list[Arrival] = []
    queue = graves.world.broker.queue("/", "src")
    dead = DeadMessage("", "src", encode(encode_properties({}), b"1"), True)
    graves.world.broker.dead_letter_confirmed(queue, DeathReason.REJECTED, dead, graves.world.now, set(), heard.append)
    assert (sum(graves.holding()), heard) == (4, [])
    graves.client.delete(TARGETS[-1])
    while graves.turn():
        pass
    assert heard == [Arrival.ARRIVED]
    assert [graves.client.bodies_of(name) for name in TARGETS[:-1]] == [[b"1"]] * 4


def test_a_dead_letter_that_no_queue_gets_is_not_said_to_have_arrived(graves: Graves) -> None:
    """Its queue keeps it until it has, and would let go of the only copy."""
    heard: list[Arrival] = []
    for name in TARGETS:
        graves.client.delete(name)
    queue = graves.world.broker.queue("/", "src")
    dead = DeadMessage("", "src", encode(encode_properties({}), b"1"), True)
    graves.world.broker.dead_letter_confirmed(queue, DeathReason.REJECTED, dead, graves.world.now, set(), heard.append)
    while graves.turn():
        pass
    assert heard == [Arrival.NOWHERE]
    assert graves.world.broker.dead_lettered()["rejected"] == 0


def test_a_node_that_stops_puts_nothing_off(graves: Graves) -> None:
    graves.kill(b"1")
    assert sum(graves.holding()) == 4
    graves.world.broker.end_connections(graves.world.now)
    queues = [graves.world.broker.queue("/", name) for name in TARGETS]
    assert [queue.ready_count for queue in queues] == [1] * 5


def test_a_fault_in_one_dead_letter_keeps_no_later_one_from_its_way(
    graves: Graves, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = graves.world.broker.find_queue("/", TARGETS[0])
    assert kind is not None
    with monkeypatch.context() as broken:
        broken.setattr(kind.kind, "publish", lambda *what: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            graves.world.broker.dead_letter(
                graves.world.broker.queue("/", "src"),
                DeathReason.REJECTED,
                [DeadMessage("", "src", encode(encode_properties({}), b"1"), True)],
                0,
            )
    graves.kill(b"2")
    while graves.turn():
        pass
    assert [graves.client.bodies_of(name) for name in TARGETS] == [[b"2"]] * 5
