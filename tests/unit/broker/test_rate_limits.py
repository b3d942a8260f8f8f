"""Limits of how fast messages come in: who is held, for how long, and who is not."""

from __future__ import annotations

import pytest

from broker.catalog.commands.catalog_commands import DeleteUser, PutPermission, PutUser, SetUserLimits, SetVhostLimits
from broker.errors import PreconditionFailed
from broker.messages.message import Run
from broker.pending import Pending, ignore
from broker.records import PermissionRecord, UserRecord
from native.content import encode
from tests.unit.broker.broker_world import Client, World
from wire.amqp.tables import encode_properties

PROPERTIES = encode_properties({})


@pytest.fixture
def world() -> World:
    return World()


def publish(world: World, client: Client, count: int = 1, size: int = 1) -> Pending[None] | None:
    content = encode(PROPERTIES, b"x" * size) * count
    return client.session.publisher.publish(Run("", "q", content, count, count * size), world.now)


def held_ms(world: World, client: Client, count: int = 1, size: int = 1, step_ms: int = 10) -> int:
    """How long until the next publish may follow."""
    held = publish(world, client, count, size)
    if held is None:
        return 0
    told: list[bool] = []
    held.then(lambda _: told.append(True), ignore)
    began = world.now
    while not told:
        assert world.now - began < 100_000, "never let go"
        world.pass_ms(step_ms)
    return world.now - began


def test_nobody_is_held_without_a_limit(world: World) -> None:
    assert publish(world, world.client(), 1_000_000) is None


@pytest.mark.parametrize("command", [SetVhostLimits, SetUserLimits], ids=["vhost", "user"])
def test_what_is_published_is_taken_and_waited_for_afterwards(
    world: World, command: type[SetVhostLimits | SetUserLimits]
) -> None:
    world.submit(command("/" if command is SetVhostLimits else "guest", {"max-message-rate": 100}))
    client = world.client()
    client.declare("q")
    assert held_ms(world, client, 210) == pytest.approx(2_000, abs=20)
    assert world.ready("q") == 210
    assert held_ms(world, client, 100) == pytest.approx(1_000, abs=20)


def test_a_tenth_of_a_second_may_come_at_once_after_a_pause(world: World) -> None:
    world.submit(SetVhostLimits("/", {"max-message-rate": 100}))
    client = world.client()
    assert publish(world, client, 10) is None
    assert publish(world, client, 1) is not None


def test_the_slower_of_all_limits_counts(world: World) -> None:
    world.submit(SetVhostLimits("/", {"max-message-rate": 1_000, "max-byte-rate": 1_000}))
    world.submit(SetUserLimits("guest", {"max-message-rate": 10}))
    client = world.client()
    assert held_ms(world, client, count=2, size=2_050) == pytest.approx(4_000, abs=20)
    world.pass_ms(10_000)
    assert held_ms(world, client, count=21, size=1) == pytest.approx(2_000, abs=20)


def test_clients_of_a_user_share_its_allowance_and_others_have_their_own(world: World) -> None:
    world.submit(SetUserLimits("guest", {"max-message-rate": 10}))
    world.submit(PutUser(UserRecord("other", None)), PutPermission(PermissionRecord("other", "/", ".*", ".*", ".*")))
    first, second, other = world.client(), world.client(), world.client("other")
    assert publish(world, first, 11) is not None
    assert held_ms(world, second, 10) == pytest.approx(2_000, abs=20)
    assert publish(world, other, 1_000) is None


@pytest.mark.parametrize("limits", [{}, {"max-message-rate": 1_000_000}], ids=["lifted", "raised"])
def test_who_waits_goes_on_soon_when_the_limit_changes(world: World, limits: dict[str, int]) -> None:
    world.submit(SetVhostLimits("/", {"max-message-rate": 0}))
    client = world.client()
    held = publish(world, client)
    assert held is not None
    world.pass_ms(60_000)
    assert not held.answered, "nothing may come at all"
    world.submit(SetVhostLimits("/", limits))
    world.pass_ms(1_001)
    assert held.answered
    assert publish(world, client) is None
    assert world.broker.rates.holding == 0


def test_nothing_waits_for_a_channel_that_is_gone_or_a_user_that_was_deleted(world: World) -> None:
    world.submit(PutUser(UserRecord("other", None)), PutPermission(PermissionRecord("other", "/", ".*", ".*", ".*")))
    world.submit(SetVhostLimits("/", {"max-message-rate": 0}))
    client = world.client()
    publish(world, client)
    client.close()
    world.pass_ms(1_001)
    assert world.broker.rates.holding == 0
    world.submit(SetVhostLimits("/", {}), SetUserLimits("other", {"max-byte-rate": 1}))
    publish(world, world.client("other"), size=100)
    assert world.broker.rates.holding == 1
    world.submit(DeleteUser("other"))
    world.pass_ms(1_001)
    assert world.broker.rates.holding == 0
    assert not world.catalog.rate_limited


def test_a_transaction_is_charged_for_what_it_gathers(world: World) -> None:
    world.submit(SetVhostLimits("/", {"max-message-rate": 10}))
    client = world.client()
    client.session.select_transactions()
    assert publish(world, client, 2) is not None


@pytest.mark.parametrize("jump_ms", [-3_600_000, 3_600_000])
def test_what_is_owed_stays_the_same_when_the_clock_is_set(world: World, jump_ms: int) -> None:
    world.submit(SetVhostLimits("/", {"max-message-rate": 1_000}))
    client = world.client()
    publish(world, client, 1_100)
    world.now += jump_ms
    assert held_ms(world, client, 1_000) == pytest.approx(2_000, abs=20)


def test_messages_without_bodies_are_no_bytes(world: World) -> None:
    world.submit(SetVhostLimits("/", {"max-byte-rate": 0}))
    client = world.client()
    assert publish(world, client, size=0) is None
    assert publish(world, client) is not None


def test_a_rate_is_a_number(world: World) -> None:
    with pytest.raises(PreconditionFailed, match="limit 'max-byte-rate' is a number, not 'much'"):
        world.submit(SetUserLimits("guest", {"max-byte-rate": "much"}))  # type: ignore[dict-item]
