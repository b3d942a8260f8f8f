"""HTTP on a real node: figures for Prometheus, and vhosts, users and permissions that AMQP clients feel at once."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
from collections.abc import Iterator
from typing import Any

import pika
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.running_node import RunningNode

USER = "e2e-http"
VHOST = "e2e-http"

# What RabbitMQ's dashboards and alerts read of a node.
RABBITMQ_NAMES = {
    "rabbitmq_identity_info",
    "rabbitmq_build_info",
    "rabbitmq_connections",
    "rabbitmq_channels",
    "rabbitmq_consumers",
    "rabbitmq_queues",
    "rabbitmq_connections_opened",
    "rabbitmq_connections_closed",
    "rabbitmq_channels_opened",
    "rabbitmq_channels_closed",
    "rabbitmq_queues_declared",
    "rabbitmq_queues_created",
    "rabbitmq_queues_deleted",
    "rabbitmq_global_publishers",
    "rabbitmq_global_consumers",
    "rabbitmq_global_messages_received",
    "rabbitmq_global_messages_received_confirm",
    "rabbitmq_global_messages_routed",
    "rabbitmq_global_messages_unroutable_returned",
    "rabbitmq_global_messages_unroutable_dropped",
    "rabbitmq_global_messages_confirmed",
    "rabbitmq_global_messages_dead_lettered_rejected",
    "rabbitmq_global_messages_dead_lettered_expired",
    "rabbitmq_global_messages_dead_lettered_maxlen",
    "rabbitmq_process_open_fds",
    "rabbitmq_process_max_fds",
    "rabbitmq_queue_messages",
    "rabbitmq_queue_messages_bytes",
    "rabbitmq_queue_messages_ready",
    "rabbitmq_queue_messages_unacked",
    "rabbitmq_queue_messages_published",
    "rabbitmq_queue_disk_reads",
    "rabbitmq_queue_disk_writes",
    "rabbitmq_global_messages_delivered_consume_manual_ack",
    "rabbitmq_global_messages_delivered_consume_auto_ack",
    "rabbitmq_global_messages_acknowledged",
    "rabbitmq_global_messages_redelivered",
    "rabbitmq_process_resident_memory_bytes",
    "rabbitmq_resident_memory_limit_bytes",
    "rabbitmq_disk_space_available_bytes",
    "rabbitmq_disk_space_available_limit_bytes",
    "rabbitmq_alarms_memory_used_watermark",
    "rabbitmq_alarms_free_disk_space_watermark",
}


def ask(
    node: RunningNode,
    method: str,
    path: str,
    body: Any = None,
    login: str | None = "guest:guest",
    *,
    raw: bytes | None = None,
) -> tuple[int, bytes]:
    return ask_at(node.http, method, path, body, login, raw=raw)


def ask_at(
    address: tuple[str, int],
    method: str,
    path: str,
    body: Any = None,
    login: str | None = "guest:guest",
    *,
    raw: bytes | None = None,
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(*address, timeout=30)
    headers = {"Content-Type": "application/json"}
    if login is not None:
        headers["Authorization"] = "Basic " + base64.b64encode(login.encode()).decode()
    connection.request(method, path, raw if body is None else json.dumps(body), headers)
    response = connection.getresponse()
    answer = response.status, response.read()
    connection.close()
    return answer


def figures(node: RunningNode) -> dict[str, float]:
    """Each metric's sum over its labels."""
    status, text = ask(node, "GET", "/metrics", login=None)
    assert status == 200
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text.decode()):
        assert family.documentation, f"{family.name} does not say what it is"
        found[family.name] = sum(sample.value for sample in family.samples if not sample.name.endswith("_created"))
    return found


@pytest.fixture
def vhost(node: RunningNode) -> Iterator[str]:
    assert ask(node, "PUT", f"/api/vhosts/{VHOST}")[0] == 201
    assert ask(node, "PUT", f"/api/users/{USER}", {"password": "pw", "tags": "management"})[0] == 201
    yield VHOST
    assert ask(node, "DELETE", f"/api/users/{USER}")[0] == 204
    assert ask(node, "DELETE", f"/api/vhosts/{VHOST}")[0] == 204


def connect(node: RunningNode) -> pika.BlockingConnection:
    credentials = pika.PlainCredentials(USER, "pw")
    return pika.BlockingConnection(pika.ConnectionParameters(*node.amqp, VHOST, credentials))


def grant(node: RunningNode, configure: str, write: str, read: str) -> None:
    body = {"configure": configure, "write": write, "read": read}
    assert ask(node, "PUT", f"/api/permissions/{VHOST}/{USER}", body)[0] in (201, 204)


def test_metrics_parse_and_carry_rabbitmqs_names(node: RunningNode) -> None:
    assert figures(node).keys() >= RABBITMQ_NAMES


def test_metrics_count_what_happens(node: RunningNode) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(node.amqp_url))
    channel = connection.channel()
    channel.queue_declare("e2e.http.count", durable=True)
    channel.confirm_delivery()
    before = figures(node)
    for _ in range(7):
        channel.basic_publish("", "e2e.http.count", b"x", pika.BasicProperties(delivery_mode=2))
    channel.basic_get("e2e.http.count", auto_ack=False)
    after = figures(node)

    def grown(name: str) -> float:
        return after[name] - before[name]

    assert grown("rabbitmq_queue_messages_published") == 7
    assert grown("rabbitmq_queue_messages_ready") == 6
    assert grown("rabbitmq_queue_messages_unacked") == 1
    assert grown("rabbitmq_queue_messages") == 7
    assert 1 <= grown("leveret_log_commits") <= 20
    assert after["rabbitmq_connections"] >= 1 and after["rabbitmq_channels"] >= 1
    assert after["rabbitmq_alarms_memory_used_watermark"] == after["rabbitmq_alarms_free_disk_space_watermark"] == 0
    assert grown("rabbitmq_global_messages_received_confirm") == grown("rabbitmq_global_messages_confirmed") == 7
    assert grown("rabbitmq_global_messages_delivered_get_manual_ack") == 1
    channel.queue_delete("e2e.http.count")
    channel.basic_publish("", "e2e.http.count", b"nowhere")
    connection.close()
    last = figures(node)
    assert last["rabbitmq_queues_deleted"] - after["rabbitmq_queues_deleted"] == 1
    assert (
        last["rabbitmq_global_messages_unroutable_dropped"] - after["rabbitmq_global_messages_unroutable_dropped"] == 1
    )
    fallen = [
        name for name, value in after.items() if name.startswith("rabbitmq_global_messages") and last[name] < value
    ]
    assert fallen == [], "what has happened stays counted when its queue and its session are gone"


def test_a_vhost_and_a_user_made_over_http_are_used_over_amqp(node: RunningNode, vhost: str) -> None:
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError):
        connect(node)
    grant(node, "^mine", ".*", ".*")
    connection = connect(node)
    channel = connection.channel()
    channel.queue_declare("mine.1", durable=True)
    channel.basic_publish("", "mine.1", b"x")
    queues = json.loads(ask(node, "GET", f"/api/queues/{VHOST}", login=f"{USER}:pw")[1])
    assert [(queue["name"], queue["vhost"]) for queue in queues] == [("mine.1", VHOST)]
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
        channel.queue_declare("theirs", durable=True)
    assert refused.value.reply_code == 403
    connection.close()


def test_a_revoked_permission_denies_at_once(node: RunningNode, vhost: str) -> None:
    grant(node, ".*", ".*", ".*")
    connection = connect(node)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("q", durable=True)
    channel.basic_publish("", "q", b"allowed")
    grant(node, ".*", "^$", ".*")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
        channel.basic_publish("", "q", b"not any more")
    assert refused.value.reply_code == 403
    channel = connection.channel()
    assert channel.queue_declare("q", passive=True).method.message_count == 1
    assert ask(node, "DELETE", f"/api/permissions/{VHOST}/{USER}")[0] == 204
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as ended:
        channel.basic_get("q")  # there is nothing left that this connection might do here
    assert ended.value.reply_code == 320


def test_deleting_a_vhost_ends_its_connections(node: RunningNode, vhost: str) -> None:
    grant(node, ".*", ".*", ".*")
    connection = connect(node)
    assert ask(node, "DELETE", f"/api/vhosts/{VHOST}")[0] == 204
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as ended:
        connection.channel()
    assert ended.value.reply_code == 320
    assert ask(node, "PUT", f"/api/vhosts/{VHOST}")[0] == 201


def test_logins_and_tags_hold(node: RunningNode, vhost: str) -> None:
    assert ask(node, "GET", "/api/overview", login=None)[0] == 401
    assert ask(node, "GET", "/api/overview", login="guest:wrong")[0] == 401
    assert ask(node, "GET", "/api/overview", login=f"{USER}:pw")[0] == 200
    assert ask(node, "GET", "/api/users", login=f"{USER}:pw")[0] == 401
    assert ask(node, "PUT", f"/api/users/{USER}", {"password": "pw", "tags": ""})[0] == 204
    assert ask(node, "GET", "/api/overview", login=f"{USER}:pw")[0] == 401


def test_a_user_imported_with_rabbitmqs_hash_logs_in(node: RunningNode, vhost: str) -> None:
    salt = b"salt"
    kept = base64.b64encode(salt + hashlib.sha256(salt + b"old password").digest()).decode()
    body = {"password_hash": kept, "hashing_algorithm": "rabbit_password_hashing_sha256", "tags": ""}
    assert ask(node, "PUT", f"/api/users/{USER}", body)[0] == 204
    grant(node, ".*", ".*", ".*")
    credentials = pika.PlainCredentials(USER, "old password")
    pika.BlockingConnection(pika.ConnectionParameters(*node.amqp, VHOST, credentials)).close()
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        connect(node)
    assert ask(node, "PUT", f"/api/users/{USER}", {"password_hash": "c2hvcnQ=", "tags": ""})[0] == 400
