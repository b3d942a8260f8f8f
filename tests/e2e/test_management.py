"""The management API on a real node: what its paths make, AMQP clients find, and what cannot be is no fault of the node."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pika
import pytest

from tests.e2e.test_http import ask
from tests.running_node import RunningNode

VHOST = "management"
V = f"/{VHOST}"
SAMPLED_WITHIN_S = 40.0  # three samples, which are five seconds apart
REQUIRED = {
    "/api/overview": {
        "rabbitmq_version", "management_version", "cluster_name", "node", "message_stats", "queue_totals", "object_totals",
        "churn_rates", "listeners", "contexts", "exchange_types", "sample_retention_policies",
    },
    "/api/cluster-name": {"name"},
}  # fmt: skip
NODE_FIELDS = {
    "name": str, "uptime": int, "run_queue": int, "processors": int, "os_pid": str, "fd_total": int, "proc_total": int,
    "mem_limit": int, "mem_alarm": bool, "disk_free_limit": int, "disk_free_alarm": bool, "rates_mode": str,
    "enabled_plugins": list, "being_drained": bool, "type": str, "running": bool, "partitions": list,
}  # fmt: skip


@pytest.fixture
def vhost(node: RunningNode) -> Iterator[str]:
    assert ask(node, "PUT", f"/api/vhosts/{VHOST}")[0] == 201
    yield VHOST
    assert ask(node, "DELETE", f"/api/vhosts/{VHOST}")[0] == 204


def get(node: RunningNode, path: str) -> Any:
    status, raw = ask(node, "GET", path)
    assert status == 200, (path, status, raw)
    return json.loads(raw)


def done(node: RunningNode, method: str, path: str, body: Any = None, *, status: int) -> None:
    found = ask(node, method, path, body)
    assert found[0] == status, (method, path, found)


def channel(node: RunningNode) -> pika.adapters.blocking_connection.BlockingChannel:
    parameters = pika.ConnectionParameters(*node.amqp, VHOST, client_properties={"connection_name": "a tool"})
    return pika.BlockingConnection(parameters).channel()


def test_the_node_is_shown_with_all_that_strict_tools_want(node: RunningNode) -> None:
    for path, fields in REQUIRED.items():
        assert get(node, path).keys() >= fields, path
    overview = get(node, "/api/overview")
    (shown,) = get(node, "/api/nodes")
    assert get(node, f"/api/nodes/{shown['name']}")["name"] == shown["name"] == overview["node"]
    assert {name: type(shown[name]) for name in NODE_FIELDS} == NODE_FIELDS
    memory = get(node, f"/api/nodes/{shown['name']}/memory")["memory"]
    assert sum(value for value in memory.values() if isinstance(value, int)) == memory["total"]["rss"]
    assert ask(node, "GET", "/api/nodes/none")[0] == 404
    assert ask(node, "GET", "/api/version", login=None)[0] == 200


def test_what_is_declared_over_http_is_used_over_amqp(node: RunningNode, vhost: str) -> None:
    done(node, "PUT", f"/api/queues{V}/q", {"durable": True, "arguments": {"x-max-length": 9}}, status=201)
    done(node, "PUT", f"/api/queues{V}/q", {"durable": True, "arguments": {"x-max-length": 9}}, status=204)
    done(node, "PUT", f"/api/queues{V}/q", {"durable": False}, status=400)
    done(node, "PUT", f"/api/queues{V}/q", {"durable": True, "node": "none"}, status=400)
    done(node, "PUT", f"/api/exchanges{V}/x", {"type": "topic"}, status=201)
    done(node, "POST", f"/api/bindings{V}/e/x/q/q", {"routing_key": "a.#", "arguments": {"n": 1}}, status=201)
    open_channel = channel(node)
    open_channel.basic_publish("x", "a.b", b"from amqp")
    queue = get(node, f"/api/queues{V}/q")
    assert (queue["messages"], queue["type"], queue["policy"], queue["state"]) == (1, "classic", None, "running")
    (bound,) = [one for one in get(node, f"/api/queues{V}/q/bindings") if one["source"] == "x"]
    path = f"/api/bindings{V}/e/x/q/q/{bound['properties_key'].replace('%', '%25')}"
    assert get(node, path) == bound
    assert get(node, f"/api/exchanges{V}/x/bindings/source") == [bound]
    done(node, "DELETE", path, status=204)
    done(node, "DELETE", path, status=404)
    done(node, "DELETE", f"/api/queues{V}/q/contents", status=204)
    assert open_channel.basic_get("q")[0] is None
    done(node, "DELETE", f"/api/queues{V}/q", status=204)
    done(node, "DELETE", f"/api/exchanges{V}/x", status=204)


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_messages_are_published_and_got(node: RunningNode, vhost: str, kind: str) -> None:
    done(node, "PUT", f"/api/queues{V}/q", {"durable": True, "arguments": {"x-queue-type": kind}}, status=201)
    properties = {"delivery_mode": 2, "content_type": "text/plain", "headers": {"h": [1, "two"]}, "priority": 3}
    message = {"routing_key": "q", "properties": properties, "payload": "hello", "payload_encoding": "string"}
    for exchange in ("amq.default", ""):
        assert get_after(node, f"/api/exchanges{V}/{exchange}/publish", message) == {"routed": True}
    assert get_after(node, f"/api/exchanges{V}/amq.default/publish", {**message, "routing_key": "no"}) == {
        "routed": False
    }
    wanted = {"count": 9, "ackmode": "ack_requeue_true", "encoding": "auto", "truncate": 3}
    first, second = get_after(node, f"/api/queues{V}/q/get", wanted)
    assert (first["payload"], first["payload_bytes"], first["message_count"]) == ("hel", 5, 1)
    assert {name: first["properties"][name] for name in ("content_type", "delivery_mode", "priority")} == {
        "content_type": "text/plain", "delivery_mode": 2, "priority": 3,
    }  # fmt: skip
    assert first["properties"]["headers"]["h"] == [1, "two"]
    assert not first["redelivered"] and not second["redelivered"], "all were got before any was given back"
    taken = get_after(node, f"/api/queues{V}/q/get", {"count": 1, "ackmode": "ack_requeue_false", "encoding": "base64"})
    assert (taken[0]["payload"], taken[0]["payload_encoding"], taken[0]["redelivered"]) == ("aGVsbG8=", "base64", True)
    dropped = {"count": 1, "ackmode": "reject_requeue_false", "encoding": "auto"}
    assert len(get_after(node, f"/api/queues{V}/q/get", dropped)) == 1
    assert get_after(node, f"/api/queues{V}/q/get", dropped) == []
    status, figures = ask(node, "GET", "/metrics", login=None)
    assert status == 200 and b'messages_received_total{protocol="http"}' in figures, "sessions over HTTP are counted"


def get_after(node: RunningNode, path: str, body: dict[str, Any]) -> Any:
    status, raw = ask(node, "POST", path, body)
    assert status == 200, (status, raw)
    return json.loads(raw)


def test_clients_are_shown_from_connection_to_consumer_and_closed(node: RunningNode, vhost: str) -> None:
    open_channel = channel(node)
    open_channel.queue_declare("q")
    open_channel.basic_qos(prefetch_count=7)
    open_channel.basic_consume("q", lambda *_: None, consumer_tag="tag")
    (connection,) = get(node, f"/api/vhosts{V}/connections")
    (shown,) = get(node, f"/api/vhosts{V}/channels")
    (consumer,) = get(node, f"/api/consumers{V}")
    name = connection["name"]
    assert (connection["state"], connection["channels"], connection["user_provided_name"]) == ("running", 1, "a tool")
    assert (shown["name"], shown["connection_details"]["name"], shown["number"]) == (f"{name} (1)", name, 1)
    assert (consumer["consumer_tag"], consumer["prefetch_count"], consumer["queue"]) == (
        "tag",
        7,
        {"name": "q", "vhost": VHOST},
    )
    assert consumer["channel_details"]["connection_name"] == name
    quoted = name.replace(" ", "%20").replace(">", "%3E")
    assert [one["name"] for one in get(node, f"/api/connections/{quoted}/channels")] == [f"{name} (1)"]
    (of_channel,) = get(node, f"/api/channels/{quoted}%20(1)")["consumer_details"]
    assert of_channel == consumer == get(node, f"/api/queues{V}/q")["consumer_details"][0]
    done(node, "DELETE", f"/api/connections/{quoted}", status=204)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        open_channel.connection.process_data_events(10)
    assert closed.value.reply_code == 320


def test_consumers_are_shown_with_the_time_that_they_have_to_settle(node: RunningNode, vhost: str) -> None:
    """Strict tools drop the whole list where one has none."""
    open_channel = channel(node)
    open_channel.queue_declare("classic")
    open_channel.queue_declare("quorum", durable=True, arguments={"x-queue-type": "quorum"})
    own = {"x-consumer-timeout": 90_000}
    open_channel.basic_consume("classic", lambda *_: None, consumer_tag="classic")
    open_channel.basic_consume("quorum", lambda *_: None, consumer_tag="of its queue")
    open_channel.basic_consume("quorum", lambda *_: None, consumer_tag="its own", arguments=own)

    def timeouts() -> dict[str, int]:
        return {one["consumer_tag"]: one["consumer_timeout"] for one in get(node, f"/api/consumers{V}")}

    assert timeouts() == {"classic": 0, "of its queue": 1_800_000, "its own": 90_000}
    policy = {"pattern": "^quorum$", "definition": {"consumer-timeout": 120_000}}
    done(node, "PUT", f"/api/policies{V}/p", policy, status=201)
    assert timeouts() == {"classic": 0, "of its queue": 120_000, "its own": 90_000}
    open_channel.connection.close()


def test_what_there_is_of_a_connection_a_node_and_a_user_that_rabbitmq_has_paths_for(
    node: RunningNode, vhost: str
) -> None:
    open_channel = channel(node)
    (connection,) = get(node, f"/api/vhosts{V}/connections")
    done(node, "GET", f"/api/connections/{quote(connection['name'])}/sessions", status=400)
    done(node, "GET", "/api/connections/nothing/sessions", status=404)
    open_channel.connection.close()
    (shown,) = get(node, "/api/nodes")
    overview = get(node, "/api/overview")
    for name in ("rabbitmq_version", "erlang_version", "erlang_full_version", "contexts"):
        assert shown[name] == overview[name] != ""
    shares = get(node, f"/api/nodes/{shown['name']}/memory/relative")["memory"]
    assert shares.pop("total") == sum(shares.values()) == 100
    assert get(node, f"/api/auth/attempts/{shown['name']}/source") == []
    done(node, "PUT", "/api/user-limits/nobody/max-channels", {"value": 1}, status=400)


def test_bindings_come_by_their_destinations_whatever_these_are(node: RunningNode, vhost: str) -> None:
    done(node, "PUT", f"/api/exchanges{V}/source", {}, status=201)
    done(node, "PUT", f"/api/exchanges{V}/b", {}, status=201)
    for queue in ("a", "c"):
        done(node, "PUT", f"/api/queues{V}/{queue}", {}, status=201)
        done(node, "POST", f"/api/bindings{V}/e/source/q/{queue}", {}, status=201)
    done(node, "POST", f"/api/bindings{V}/e/source/e/b", {}, status=201)
    found = [one["destination"] for one in get(node, f"/api/bindings{V}") if one["source"] == "source"]
    assert found == ["a", "b", "c"]


def test_policies_parameters_and_limits_from_put_to_delete(node: RunningNode, vhost: str) -> None:
    policy = {"pattern": "^q", "definition": {"max-length": 5}, "priority": 2, "apply-to": "queues"}
    done(node, "PUT", f"/api/queues{V}/q", {"durable": True}, status=201)
    for path in ("policies", "operator-policies"):
        done(node, "PUT", f"/api/{path}{V}/p", policy, status=201)
        done(node, "PUT", f"/api/{path}{V}/p", policy, status=204)
        assert get(node, f"/api/{path}{V}/p") == {"vhost": VHOST, "name": "p", **policy}
        assert get(node, f"/api/{path}{V}") == [get(node, f"/api/{path}{V}/p")]
    queue = get(node, f"/api/queues{V}/q")
    assert (queue["policy"], queue["operator_policy"]) == ("p", "p")
    assert queue["effective_policy_definition"] == {"max-length": 5}
    for path in ("policies", "operator-policies"):
        done(node, "DELETE", f"/api/{path}{V}/p", status=204)
        done(node, "DELETE", f"/api/{path}{V}/p", status=404)
    upstream = f"/api/parameters/federation-upstream{V}/up"
    done(node, "PUT", upstream, {"value": {"uri": "amqp://127.0.0.1"}}, status=201)
    done(node, "PUT", upstream.replace("federation-upstream", "policy"), {"value": {}}, status=400)
    assert get(node, upstream)["value"] == {"uri": "amqp://127.0.0.1"}
    done(node, "DELETE", upstream, status=204)
    done(node, "PUT", f"/api/vhost-limits{V}/max-queues", {"value": 1}, status=204)
    assert get(node, f"/api/vhost-limits{V}") == [{"vhost": VHOST, "value": {"max-queues": 1}}]
    done(node, "PUT", f"/api/queues{V}/one-too-many", {}, status=400)
    done(node, "DELETE", f"/api/vhost-limits{V}/max-queues", status=204)
    assert get(node, f"/api/vhost-limits{V}") == []


@pytest.mark.parametrize(
    "check",
    [
        "alarms", "local-alarms", "virtual-hosts", "node-is-quorum-critical", "ready-to-serve-clients", "is-in-service",
        "alive", "below-node-connection-limit", "reached-target-cluster-size", "metadata-store/initialized",
        "protocol-listener/amqp,http",
        "metadata-store/initialized/with-data", "quorum-queues-without-elected-leaders/all-vhosts/",
        "quorum-queues-without-elected-leaders/vhost/%2F/pattern/.*",
    ],
)  # fmt: skip
def test_a_node_that_is_well_passes_its_checks(node: RunningNode, check: str) -> None:
    assert get(node, f"/api/health/checks/{check}")["status"] == "ok"


def test_a_listener_that_is_not_there_fails_its_check(node: RunningNode) -> None:
    port = node.amqp[1]
    assert get(node, f"/api/health/checks/port-listener/{port}") == {"status": "ok", "port": port}
    status, raw = ask(node, "GET", "/api/health/checks/port-listener/1")
    assert (status, json.loads(raw)["missing"]) == (503, 1)
    status, raw = ask(node, "GET", "/api/health/checks/protocol-listener/mqtt")
    assert (status, json.loads(raw)["missing"]) == (503, ["mqtt"])


LONG_NUMBER = "000001" + "9" * 5_000
ODD_NAMES = (
    "%00",
    "%FF",
    "%2F%2F",
    "..",
    "a" * 300,
    "%F0%9F%90%87",
    "'\"<script>",
    "%25",
    "%",
    "a%0Ab",
    "amq.x",
    "000001" + "9" * 5_000,
)
ODD_BODIES = (
    b"", b"null", b"[]", b"5", b'"x"', b"{", b"\xff", b"[" * 100_000, b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    b'{"arguments":5,"durable":[],"type":{}}', b'{"arguments":{"x-max-length":1e400}}', b'{"value":NaN}',
    b'{"tags":{},"password":5}', b'{"arguments":{"' + b"k" * 300 + b'":1}}', b'{"routing_key":"' + b"r" * 300 + b'"}',
    b'{"arguments":{"n":123456789012345678901234567890}}', b'{"priority":99999999999,"pattern":"a","definition":{"x":1}}',
    b'{"count":1e99,"ackmode":"ack_requeue_true","encoding":"auto"}', b'{"routing_key":"\\ud800","arguments":{}}',
    b'{"properties":{"headers":{"d":' + b"[" * 200 + b"]" * 200 + b'}},"routing_key":"q","payload":"",'
    b'"payload_encoding":"string"}',
)  # fmt: skip
ODD_PATHS = (
    "queues{v}/{n}", "exchanges{v}/{n}", "bindings{v}/e/{n}/q/{n}", "bindings{v}/e/{n}/{n}/{n}/{n}", "policies{v}/{n}",
    "users/{n}", "vhosts/{n}", "permissions{v}/{n}", "parameters/shovel{v}/{n}", "global-parameters/{n}", "queues{v}/{n}/get",
    "exchanges{v}/{n}/publish", "vhost-limits{v}/{n}", "user-limits/guest/{n}", "connections/{n}", "channels/{n}", "nodes/{n}",
    "queues/quorum{v}/{n}/replicas/add", "health/checks/port-listener/{n}", "topic-permissions{v}/{n}",
    "queues?page={n}&sort={n}",
)  # fmt: skip


@pytest.mark.parametrize("path", ODD_PATHS)
def test_nothing_that_is_asked_is_a_fault_of_the_node(node: RunningNode, vhost: str, path: str) -> None:
    """Odd names and odd bodies, with every method: each is answered, and never with 500."""
    for name in ODD_NAMES:
        target = "/api/" + path.replace("{v}", V).replace("{n}", name.replace(" ", "%20"))
        for method in ("GET", "PUT", "POST", "DELETE"):
            bodies = ODD_BODIES if name == "%F0%9F%90%87" and method != "GET" else (b"",)
            for body in bodies:
                assert ask_raw(node, method, target, body) < 500, (method, target, body[:50])


def ask_raw(node: RunningNode, method: str, target: str, body: bytes) -> int:
    status, _ = ask(node, method, target, raw=body)
    return status


def test_what_is_counted_is_sampled_and_shown_with_rates_and_charts(node: RunningNode, vhost: str) -> None:
    connection = pika.BlockingConnection(pika.ConnectionParameters(*node.amqp, virtual_host=vhost, heartbeat=0))
    channel = connection.channel()
    channel.queue_declare("sampled", durable=True)
    queue, chart = f"/api/queues/{VHOST}/sampled", "lengths_age=600&lengths_incr=5&msg_rates_age=600&msg_rates_incr=5"

    def publish_until(is_shown: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SAMPLED_WITHIN_S
        while not is_shown():
            assert time.monotonic() < deadline, "it is not sampled"
            channel.basic_publish("", "sampled", b"one")

    def has_rate() -> bool:
        stats = get(node, queue).get("message_stats", {})
        return bool(stats) and stats["publish_details"]["rate"] > 0

    def has_chart() -> bool:
        found = get(node, f"{queue}?{chart}")
        return (
            len(found["messages_details"]["samples"]) > 1 and found["message_stats"]["publish_details"]["avg_rate"] > 0
        )

    publish_until(has_rate)
    publish_until(has_chart)
    samples = get(node, f"{queue}?{chart}")["messages_details"]["samples"]
    assert [one["timestamp"] for one in samples] == sorted((one["timestamp"] for one in samples), reverse=True)
    overview = get(node, f"/api/overview?{chart}")
    assert overview["message_stats"]["publish_details"]["rate"] > 0
    assert (
        overview["queue_totals"]["messages_details"]["samples"]
        and overview["churn_rates"]["queue_created_details"]["samples"]
    )
    of_vhost = get(node, f"/api/vhosts/{VHOST}?{chart}")
    assert of_vhost["messages"] == of_vhost["messages_ready"] > 0 and of_vhost["recv_oct"] > 0
    assert of_vhost["message_stats"]["publish_details"]["rate"] > 0
    assert get(node, "/api/connections")[0]["recv_oct_details"]["rate"] > 0
    name = quote(get(node, "/api/channels")[0]["name"], safe="")
    assert get(node, f"/api/channels/{name}")["message_stats"]["publish_details"]["rate"] > 0
    (shown,) = get(node, "/api/nodes?node_stats_age=60&node_stats_incr=5")
    assert shown["mem_used_details"]["samples"][0]["sample"] > 0
    assert ask(node, "GET", f"{queue}?lengths_age=600&lengths_incr=1")[0] == 400
    connection.close()


def test_what_goes_through_an_exchange_is_shown_with_where_it_came_from_and_went(node: RunningNode, vhost: str) -> None:
    connection = pika.BlockingConnection(pika.ConnectionParameters(*node.amqp, virtual_host=vhost, heartbeat=0))
    channel = connection.channel()
    channel.exchange_declare("fan", "fanout")
    for queue in ("one", "two"):
        channel.queue_declare(queue, durable=True)
        channel.queue_bind(queue, "fan")
    for _ in range(3):
        channel.basic_publish("fan", "", b"x")
    channel.basic_publish("", "one", b"x")
    channel.basic_consume("one", lambda *_: None, consumer_tag="c")
    connection.process_data_events(0.2)
    (of_channel,) = get(node, f"/api/vhosts/{VHOST}/channels")
    name = of_channel["name"]
    shown = get(node, f"/api/exchanges/{VHOST}/fan")
    assert (shown["message_stats"]["publish_in"], shown["message_stats"]["publish_out"]) == (3, 6)
    assert [(one["channel_details"]["name"], one["stats"]["publish"]) for one in shown["incoming"]] == [(name, 3)]
    outgoing = {one["queue"]["name"]: one["stats"]["publish"] for one in shown["outgoing"]}
    assert outgoing == {"one": 3, "two": 3}
    queue = get(node, f"/api/queues/{VHOST}/one")
    assert {one["exchange"]["name"]: one["stats"]["publish"] for one in queue["incoming"]} == {"fan": 3, "": 1}
    assert [(one["channel_details"]["name"], one["stats"]["deliver_get"]) for one in queue["deliveries"]] == [(name, 4)]
    found = get(node, f"/api/channels/{quote(name, safe='')}")
    assert {one["exchange"]["name"]: one["stats"]["publish"] for one in found["publishes"]} == {"fan": 3, "": 1}
    assert [(one["queue"]["name"], one["stats"]["deliver"]) for one in found["deliveries"]] == [("one", 4)]
    channel.close()
    connection.close()
    after = get(node, f"/api/exchanges/{VHOST}/fan")
    assert (after["message_stats"]["publish_in"], after["incoming"]) == (3, []), (
        "the exchange keeps what a closed channel did"
    )
