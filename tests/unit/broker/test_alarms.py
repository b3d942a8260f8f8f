"""Alarms: who is told, when, and once."""

from __future__ import annotations

import pytest

from broker.alarms import Alarms, ResourceAlarm
from tests.unit.broker.broker_world import NOW, Client, World


def test_the_reason_is_that_of_the_oldest_alarm_that_is_left() -> None:
    cleared: list[str] = []
    alarms = Alarms(lambda: cleared.append("cleared"))
    alarms.raise_alarm("memory", "low on memory", 1)
    alarms.raise_alarm("disk", "low on disk", 2)
    alarms.raise_alarm("memory", "lower on memory", 3)
    assert alarms.raised() == [ResourceAlarm("memory", "low on memory", 1), ResourceAlarm("disk", "low on disk", 2)]
    assert (alarms.reason_of("memory"), alarms.reason_of("disk")) == ("low on memory", "low on disk")
    reasons = [alarms.blocked_reason]
    alarms.clear_alarm("memory")
    reasons.append(alarms.blocked_reason)
    assert cleared == ["cleared"]
    alarms.clear_alarm("disk")
    alarms.clear_alarm("disk")
    reasons.append(alarms.blocked_reason)
    assert (alarms.reason_of("memory"), alarms.reason_of("disk")) == (None, None)
    assert reasons == ["low on memory", "low on disk", None]
    assert (alarms.raised(), cleared) == ([], ["cleared"] * 2)


@pytest.fixture
def client() -> Client:
    client = World().client()
    client.declare("q")
    return client


def test_a_connection_is_told_when_it_publishes_during_an_alarm_and_once(client: Client) -> None:
    world, name = client.world, client.connection.name
    world.broker.alarms.raise_alarm("memory", "low on memory", NOW)
    assert world.blocked == []
    client.publish("", "q", b"a")
    client.publish("", "q", b"b")
    world.broker.alarms.raise_alarm("disk", "low on disk", NOW)
    client.publish("", "q", b"c")
    world.broker.alarms.clear_alarm("memory")
    assert world.blocked == [(name, "low on memory")]
    world.broker.alarms.clear_alarm("disk")
    assert world.blocked == [(name, "low on memory"), (name, None)]
    assert world.ready("q") == 3  # what has arrived is taken all the same


def test_who_published_before_the_alarm_and_only_consumes_now_is_left_alone(client: Client) -> None:
    client.publish("", "q", b"a")
    client.consume("q")
    client.world.broker.alarms.raise_alarm("memory", "low on memory", NOW)
    client.ack(1)
    assert (client.bodies, client.world.blocked) == ([b"a"], [])
    assert client.connection.publishes


def test_a_new_alarm_holds_a_publisher_again(client: Client) -> None:
    alarms = client.world.broker.alarms
    for reason in ("low on memory", "low on disk"):
        alarms.raise_alarm("any", reason, NOW)
        client.publish("", "q", b"a")
        alarms.clear_alarm("any")
    assert [reason for _, reason in client.world.blocked] == ["low on memory", None, "low on disk", None]


def test_a_blocked_connection_that_closes_is_forgotten(client: Client) -> None:
    alarms = client.world.broker.alarms
    alarms.raise_alarm("memory", "low on memory", NOW)
    client.publish("", "q", b"a")
    client.world.disconnect(client)
    alarms.clear_alarm("memory")
    assert [reason for _, reason in client.world.blocked] == ["low on memory"]
