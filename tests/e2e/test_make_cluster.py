"""What `make cluster` promises to somebody who tries it: unmodified pika on three ports, and any node may be killed."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator

import pika
import pytest

from tests.e2e.test_cluster import process_of, status_when, up
from tests.pika_steps import consumed, declared, published
from tests.running_cluster import ROOT, RunningCluster, running_cluster

EVERYBODY = {"n1": True, "n2": True, "n3": True}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster") / "data") as cluster:
        status_when(cluster.grpc(1), lambda found: up(found) == EVERYBODY and len(found.metadata_voters) == 3)
        yield cluster


def connected(cluster: RunningCluster, number: int) -> pika.BlockingConnection:
    host, port = cluster.amqp(number)
    return pika.BlockingConnection(pika.ConnectionParameters(host, port))


def test_make_cluster_runs_three_nodes_in_var() -> None:
    command = ["make", "--no-print-directory", "--dry-run", "cluster"]
    # Without what `make test-python` hands on to each make below it.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    shown = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
    assert shown.splitlines()[-1] == ".venv/bin/leveret cluster --nodes 3 --data-dir var/cluster"


@pytest.mark.parametrize("killed", [1, 2, 3])
def test_any_node_may_be_killed_while_clients_of_the_others_go_on(cluster: RunningCluster, killed: int) -> None:
    queue, others = f"without.{killed}", [number for number in (1, 2, 3) if number != killed]
    on_killed, publishing, consuming = (connected(cluster, number) for number in (killed, *others))
    declared(on_killed.channel(), queue)
    sent = published(on_killed.channel(), queue, "on the node to be killed")
    channel = publishing.channel()
    sent += published(channel, queue, "before")
    before = len(cluster.lines)

    os.kill(process_of(cluster, killed), signal.SIGKILL)

    sent += published(channel, queue, "meanwhile")
    assert consumed(consuming.channel(), queue, len(sent)) == sent
    cluster.said(rf"^n{killed} \| was ended by SIGKILL; the others go on, and it is started again in 0\.5 s$", before)
    cluster.said(rf"^n{killed} \| ready: ", before)
    for number in (1, 2, 3):
        status_when(cluster.grpc(number), lambda found: up(found) == EVERYBODY)
    late = published(channel, queue, "when it is back")
    again = connected(cluster, killed)
    assert consumed(again.channel(), queue, len(late)) == late
    assert cluster.process.poll() is None
    for connection in (publishing, consuming, again):
        connection.close()
