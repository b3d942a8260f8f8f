"""Every field that tools for RabbitMQ look for is there, of a node with traffic."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pika
import pytest

from tests.running_node import RunningNode, running_node
from tests.security.guarded_node import Http

FIELDS = {
    "nodes": "name uptime run_queue processors os_pid fd_total proc_total mem_limit mem_alarm disk_free_limit disk_free_alarm "
    "rates_mode enabled_plugins being_drained type running mem_used fd_used sockets_used sockets_total proc_used disk_free "
    "partitions cluster_links applications auth_mechanisms exchange_types log_files config_files db_dir net_ticktime "
    "io_read_count io_read_bytes io_read_avg_time io_write_count io_write_bytes io_write_avg_time io_sync_count "
    "io_sync_avg_time io_seek_count io_reopen_count gc_num gc_bytes_reclaimed context_switches msg_store_read_count "
    "msg_store_write_count queue_index_read_count queue_index_write_count connection_created channel_closed queue_declared "
    "queue_created_details io_write_bytes_details gc_num_details context_switches_details io_seek_avg_time_details",
    "connections": "name node protocol user connected_at client_properties vhost state type channels host port peer_host "
    "peer_port ssl ssl_protocol auth_mechanism timeout frame_max channel_max recv_oct send_oct recv_oct_details recv_cnt "
    "send_cnt send_pend",
    "channels": "number name connection_details vhost state consumer_count confirm prefetch_count messages_unacknowledged "
    "messages_unconfirmed user node transactional messages_uncommitted acks_uncommitted global_prefetch_count message_stats",
    "consumers": "consumer_tag active ack_required prefetch_count exclusive arguments queue channel_details activity_status",
    "queues/%2F/classic": "name vhost type durable auto_delete exclusive arguments consumer_utilisation consumer_capacity "
    "memory consumers node state messages messages_ready messages_unacknowledged messages_details message_bytes "
    "message_bytes_ready message_bytes_unacknowledged message_bytes_ram message_bytes_persistent messages_ram "
    "messages_persistent head_message_timestamp message_stats effective_policy_definition policy operator_policy "
    "exclusive_consumer_tag single_active_consumer_tag storage_version consumer_details incoming deliveries internal_owner",
    "queues/%2F/quorum": "leader members online delivery_limit messages_dlx message_bytes_dlx messages_delayed next_delayed_at "
    "message_bytes_persistent message_bytes_ram",
    "queues/%2F/stream": "leader members online segments committed_offset committed_chunk_id first_timestamp readers "
    "first_offset",
}


# What is the same for every one, as RabbitMQ shows it: clients with strict types drop an answer with another one.
CONSTANTS: dict[str, dict[str, Any]] = {
    "overview": {
        "rates_mode": "basic", "default_queue_type": "classic", "cluster_tags": {}, "node_tags": {}, "disable_stats": False,
        "enable_queue_totals": False, "is_op_policy_updating_enabled": True, "statistics_db_event_queue": 0,
        "sample_retention_policies": {"global": [600, 3600, 28800, 86400], "basic": [600, 3600], "detailed": [600]},
    },
    "nodes": {
        "type": "disc", "running": True, "being_drained": False, "rates_mode": "basic", "run_queue": 0, "net_ticktime": 0,
        "proc_used": 0, "proc_total": 1_048_576, "mem_calculation_strategy": "rss", "partitions": [], "enabled_plugins": [],
        "config_files": [], "log_files": [], "io_read_avg_time": 0.0, "io_write_avg_time": 0.0, "io_sync_avg_time": 0.0,
        "io_seek_avg_time": 0.0, "io_reopen_count": 0, "msg_store_read_count": 0, "queue_index_write_count": 0,
    },
    "connections": {
        "type": "network", "state": "running", "ssl": False, "protocol": "AMQP 0-9-1", "send_pend": 0, "channels": 1,
        "ssl_protocol": None, "ssl_cipher": None, "ssl_hash": None, "ssl_key_exchange": None, "peer_cert_subject": None,
        "peer_cert_issuer": None, "peer_cert_validity": None,
    },
    "channels": {"state": "running", "acks_uncommitted": 0, "messages_uncommitted": 0, "transactional": False},
    "queues/%2F/classic": {
        "internal": False, "internal_owner": False, "storage_version": 2, "exclusive_consumer_tag": None,
        "single_active_consumer_tag": None, "head_message_timestamp": None,
        "policy": None, "operator_policy": None, "effective_policy_definition": {},
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def node() -> Iterator[RunningNode]:
    with running_node() as node:
        connection = pika.BlockingConnection(pika.URLParameters(node.amqp_url))
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_qos(prefetch_count=10)
        for kind in ("classic", "quorum", "stream"):
            channel.queue_declare(kind, durable=True, arguments={"x-queue-type": kind})
            for persistent in (1, 2, 2):
                channel.basic_publish("", kind, b"1234", pika.BasicProperties(delivery_mode=persistent))
        channel.basic_consume("classic", lambda *_: None)
        yield node
        connection.close()


@pytest.fixture(scope="module")
def asked(node: RunningNode) -> Http:
    return Http(node)


def shown(asked: Http, path: str) -> dict[str, Any]:
    found = asked.get(f"/api/{path}")
    one: dict[str, Any] = found[0] if isinstance(found, list) else found
    return one


@pytest.mark.parametrize("path", FIELDS)
def test_no_field_is_missing(asked: Http, path: str) -> None:
    assert [name for name in FIELDS[path].split() if name not in shown(asked, path)] == []


@pytest.mark.parametrize("path", CONSTANTS)
def test_what_never_changes_is_as_rabbitmq_shows_it(asked: Http, path: str) -> None:
    one = shown(asked, path)
    assert {name: one[name] for name in CONSTANTS[path]} == CONSTANTS[path]


def test_a_connection_says_how_it_was_opened_and_how_often_it_was_read_and_written(asked: Http) -> None:
    one = shown(asked, "connections")
    assert one["auth_mechanism"] == "PLAIN"
    assert 0 < one["recv_cnt"] < one["recv_oct"] and 0 < one["send_cnt"] < one["send_oct"]


def test_bytes_of_persistent_messages_are_counted_apart(asked: Http) -> None:
    sizes = {kind: shown(asked, f"queues/%2F/{kind}")["message_bytes_persistent"] for kind in ("classic", "quorum")}
    assert sizes == {"classic": 8, "quorum": 12}, "a quorum queue makes all persistent"


def test_a_stream_and_a_quorum_queue_say_what_only_they_have(asked: Http) -> None:
    stream, quorum = shown(asked, "queues/%2F/stream"), shown(asked, "queues/%2F/quorum")
    assert abs(stream["first_timestamp"] - time.time() * 1_000) < 600_000 and stream["committed_chunk_id"] == 2
    assert quorum["delivery_limit"] == 20 and quorum["next_delayed_at"] is None


def test_readers_of_a_stream_are_counted_by_node(asked: Http) -> None:
    """As RabbitMQ has them: a client of strict types drops all queues for a list."""
    (node,) = asked.get("/api/nodes")
    assert shown(asked, "queues/%2F/stream")["readers"] == {node["name"]: 0}


def test_who_consumes_alone_and_owns_a_queue_and_how_old_its_head_is_are_told(asked: Http, node: RunningNode) -> None:
    with pika.BlockingConnection(pika.URLParameters(node.amqp_url)) as connection:
        channel = connection.channel()
        channel.queue_declare("private", exclusive=True)
        for stamp in (1_700_000_000, None):
            channel.basic_publish("", "private", b"", pika.BasicProperties(timestamp=stamp))
        channel.basic_qos(prefetch_count=1)
        assert shown(asked, "queues/%2F/private")["head_message_timestamp"] == 1_700_000_000
        channel.basic_get("private")
        channel.basic_consume("private", lambda *_: None, exclusive=True, consumer_tag="alone")
        one = shown(asked, "queues/%2F/private")
        owned = {row["name"]: row for row in asked.get("/api/connections")}[one["owner_pid_details"]["name"]]
    assert (one["exclusive_consumer_tag"], one["head_message_timestamp"]) == ("alone", None)
    assert one["owner_pid_details"] == {name: owned[name] for name in ("name", "peer_host", "peer_port")}
    assert "owner_pid_details" not in shown(asked, "queues/%2F/classic")


def test_the_configuration_is_told_in_text(asked: Http, node: RunningNode) -> None:
    status, text = asked.ask("GET", "/api/config/effective")
    assert status == 200 and f'node.data_dir = "{node.data_dir}"' in text.splitlines()
