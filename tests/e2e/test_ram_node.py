"""A RAM node as a process: it keeps no catalog, and all that was promised for the queues that live on it."""

from __future__ import annotations

from pathlib import Path

import pika

from node.catalog.catalog_store import IN_MEMORY_KEY
from storage.lmdb_store import LmdbStore
from storage.names import CATALOG_DIRECTORY
from tests.e2e.test_cluster import address_of, joining, on, status_when, up
from tests.running_cluster import running_cluster
from tests.running_node import RunningNode, running_node


def connected(node: RunningNode) -> pika.BlockingConnection:
    host, port = node.amqp
    return pika.BlockingConnection(pika.ConnectionParameters(host, port))


def ready(node: RunningNode, queue: str) -> int:
    connection = connected(node)
    count: int = connection.channel().queue_declare(queue, passive=True).method.message_count
    connection.close()
    return count


def test_a_ram_node_keeps_its_messages_but_no_catalog_and_may_become_a_disk_node(tmp_path: Path) -> None:
    data = tmp_path / "ram"
    with running_cluster(tmp_path / "data", nodes=1) as cluster:
        options = joining(cluster, "--name", "ram", "--ram")
        with running_node(*options, data_dir=data) as node:
            connection = connected(node)
            channel = connection.channel()
            channel.confirm_delivery()
            for queue in ("first", "second"):
                channel.queue_declare(queue, durable=True)
                for body in range(10):
                    channel.basic_publish("", queue, b"%d" % body, pika.BasicProperties(delivery_mode=2))
            node.kill()
        status_when(cluster.grpc(1), lambda found: not up(found)["ram"])
        on(cluster.grpc(1), lambda one: one.topology.declare_queue("meanwhile"))
        with running_node(*options, data_dir=data) as node:
            assert (ready(node, "first"), ready(node, "second"), ready(node, "meanwhile")) == (10, 10, 0)
            found = status_when(address_of(node), lambda found: all(up(found).values()))
            assert found.metadata_voters == ("n1",)
            node.stop()
        store = LmdbStore(str(data / CATALOG_DIRECTORY), read_only=True)
        assert [key for key, _ in store.items()] == [IN_MEMORY_KEY]
        store.close()
        with running_node(*options, data_dir=data) as node:
            on(address_of(node), lambda one: one.admin.change_node_kind("disk"))
            node.kill()
        with running_node(*joining(cluster, "--name", "ram"), data_dir=data) as node:
            status_when(address_of(node), lambda found: len(found.metadata_voters) == 2 and all(up(found).values()))
            assert (ready(node, "first"), ready(node, "second"), ready(node, "meanwhile")) == (10, 10, 0)
