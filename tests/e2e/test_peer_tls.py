"""A cluster whose nodes show each other certificates, and what is told of a node whose certificate is not believed."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
import trustme

from tests.e2e.test_cluster import process_of, status, status_when, up
from tests.e2e.test_far_queues import channel_to, counts
from tests.e2e.test_quorum_queues import EVERYBODY, QUORUM, all_are_voters, consumed, published
from tests.ports import free_base_port
from tests.running_cluster import RunningCluster
from tests.running_node import start_node

CONFIG = """
[cluster]
tls_certificate = "{folder}/node.pem"
tls_key = "{folder}/node.key"
tls_ca = "{folder}/ca.pem"
"""


def certificates(folder: Path) -> Path:
    """Of an authority of its own; the configuration that names them."""
    folder.mkdir()
    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(folder / "ca.pem"))
    issued = ca.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(str(folder / "node.key"))
    for position, part in enumerate(issued.cert_chain_pems):
        part.write_to_path(str(folder / "node.pem"), append=position > 0)
    config = folder / "leveret.toml"
    config.write_text(CONFIG.format(folder=folder))
    return config


def test_three_nodes_over_tls_replicate_survive_a_kill_and_tell_who_is_not_believed(tmp_path: Path) -> None:
    config = certificates(tmp_path / "ours")
    base = free_base_port(3)
    cluster = RunningCluster(tmp_path / "data", base, "--nodes", "3", "--config", str(config))
    try:
        cluster.ready(3)
        all_are_voters(cluster)
        with channel_to(cluster, 1) as home:
            home.queue_declare("over.tls", durable=True, arguments=QUORUM)
        with channel_to(cluster, 2) as publisher, channel_to(cluster, 3) as consumer:
            publisher.confirm_delivery()
            published(publisher, "over.tls", range(50))
            before = len(cluster.lines)
            os.kill(process_of(cluster, 1), signal.SIGKILL)
            published(publisher, "over.tls", range(50, 100))
            assert consumed(consumer, "over.tls", 100) == [(number, False) for number in range(100)]
            cluster.said(r"^n1 +\| ready: ", before)
        status_when(cluster.grpc(2), lambda found: up(found) == EVERYBODY)
        with channel_to(cluster, 1) as back:
            assert counts(back, "over.tls") == (0, 0)

        theirs = certificates(tmp_path / "theirs")  # the same secret, and another authority
        secret = str(cluster.data_dir / "secret")
        before = len(cluster.lines)
        options = ["--peer", "127.0.0.1:0", "--join", cluster.peer(1), "--secret-file", secret, "--name", "extra"]
        with pytest.raises(RuntimeError, match="the node did not start"):
            start_node(tmp_path / "extra", *options, "--config", str(theirs), ready_within_s=15.0)
        cluster.said(
            r"^n1 +\|.*warning.*TLS handshake with 127\.0\.0\.1:\d+ on the listener for nodes failed: ", before
        )
        told = [line for line in cluster.lines[before:] if "TLS handshake with" in line]
        assert len(told) <= 3, f"one in ten seconds is enough: {told}"
        assert re.search(r"unknown ca|certificate", told[0], re.IGNORECASE), told
        assert up(status(cluster.grpc(1))) == EVERYBODY
    finally:
        assert cluster.stop() == 0
