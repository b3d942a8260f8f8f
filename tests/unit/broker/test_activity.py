"""What a node remembers of what happened: bounded, numbered, and seen by those who may."""

from __future__ import annotations

from broker.activity.node_events import EVENTS_MAX
from broker.activity.ring import NumberedRing
from broker.login.audit import LINES_KEPT, Audit
from broker.pending import ignore
from tests.unit.broker.broker_world import World


def test_a_ring_keeps_the_last_and_tells_what_is_new() -> None:
    ring: NumberedRing[str] = NumberedRing(3)
    for one in "abcde":
        ring.add(one)
    assert list(ring.after(0)) == [(5, "e"), (4, "d"), (3, "c")]
    assert list(ring.after(4)) == [(5, "e")]
    assert list(ring.after(5)) == []


def test_a_number_of_an_earlier_process_shows_all_again() -> None:
    ring: NumberedRing[str] = NumberedRing(3)
    ring.add("first of this one")
    assert list(ring.after(70)) == [(1, "first of this one")]


def test_events_of_clients_and_queues_come_with_the_time_and_are_bounded() -> None:
    world = World()
    client = world.client()
    client.declare("q")
    client.declare("q")
    kinds = [one.kind for _, one in world.broker.events.after(0)]
    assert kinds.count("queue.created") == 1 and "connection.created" in kinds
    for _ in range(EVENTS_MAX):
        client.delete("q")
        client.declare("q")
    assert len(list(world.broker.events.after(0))) == EVENTS_MAX
    number, newest = next(world.broker.events.after(0))
    assert (newest.kind, newest.name, newest.vhost, newest.at) == ("queue.created", "q", "/", world.now)
    assert number > EVENTS_MAX


def test_an_alarm_is_an_event_when_it_comes_and_when_it_goes() -> None:
    world = World()
    world.broker.alarms.raise_alarm("memory", "low on memory", world.now)
    world.broker.alarms.clear_alarm("memory")
    (_, over), (_, raised) = list(world.broker.events.after(0))[:2]
    assert (raised.kind, raised.name, raised.detail) == ("alarm.set", "memory", "low on memory")
    assert (over.kind, over.name) == ("alarm.cleared", "memory")


def test_the_last_changes_are_kept_for_those_who_look_on() -> None:
    audit = Audit(ignore, ignore)
    for number in range(LINES_KEPT + 5):
        audit.changed("Redrive", f"redrive {number}")
    lines = list(audit.lines.after(0))
    assert len(lines) == LINES_KEPT
    assert (lines[0][1].what, lines[0][1].outcome) == (f"redrive {LINES_KEPT + 4}", "done")
