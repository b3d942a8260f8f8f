"""An exclusive queue is its connection's alone, whatever another connection of the same user may otherwise do."""

from __future__ import annotations

import pytest

from tests.security import wire
from tests.security.requests import frames_of
from tests.security.world import Line, World

REQUESTS = [
    "queue.declare queue=mine exclusive",
    "queue.declare queue=mine",
    "queue.declare queue=mine passive",
    "queue.bind queue=mine exchange=amq.fanout",
    "queue.unbind queue=mine exchange=amq.fanout",
    "queue.purge queue=mine",
    "queue.delete queue=mine",
    "basic.get queue=mine",
    "basic.consume queue=mine",
]


@pytest.fixture
def world() -> World:
    world = World()
    world.add_vhost("v")
    world.add_user("u")
    world.permit("u", "v", ".*", ".*", ".*")
    return world


def opened(world: World) -> Line:
    line = world.connect("u", "v")
    line.call(1, "channel.open")
    return line


@pytest.fixture
def owner(world: World) -> Line:
    line = opened(world)
    assert line.call(1, "queue.declare", queue="mine", exclusive=True).name == "queue.declare-ok"
    assert line.call(1, "queue.bind", queue="mine", exchange="amq.fanout").name == "queue.bind-ok"
    return line


@pytest.mark.parametrize("request_", REQUESTS)
def test_another_connection_is_locked_out(world: World, owner: Line, request_: str) -> None:
    said = opened(world).give(frames_of(1, request_))
    assert [(one.name, one.code) for one in said] == [("channel.close", 405)], said
    owner.give(wire.publish(1, "amq.fanout", ""))
    assert owner.call(1, "queue.purge", queue="mine").arguments["message_count"] == 1, (
        "nothing has changed for its owner"
    )


@pytest.mark.parametrize("request_", REQUESTS)
def test_its_owner_may_do_everything(owner: Line, request_: str) -> None:
    said = owner.give(frames_of(1, request_), wire.method(1, "basic.qos"))
    code = next((one.code for one in said if one.code), 0)
    assert code == (405 if request_ == "queue.declare queue=mine" else 0), said


def test_it_goes_with_its_connection_even_when_that_is_refused_something(world: World, owner: Line) -> None:
    owner.give(wire.method(9, "basic.qos"))
    assert world.catalog.queue("v", "mine") is None


def test_its_messages_are_given_to_nobody_by_the_same_name(world: World, owner: Line) -> None:
    owner.give(wire.publish(1, "", "mine", b"private"))
    owner.give(wire.method(0, "connection.close"))
    other = opened(world)
    assert other.call(1, "queue.declare", queue="mine").arguments["message_count"] == 0
