"""A cluster of real processes on this machine, begun by `leveret cluster`: what they say is read as it comes."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from node.commands.planned_nodes import LOOPBACK, address
from tests.ports import free_base_port
from tests.process_lines import SAID_WITHIN_S, ProcessLines
from tests.running_node import ROOT, imports_of


class RunningCluster(ProcessLines):
    """`leveret cluster` as a process."""

    def __init__(self, data_dir: Path, base_port: int, *options: str, host: str = LOOPBACK, tree: Path = ROOT) -> None:
        self.data_dir = data_dir
        self.base_port = base_port
        self._host = host
        command = [sys.executable, "-m", "node.main", "cluster", "--data-dir", str(data_dir)]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LEVERET_")}
        environment |= imports_of(tree)
        super().__init__([*command, "--base-port", str(base_port), *options], environment, tree)

    def amqp(self, number: int) -> tuple[str, int]:
        host, _, port = self._at(number, 0).rpartition(":")
        return host, int(port)

    def grpc(self, number: int) -> str:
        return self._at(number, 1)

    def http(self, number: int) -> tuple[str, int]:
        host, _, port = self._at(number, 2).rpartition(":")
        return host, int(port)

    def peer(self, number: int) -> str:
        return self._at(number, 3)

    def stream(self, number: int) -> tuple[str, int]:
        host, _, port = self._at(number, 4).rpartition(":")
        return host, int(port)

    def _at(self, number: int, part: int) -> str:
        return address(self.base_port, number - 1, part, self._host)

    def ready(self, count: int, after: int = 0) -> None:
        for number in range(1, count + 1):
            self.said(rf"^\S*{number} +\| ready: ", after)

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(SAID_WITHIN_S)


@contextlib.contextmanager
def running_cluster(
    data_dir: Path,
    nodes: int = 3,
    ram_nodes: int = 0,
    *,
    base_port: int | None = None,
    config: Path | None = None,
    tree: Path = ROOT,
) -> Iterator[RunningCluster]:
    """All nodes are ready at the beginning of the block, and have stopped at its end. Started again they are elsewhere, or
    where they were with the `base_port` that they had."""
    base_port = base_port or free_base_port(nodes + ram_nodes)
    options = ["--nodes", str(nodes), "--ram-nodes", str(ram_nodes)]
    if config is not None:
        options += ["--config", str(config)]
    cluster = RunningCluster(data_dir, base_port, *options, tree=tree)
    try:
        cluster.ready(nodes + ram_nodes)
        yield cluster
    finally:
        code = cluster.stop()
    assert code == 0, f"the cluster's clean stop ended with {code}:\n" + "\n".join(cluster.lines[-60:])
