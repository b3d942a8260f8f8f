"""How a node looks as JSON: the management API's field names. Strict clients drop a whole list for one that is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from broker.operations.node_facts import ListenerFacts
from broker.operations.this_node import NodeStatus
from front.node_ports import NodeView
from front.web.samples.shapes import CHURN

Json = dict[str, Any]
# Of listeners, by our own names; RabbitMQ's tools look for these.
PROTOCOLS = {"amqps": "amqp/ssl", "streams": "stream/ssl", "peer": "clustering"}
KINDS = {"disk": "disc", "ram": "ram"}
PROCESSES_MAX = 1_048_576  # RabbitMQ's own; nothing here is limited like it
# What RabbitMQ counts of disks, collections and its stores. 0 stands for what is not counted here.
OF_DISKS = (
    "io_read_count",
    "io_read_bytes",
    "io_write_count",
    "io_write_bytes",
    "io_sync_count",
    "io_seek_count",
    "io_reopen_count",
    "gc_num",
    "gc_bytes_reclaimed",
    "context_switches",
    "msg_store_read_count",
    "msg_store_write_count",
    "queue_index_read_count",
    "queue_index_write_count",
)
TIMES_OF_DISKS = ("io_read_avg_time", "io_write_avg_time", "io_sync_avg_time", "io_seek_avg_time")
UNKNOWN_FACTS: Json = {
    "uptime": 0,
    "run_queue": 0,
    "processors": 0,
    "os_pid": "0",
    "fd_used": 0,
    "fd_total": 0,
    "sockets_used": 0,
    "sockets_total": 0,
    "proc_used": 0,
    "proc_total": PROCESSES_MAX,
    "mem_used": 0,
    "mem_limit": 0,
    "mem_alarm": False,
    "disk_free": 0,
    "disk_free_limit": 0,
    "disk_free_alarm": False,
    **dict.fromkeys((*OF_DISKS, *CHURN), 0),
    **dict.fromkeys(TIMES_OF_DISKS, 0.0),
    **{f"{name}_details": {"rate": 0.0} for name in (*OF_DISKS, *TIMES_OF_DISKS, *CHURN)},
    "rates_mode": "basic",
    "db_dir": "",
    "config_files": [],
    "log_files": [],
    "applications": [],
    "auth_mechanisms": [],
    "exchange_types": [],
    "enabled_plugins": [],
    "net_ticktime": 0,
    "mem_calculation_strategy": "rss",
    "contexts": [],
    "rabbitmq_version": "",
    "erlang_version": "",
    "erlang_full_version": "",
    "crypto_lib_version": "",
}
MECHANISMS = ("AMQPLAIN", "EXTERNAL", "PLAIN")


def facts_view(status: NodeStatus, now_ms: int, versions: Mapping[str, str]) -> Json:
    """What only the node itself knows."""
    facts, alarms = status.facts, {one.kind for one in status.alarms}
    return {
        **UNKNOWN_FACTS,
        "name": status.name,
        "uptime": max(0, now_ms - facts.started_at_ms),
        "processors": facts.processors,
        "os_pid": str(facts.process_id),
        "fd_used": facts.files_open,
        "fd_total": facts.files_max,
        "sockets_used": status.connections,
        "sockets_total": facts.files_max,
        "mem_used": facts.memory_bytes,
        "mem_limit": facts.memory_limit_bytes,
        "mem_alarm": "memory" in alarms,
        "disk_free": facts.disk_free_bytes,
        "disk_free_limit": facts.disk_free_limit_bytes,
        "disk_free_alarm": "disk" in alarms,
        "io_read_bytes": facts.read_bytes,
        "io_write_bytes": facts.written_bytes,
        "gc_num": facts.collections,
        "context_switches": facts.context_switches,
        "db_dir": facts.data_dir,
        "contexts": context_views(status.name, facts.listeners),
        **{name: text for name, text in versions.items() if name in UNKNOWN_FACTS},
        "applications": [{"name": "leveret", "description": "Leveret message broker", "version": facts.version}],
        "auth_mechanisms": [
            {"name": name, "description": f"SASL {name} authentication mechanism", "enabled": True}
            for name in MECHANISMS
        ],
    }


def node_view(view: NodeView, facts: Json | None) -> Json:
    """One that does not answer is shown as not running."""
    return {
        **UNKNOWN_FACTS,
        **(facts or {}),
        "name": view.name,
        "type": KINDS[view.kind],
        "running": view.up and facts is not None,
        "being_drained": view.draining,
        "partitions": [],
        "cluster_links": [],
    }


def listener_views(node: str, listeners: Sequence[ListenerFacts]) -> list[Json]:
    return [listener_view(node, one) for one in listeners]


def listener_view(node: str, one: ListenerFacts) -> Json:
    host, port = host_and_port(one)
    return {
        "node": node,
        "protocol": PROTOCOLS.get(one.protocol, one.protocol),
        "ip_address": host,
        "port": port,
        "socket_opts": {},
        "tls": one.tls,
    }


def context_views(node: str, listeners: Sequence[ListenerFacts]) -> list[Json]:
    """What answers HTTP."""
    found = [host_and_port(one) for one in listeners if one.protocol in ("http", "https")]
    said = "RabbitMQ Management"
    return [
        {"node": node, "description": said, "path": "/", "ip": host, "port": str(port), "ssl_opts": []}
        for host, port in found
    ]


def host_and_port(one: ListenerFacts) -> tuple[str, int]:
    host, _, port = one.address.rpartition(":")
    return host.strip("[]"), int(port)
