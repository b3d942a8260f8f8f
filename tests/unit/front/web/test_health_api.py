"""Health checks: what makes each of them fail, and what it says then."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from broker.catalog.commands import catalog_commands as commands
from broker.operations.node_facts import AlarmFacts, CertificateFacts, ListenerFacts
from broker.queues.queue_type import QueueStatistics
from front.web.http.request import HttpError
from tests.unit.front.web.test_api import HOME, NOW, World, broker_with_users, world

__all__ = ["world"]  # the fixture

DAY_MS = 86_400_000


class Cluster:
    """Two nodes; the other one has what the test gives it."""

    def __init__(self, *alarms: AlarmFacts, critical: tuple[str, ...] = ()) -> None:
        self._alarms, self._critical = alarms, critical

    def status(self) -> Any:
        return SimpleNamespace(nodes=[SimpleNamespace(name="n2", alarms=self._alarms)])

    def critical(self, name: str) -> tuple[str, tuple[str, ...]]:
        assert name == "", "of this node"
        return HOME, self._critical


def world_of(cluster: Cluster) -> World:
    found = World(broker_with_users(), cluster=cluster)
    found.broker.catalog.nodes |= {HOME: None, "n2": None}
    return found


def checked(world: World, check: str, user: str | None = "root") -> tuple[int, dict[str, Any]]:
    response = world.request("GET", f"/api/health/checks/{check}", user=user)
    return response.status, json.loads(response.body)


def test_an_alarm_of_any_node_is_one_of_the_cluster_and_not_of_this_node() -> None:
    world = world_of(Cluster(AlarmFacts("disk", "little is left", NOW)))
    assert checked(world, "alarms") == (
        503,
        {
            "status": "failed",
            "reason": "There are alarms in effect in the cluster",
            "alarms": [{"node": "n2", "resource": "disk space", "reason": "little is left"}],
        },
    )
    assert checked(world, "local-alarms") == (200, {"status": "ok"})


def test_an_alarm_of_this_node_fails_both_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of(Cluster())
    assert checked(world, "alarms")[0] == checked(world, "local-alarms")[0] == 200
    monkeypatch.setattr(world.node, "alarms", lambda: [AlarmFacts("memory", "full", NOW)])
    for check in ("alarms", "local-alarms"):
        status, said = checked(world, check)
        assert (status, said["alarms"]) == (503, [{"node": HOME, "resource": "memory", "reason": "full"}])


def test_a_node_without_which_something_has_no_majority_is_critical_and_says_for_what() -> None:
    assert checked(world_of(Cluster()), "node-is-quorum-critical") == (200, {"status": "ok"})
    status, said = checked(world_of(Cluster(critical=("queue 'a'", "metadata"))), "node-is-quorum-critical")
    assert (status, said["reason"]) == (503, "queue 'a'; metadata")


def test_a_node_alone_is_not_critical(world: World) -> None:
    assert checked(world, "node-is-quorum-critical")[0] == 200


@pytest.mark.parametrize("check", ["is-in-service", "ready-to-serve-clients"])
def test_a_node_that_takes_no_clients_is_not_in_service(world: World, check: str) -> None:
    broker: Any = world.broker
    broker.closed_because = ""
    assert checked(world, check, user=None)[0] == 200
    broker.closed_because = "it is drained"
    assert checked(world, check, user=None) == (503, {"status": "failed", "reason": "it is drained"})


@pytest.mark.parametrize(
    ("within", "status"),
    [("1/days", 200), ("10/days", 503), ("1/weeks", 200), ("2/weeks", 503), ("1/months", 503), ("1/years", 503)],
)
def test_a_certificate_that_ends_within_the_time_fails(
    world: World, monkeypatch: pytest.MonkeyPatch, within: str, status: int
) -> None:
    certificate = CertificateFacts("/cert.pem", NOW + 10 * DAY_MS)
    listeners = (ListenerFacts("amqps", "0.0.0.0:5671", tls=True), ListenerFacts("amqp", "0.0.0.0:5672"))
    facts = replace(world.node.facts(), listeners=listeners)
    monkeypatch.setattr(world.node, "certificate", lambda: certificate, raising=False)
    monkeypatch.setattr(world.node, "facts", lambda: facts)
    found, said = checked(world, f"certificate-expiration/{within}")
    assert found == status
    if status == 503:
        assert [one["port"] for one in said["expired"]] == [5671], "only what is within TLS has one"
        assert said["expired"][0]["certfile"] == "/cert.pem"


@pytest.mark.parametrize(("unit", "days"), [("days", 1), ("weeks", 7), ("months", 30), ("years", 365)])
def test_each_unit_of_time_has_so_many_days(
    world: World, monkeypatch: pytest.MonkeyPatch, unit: str, days: int
) -> None:
    for until, status in ((NOW + 2 * days * DAY_MS, 503), (NOW + 2 * days * DAY_MS + 1, 200)):
        certificate = CertificateFacts("c", until)
        monkeypatch.setattr(world.node, "certificate", lambda certificate=certificate: certificate, raising=False)
        assert checked(world, f"certificate-expiration/2/{unit}")[0] == status


@pytest.mark.parametrize("within", ["0/days", "x/days", "-1/days", "1/fortnights"])
def test_a_time_that_is_none_is_refused(world: World, within: str) -> None:
    assert world.refused("GET", f"/api/health/checks/certificate-expiration/{within}").status == 400


def test_a_listener_is_found_by_its_port_and_by_any_name_of_its_protocol(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = replace(
        world.node.facts(),
        listeners=(ListenerFacts("amqp", "0.0.0.0:5672"), ListenerFacts("amqps", "[::]:5671", tls=True)),
    )
    monkeypatch.setattr(world.node, "facts", lambda: facts)
    assert checked(world, "port-listener/5671") == (200, {"status": "ok", "port": 5671})
    status, said = checked(world, "port-listener/15672")
    assert (status, said["missing"], said["ports"]) == (503, 15672, [5671, 5672])
    for name in ("amqp", "amqp091", "AMQP10", "amqps", "amqp/ssl", "amqp,amqps"):
        assert checked(world, f"protocol-listener/{name.replace('/', '%2F')}")[0] == 200, name
    status, said = checked(world, "protocol-listener/amqp,http")
    assert (status, said["missing"], said["protocols"]) == (503, ["http"], ["amqp", "amqp/ssl"])


@pytest.mark.parametrize("port", ["0", "65536", "x", "-1"])
def test_a_port_that_is_none_is_refused(world: World, port: str) -> None:
    assert world.refused("GET", f"/api/health/checks/port-listener/{port}").status == 400


class Leaders:
    """Quorum queues in these states, and a classic one that is nobody's concern here."""

    def __init__(self, world: World, **states: str) -> None:
        self._world = world
        for name in states:
            world.broker.catalog.apply(commands.DeclareQueue("v", name, kind="quorum", home=HOME))
        find = world.broker.queue

        def queue(vhost: str, name: str) -> Any:
            found = find(vhost, name)
            found.statistics = lambda: QueueStatistics(state=states.get(name, "down"))
            return found

        world.broker.queue = queue  # type: ignore[method-assign]

    def missing(self, where: str) -> list[str]:
        path = f"quorum-queues-without-elected-leaders/{where}"
        status, said = checked(self._world, path)
        assert status == (503 if said.get("queues") else 200)
        return sorted(one["name"] for one in said.get("queues", ()))


def test_quorum_queues_without_a_leader_fail_by_vhost_and_pattern(world: World) -> None:
    leaders = Leaders(world, a1="minority", a2="running", b1="down")
    assert leaders.missing("all-vhosts") == leaders.missing("vhost/v") == ["a1", "b1"]
    assert leaders.missing("all-vhosts/pattern/%5Ea") == ["a1"]
    assert leaders.missing("vhost/v/pattern/2$") == leaders.missing("vhost/%2F") == []


def test_that_nobody_answers_is_said_where_a_leader_is_missing(world: World) -> None:
    Leaders(world, a1="down")

    async def look(records: Any) -> list[str]:
        return ["n2"] if [one.name for one in records] == ["a1"] else []

    world.api._ports.operations.resources.look_elsewhere = look
    status, said = checked(world, "quorum-queues-without-elected-leaders/all-vhosts")
    assert (status, said["unreachable_nodes"]) == (503, ["n2"])


def test_a_pattern_that_is_none_is_refused(world: World) -> None:
    path = "/api/health/checks/quorum-queues-without-elected-leaders/all-vhosts/pattern/%28"
    with pytest.raises(HttpError) as refused:
        world.request("GET", path)
    assert refused.value.status == 400
