"""Users, permissions, policies and definitions over the management API: what exactly a change changes, and who sees sums."""

from __future__ import annotations

import asyncio
import json

import pytest

from broker.catalog.commands import catalog_commands as commands
from broker.limits import Limits
from broker.node_queues import Totals
from broker.operations.operator import Operator
from broker.records import PolicyRecord, TopicPermissionRecord
from front.web.http.request import Request
from front.web.resources.nodes.metrics_api import FAMILIES_MAX
from tests.unit.front.web.test_api import HOME, LOCAL, NOW, TAGS, World, world

__all__ = ["world"]  # the fixture


@pytest.mark.parametrize("password_hash", ["", "aGFzaA=="])
def test_a_user_with_a_password_and_a_hash_is_refused(world: World, password_hash: str) -> None:
    body = {"tags": "", "password": "new", "password_hash": password_hash}
    assert world.refused("PUT", "/api/users/app", body).status == 400
    assert world.broker.catalog.users["app"].password_hash == "secret hash"


def test_many_users_are_deleted_and_an_unknown_one_is_passed_over(world: World) -> None:
    body = {"users": ["app", "nobody", "user-", "app"]}
    assert world.request("POST", "/api/users/bulk-delete", body).status == 204
    assert world.broker.catalog.users.keys().isdisjoint({"app", "user-"})
    assert "root" in world.broker.catalog.users


def test_users_without_permissions_are_those_that_have_none_anywhere(world: World) -> None:
    assert [one["name"] for one in world.get("/api/users/without-permissions")] == ["root"]


@pytest.mark.parametrize("access", ["configure", "write", "read"])
def test_what_a_user_may_do_with_a_name_is_told_of_each_kind_of_access(world: World, access: str) -> None:
    found = world.get(f"/api/leveret/users/app/access?vhost=v&name={access[0]}1")
    assert {name for name in ("enter", "configure", "write", "read") if found[name]} == {"enter", access}
    assert world.get("/api/leveret/users/app/access?vhost=%2F&name=c1")["enter"] is False


def test_logins_that_failed_are_told_beside_those_that_did_not(world: World) -> None:
    world.broker.audit.logins.update({("AMQP 0-9-1", True): 5, ("AMQP 0-9-1", False): 2})
    (found,) = [one for one in world.get(f"/api/auth/attempts/{HOME}") if one["protocol"] == "amqp091"]
    counts = {"auth_attempts": 7, "auth_attempts_failed": 2, "auth_attempts_succeeded": 5}
    assert found == {"protocol": "amqp091", **counts}


# Topic permissions: one for each exchange.


def test_a_topic_permission_is_that_of_its_exchange(world: World) -> None:
    path, rights = "/api/topic-permissions/v/app", {"write": "^a", "read": "^b"}
    found = [world.request("PUT", path, {"exchange": one, **rights}).status for one in ("amq.topic", "t", "t")]
    assert found == [201, 201, 204]
    assert [one["exchange"] for one in world.get(f"{path}/t")] == ["t"]
    assert world.request("DELETE", f"{path}/t").status == 204
    assert world.refused("DELETE", f"{path}/t").status == 404
    assert world.get(path) == [{"user": "app", "vhost": "v", "exchange": "amq.topic", **rights}]
    world.broker.catalog.apply(commands.PutTopicPermission(TopicPermissionRecord("app", "v", "t", "", "")))
    assert world.request("DELETE", path).status == 204
    assert world.get("/api/topic-permissions") == []


# Policies.


def test_a_policy_was_there_only_if_one_of_its_name_and_kind_was(world: World) -> None:
    body = {"pattern": "^a", "definition": {"max-length": 1}}
    paths = ("policies/v/a", "policies/v/b", "operator-policies/v/a", "policies/v/a")
    assert [world.request("PUT", f"/api/{path}", body).status for path in paths] == [201, 201, 201, 204]


@pytest.mark.parametrize("kind", ["policies", "operator-policies"])
def test_a_policy_with_a_number_of_more_than_63_bits_is_listed(world: World, kind: str) -> None:
    """Which JSON has for a timestamp: the list of all policies was a 500 (found with mutated requests)."""
    body = {"pattern": "^a", "definition": {"max-length": 1 << 63}}
    assert world.request("PUT", f"/api/{kind}/v/a", body).status == 201
    assert [one["definition"] for one in world.get(f"/api/{kind}")] == [{"max-length": 1 << 63}]


def test_an_operator_policy_is_sent_as_json(world: World) -> None:
    """As RabbitMQ has it: a body of another type is refused, of a policy it is not."""
    body = {"pattern": "^a", "definition": {"max-length": 1}}
    for path, status in (("policies", 201), ("operator-policies", 415)):
        assert world.status("PUT", f"/api/{path}/v/a", body, authorization=ROOT, content_type="text/plain") == status


ROOT = "Basic cm9vdDpwdw=="


def test_an_operator_policy_is_no_policymakers(world: World) -> None:
    apply = world.broker.catalog.apply
    apply(commands.PutPolicy(PolicyRecord("v", "p", "^a", "all", 0, {"max-length": 1}, operator=True)))
    assert world.refused("DELETE", "/api/operator-policies/v/p", user="user-policymaker").status == 401
    assert world.refused("DELETE", "/api/policies/v/p", user="user-policymaker").status == 404
    assert world.get("/api/operator-policies/v/p")["name"] == "p"


def test_a_policy_is_for_everything_and_of_no_priority_unless_it_says_so(world: World) -> None:
    body = {"pattern": "^a", "definition": {"max-length": 1}}
    world.request("PUT", "/api/policies/v/a", body)
    world.request("PUT", "/api/policies/v/b", {**body, "apply-to": "exchanges", "priority": 7})
    found = [(one["name"], one["apply-to"], one["priority"]) for one in world.get("/api/policies/v")]
    assert found == [("a", "all", 0), ("b", "exchanges", 7)]


# Sums, and what is full.


def test_who_does_not_monitor_is_shown_the_messages_of_their_own_vhosts(world: World) -> None:
    world.broker.catalog.apply(commands.DeclareQueue("/", "far", home=HOME))
    found = {tag: world.get("/api/overview", f"user-{tag}")["queue_totals"]["messages"] for tag in TAGS[1:]}
    assert found == {"management": 3, "policymaker": 3, "monitoring": 6, "administrator": 6}


@pytest.mark.parametrize(("opened", "status"), [(4, 200), (5, 503)])
def test_a_node_with_as_many_connections_as_it_may_have_takes_no_more(world: World, opened: int, status: int) -> None:
    world.broker.limits = Limits(connections=3)
    world.broker.totals = Totals(connections_opened=opened, connections_closed=2)
    path = "/api/health/checks/below-node-connection-limit"
    assert asyncio.run(world.api.answer(Request("GET", path, {}, b"", LOCAL, NOW))).status == status


# Definitions, vhosts, metrics.


def test_the_definitions_of_one_vhost_say_what_it_is_and_may_have(world: World) -> None:
    assert world.request("PUT", "/api/vhost-limits/v/max-queues", {"value": 9}).status == 204
    found = world.get("/api/definitions/v")
    assert (found["original_vhost_name"], found["description"], found["limits"]) == (
        "v",
        "for tests",
        {"max-queues": 9},
    )
    assert found["metadata"]["tags"] == ["a", "b"]
    assert found["rabbitmq_definition_format"] == "single_virtual_host"


def test_a_vhost_stays_traced_unless_the_change_says_otherwise(world: World) -> None:
    for body, traced in (({"tracing": True}, True), ({"description": "new"}, True), ({"tracing": False}, False)):
        assert world.request("PUT", "/api/vhosts/v", body).status == 204
        assert world.get("/api/vhosts/v")["tracing"] is traced


def test_limits_are_listed_where_there_are_some(world: World) -> None:
    for what, one in (("vhost", "v"), ("user", "app")):
        assert world.get(f"/api/{what}-limits") == world.get(f"/api/{what}-limits/{one}") == []
        assert world.request("PUT", f"/api/{what}-limits/{one}/max-connections", {"value": 5}).status == 204
        limited = [{what: one, "value": {"max-connections": 5}}]
        assert world.get(f"/api/{what}-limits") == world.get(f"/api/{what}-limits/{one}") == limited
        assert world.request("DELETE", f"/api/{what}-limits/{one}/max-connections").status == 204
        assert world.get(f"/api/{what}-limits") == []


def test_definitions_are_sent_again_unless_the_caller_has_these(world: World) -> None:
    tag = dict(world.request("GET", "/api/definitions").headers)["ETag"]
    assert world.request("GET", "/api/definitions", if_none_match=tag).status == 304
    world.broker.catalog.apply(commands.PutVhost(commands.VhostRecord("new")))
    assert world.request("GET", "/api/definitions", if_none_match=tag).status == 200


@pytest.mark.parametrize("tag", TAGS[1:])
def test_another_node_is_told_of_vhosts_that_its_caller_may_see(world: World, tag: str) -> None:
    question = {"what": "vhosts", "user": f"user-{tag}", "tags": [tag], "arguments": [["/", "v", "none"]]}

    async def told() -> list[str]:
        raw = json.dumps(question).encode()
        return [json.loads(row)["vhost"] async for row in world.api.everywhere.answer(raw)]

    sees_all = Operator("", (tag,)).has_tag("monitoring")
    assert asyncio.run(told()) == (["/", "v"] if sees_all else ["v"])


def test_only_so_many_families_of_metrics_are_told_at_once(world: World) -> None:
    path = "/metrics/detailed?" + "&".join(f"family=f{number}" for number in range(FAMILIES_MAX + 1))
    assert len(world.request("GET", path, user=None).pieces) == FAMILIES_MAX
