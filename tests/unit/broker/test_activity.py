"""What a node remembers of what happened: bounded, numbered, and seen by those who may."""

from __future__ import annotations

import pytest

from broker.activity.node_events import BURST_MAX, BURST_MS, EVENTS_MAX, LEADER, NodeEvents
from broker.activity.ring import NumberedRing
from broker.catalog.commands import catalog_commands as commands
from broker.login.audit import LINES_KEPT, Audit
from broker.pending import ignore
from broker.records import (
    BindingRecord,
    ExchangeRecord,
    ParameterRecord,
    PermissionRecord,
    PolicyRecord,
    QueueRecord,
    TopicPermissionRecord,
    UserRecord,
    VhostRecord,
)
from tests.unit.broker.broker_world import World


def test_a_ring_keeps_the_last_and_tells_what_is_new() -> None:
    ring: NumberedRing[str] = NumberedRing(3, lambda: 0)
    for one in "abcde":
        ring.add(one)
    assert list(ring.after(0)) == [(5, "e"), (4, "d"), (3, "c")]
    assert list(ring.after(4)) == [(5, "e")]
    assert list(ring.after(5)) == []


def test_a_number_of_an_earlier_process_shows_all_again() -> None:
    ring: NumberedRing[str] = NumberedRing(3, lambda: 0)
    ring.add("first of this one")
    assert list(ring.after(70)) == [(1, "first of this one")]


def test_who_has_read_little_of_one_process_misses_nothing_of_the_next() -> None:
    """Both had begun at 1: what the next one had said up to the number that was known was never shown."""
    earlier: NumberedRing[str] = NumberedRing(3, lambda: 1_000)
    for one in "ab":
        earlier.add(one)
    known = next(earlier.after(0))[0]
    later: NumberedRing[str] = NumberedRing(3, lambda: 1_400)
    for one in "cde":
        later.add(one)
    assert [one for _, one in later.after(known)] == ["e", "d", "c"]


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


def told(world: World, *kinds: str) -> list[tuple[str, str, str]]:
    """Kind, name and detail, the oldest first."""
    events = reversed([one for _, one in world.broker.events.after(0)])
    return [(one.kind, one.name, one.detail) for one in events if one.kind.startswith(kinds)]


def test_exchanges_and_bindings_that_come_and_go_are_events_and_what_changes_nothing_is_none() -> None:
    world = World()
    client = world.client()
    for _ in range(2):
        client.declare("q")
        client.declare_exchange("x", "topic")
        client.bind("q", "x", "a.#")
    for _ in range(2):
        world.submit(commands.Unbind(BindingRecord("/", "x", "q", "queue", "a.#")))
    world.submit(commands.DeleteExchange("/", "x"))
    world.submit(commands.DeleteExchange("/", "x"))
    bound = "queue bound to exchange 'x' with key 'a.#'"
    assert told(world, "exchange.", "binding.") == [
        ("exchange.created", "x", ""),
        ("binding.created", "q", bound),
        ("binding.deleted", "q", bound),
        ("exchange.deleted", "x", ""),
    ]


def test_of_ten_thousand_bindings_declared_at_once_the_first_are_told_and_how_many_more_there_were() -> None:
    """They would push out all that happened before."""
    world = World()
    client = world.client()
    client.declare("q")
    for number in range(10_000):
        client.bind("q", "amq.topic", f"k{number}")
    assert len(told(world, "binding.")) == BURST_MAX
    assert told(world, "queue.") == [("queue.created", "q", "")]
    world.now += BURST_MS
    assert told(world, "binding.")[BURST_MAX:] == [("binding.created", "", f"and {10_000 - BURST_MAX} more")]
    client.bind("q", "amq.topic", "later")
    assert told(world, "binding.")[-1][1:] == ("q", "queue bound to exchange 'amq.topic' with key 'later'")


def test_a_burst_ends_though_the_clock_was_set_back() -> None:
    now = 1_000_000
    events = NodeEvents(lambda: now)
    record = QueueRecord("/", "q", "quorum", True, False, False, {}, 1, "n1")
    for _ in range(BURST_MAX + 1):
        events.leader(record)
    now -= 500_000
    events.leader(record)
    found = [(one.kind, one.name, one.detail, one.local) for _, one in events.after(0)]
    assert found[:2] == [(LEADER, "q", "", True), (LEADER, "", "and 1 more", True)] and len(found) == BURST_MAX + 2


@pytest.mark.parametrize(
    ("command", "kind", "name", "vhost"),
    [
        (commands.PutVhost(VhostRecord("v")), "vhost.set", "v", ""),
        (commands.DeleteVhost("v"), "vhost.deleted", "v", ""),
        (commands.SetVhostLimits("v", {}), "vhost.limits.set", "v", "v"),
        (commands.PutUser(UserRecord("u", None)), "user.set", "u", ""),
        (commands.DeleteUser("u"), "user.deleted", "u", ""),
        (commands.SetUserLimits("u", {}), "user.limits.set", "u", ""),
        (commands.PutPermission(PermissionRecord("u", "v", "", "", "")), "permission.set", "u", "v"),
        (commands.DeletePermission("u", "v"), "permission.cleared", "u", "v"),
        (commands.PutTopicPermission(TopicPermissionRecord("u", "v", "e", "", "")), "topic.permission.set", "u", "v"),
        (commands.DeleteTopicPermission("u", "v", None), "topic.permission.cleared", "u", "v"),
        (commands.PutPolicy(PolicyRecord("v", "p", "", "all", 0, {})), "policy.set", "p", "v"),
        (commands.DeletePolicy("v", "p"), "policy.cleared", "p", "v"),
        (commands.SetParameter(ParameterRecord("v", "shovel", "s", {})), "parameter.set", "s", "v"),
        (commands.ClearParameter("v", "shovel", "s"), "parameter.cleared", "s", "v"),
        (commands.DeclareExchange(ExchangeRecord("v", "e", "topic")), "exchange.created", "e", "v"),
        (commands.DeleteExchange("v", "e"), "exchange.deleted", "e", "v"),
        (commands.DeclareQueue("v", "q"), "queue.created", "q", "v"),
        (commands.DeleteQueue("v", "q"), "queue.deleted", "q", "v"),
        (commands.ConvertQueue("v", "q", 1, 2), "queue.converted", "q", "v"),
        (commands.RemoveNode("n2"), "node.removed", "n2", ""),
        (commands.NodeLost("n2", 1), "node.lost", "n2", ""),
    ],
)
def test_a_change_is_told_as_what_it_is_of_what_and_in_which_vhost(
    command: commands.Command, kind: str, name: str, vhost: str
) -> None:
    events = NodeEvents(lambda: 5)
    events.applied(command)
    ((_, told),) = events.after(0)
    assert (told.kind, told.name, told.vhost, told.at, told.local) == (kind, name, vhost, 5, False)
