"""A cluster of real processes on this machine, begun by `leveret cluster`: what they say is read as it comes."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from node.commands.local_cluster import address
from tests.ports import free_base_port

ROOT = Path(__file__).parents[1]
SAID_WITHIN_S = 60.0


class RunningCluster:
    """`leveret cluster` as a process. Every line that it prints is kept; `said` waits for one."""

    def __init__(self, data_dir: Path, base_port: int, *options: str) -> None:
        self.data_dir = data_dir
        self.base_port = base_port
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self._ended = False
        command = [sys.executable, "-m", "node.main", "cluster", "--data-dir", str(data_dir)]
        self.process = subprocess.Popen(
            [*command, "--base-port", str(base_port), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=ROOT,
            env={name: value for name, value in os.environ.items() if not name.startswith("LEVERET_")},
        )
        threading.Thread(target=self._read, daemon=True).start()

    def amqp(self, number: int) -> tuple[str, int]:
        host, _, port = address(self.base_port, number - 1, 0).rpartition(":")
        return host, int(port)

    def grpc(self, number: int) -> str:
        return address(self.base_port, number - 1, 1)

    def http(self, number: int) -> tuple[str, int]:
        host, _, port = address(self.base_port, number - 1, 2).rpartition(":")
        return host, int(port)

    def peer(self, number: int) -> str:
        return address(self.base_port, number - 1, 3)

    def stream(self, number: int) -> tuple[str, int]:
        host, _, port = address(self.base_port, number - 1, 4).rpartition(":")
        return host, int(port)

    def said(self, pattern: str, after: int = 0) -> int:
        """Wait until a line behind the first `after` matches; the number of lines up to it."""
        looked_for = re.compile(pattern)
        until = time.monotonic() + SAID_WITHIN_S
        with self._changed:
            at = after
            while True:
                for number, line in enumerate(self.lines[at:], at + 1):
                    if looked_for.search(line):
                        return number
                at = len(self.lines)
                if self._ended or not self._changed.wait(until - time.monotonic()):
                    raise AssertionError(f"nobody said {pattern!r}; the last was\n" + "\n".join(self.lines[-60:]))

    def ready(self, count: int, after: int = 0) -> None:
        for number in range(1, count + 1):
            self.said(rf"^n{number} +\| ready: ", after)

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(SAID_WITHIN_S)

    def _read(self) -> None:
        assert self.process.stdout is not None, "started with a pipe"
        for line in self.process.stdout:
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()


@contextlib.contextmanager
def running_cluster(
    data_dir: Path, nodes: int = 3, ram_nodes: int = 0, *, base_port: int | None = None
) -> Iterator[RunningCluster]:
    """All nodes are ready at the beginning of the block, and have stopped at its end. Started again they are elsewhere, or
    where they were with the `base_port` that they had."""
    base_port = base_port or free_base_port(nodes + ram_nodes)
    cluster = RunningCluster(data_dir, base_port, "--nodes", str(nodes), "--ram-nodes", str(ram_nodes))
    try:
        cluster.ready(nodes + ram_nodes)
        yield cluster
    finally:
        code = cluster.stop()
    assert code == 0, f"the cluster's clean stop ended with {code}:\n" + "\n".join(cluster.lines[-60:])
