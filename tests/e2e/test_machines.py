"""`leveret cluster` as a machine of a larger cluster: two of them, on two addresses of this one."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pika
import pytest

from leveret.records import QueueStatus
from tests.e2e.test_cluster import status_when, up, when
from tests.pika_steps import consumed, published
from tests.ports import free_base_port
from tests.process_lines import SAID_WITHIN_S
from tests.running_cluster import RunningCluster

HOSTS = {"east": "127.0.0.1", "west": "127.0.0.2"}
NODES = {"east-1", "east-2", "west-1", "west-2"}
QUORUM = {"x-queue-type": "quorum"}


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[dict[str, RunningCluster]]:
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef" * 4 + "\n")
    secret.chmod(0o600)
    base_port = free_base_port(2)
    founders = [part for host in HOSTS.values() for part in ("--peers", f"{host}:{base_port + 300}")]
    common = ["--nodes", "2", "--secret-file", str(secret), *founders]
    with ExitStack() as running:
        machines = {}
        for zone, host in HOSTS.items():
            options = [*common, "--host", host, "--zone", zone, "--name", f"{zone}-"]
            machines[zone] = RunningCluster(tmp_path / zone, base_port, *options, host=host)
            running.callback(machines[zone].stop)
        for machine in machines.values():
            machine.ready(2)
        yield machines


def test_two_machines_are_one_cluster_whose_queues_do_not_fail_with_one_of_them(
    machines: dict[str, RunningCluster],
) -> None:
    east, west = machines["east"], machines["west"]
    found = status_when(
        east.grpc(1),
        lambda found: set(up(found)) == NODES and all(up(found).values()) and len(found.metadata_voters) == 4,
    )
    assert {node.name: node.zone for node in found.nodes} == {name: name[:4] for name in NODES}
    clients = [pika.BlockingConnection(pika.ConnectionParameters(*one.amqp(2))) for one in (east, west)]
    channel = clients[0].channel()
    channel.queue_declare("orders", durable=True, arguments=QUORUM | {"x-quorum-initial-group-size": 2})

    def members(status: QueueStatus) -> set[str]:
        return {member.node[:4] for member in status.group.members} if status.group else set()

    when(east.grpc(1), lambda node: node.admin.queue_status("orders"), lambda status: members(status) == set(HOSTS))
    sent = published(channel, "orders", "from the other machine")
    assert consumed(clients[1].channel(), "orders", len(sent)) == sent
    for client in clients:
        client.close()


def test_a_machine_stops_as_a_whole_and_the_other_goes_on(machines: dict[str, RunningCluster]) -> None:
    east, west = machines["east"], machines["west"]
    status_when(east.grpc(1), lambda found: set(up(found)) == NODES)
    west.process.send_signal(signal.SIGTERM)
    assert west.process.wait(SAID_WITHIN_S) == 0
    gone = {name: name.startswith("east") for name in NODES}
    status_when(east.grpc(2), lambda found: up(found) == gone)
