"""A real node as a process of its own, for tests and benchmarks: free ports, its own directory, ready when it says so."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
LISTENERS = ("amqp", "stream", "grpc", "http")
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0
ADDRESS = re.compile(r"(amqps|amqp|streams|stream|grpc|https|http|peer) ([^ ,]+):(\d+)")


@dataclass
class RunningNode:
    """A started node and where it listens."""

    process: subprocess.Popen[str]
    data_dir: Path
    log: Path
    addresses: dict[str, tuple[str, int]] = field(default_factory=dict)

    @property
    def amqp(self) -> tuple[str, int]:
        return self.addresses["amqp"]

    @property
    def grpc(self) -> tuple[str, int]:
        return self.addresses["grpc"]

    @property
    def http(self) -> tuple[str, int]:
        return self.addresses["http"]

    @property
    def amqp_url(self) -> str:
        return f"amqp://guest:guest@{self.amqp[0]}:{self.amqp[1]}/"

    def resident_bytes(self) -> int:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> int:
        """Ask it to stop and wait until it has; returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_TIMEOUT_S)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(STOP_TIMEOUT_S)


def start_node(
    data_dir: Path,
    *options: str,
    environment: dict[str, str] | None = None,
    ready_within_s: float = START_TIMEOUT_S,
    module: str = "node.main",
    command_prefix: tuple[str, ...] = (),
    tree: Path = ROOT,
    listeners: Sequence[str] = LISTENERS,
) -> RunningNode:
    """Start a node on free ports and return when it says that it is ready. Raises RuntimeError with its log. `tree`: the source
    that it is of; of an older one the listeners that it has."""
    log = data_dir.parent / f"{data_dir.name}.log"
    ports = [part for name in listeners for part in (f"--{name}", "127.0.0.1:0")]
    command = [*command_prefix, sys.executable, "-m", module, "serve", "--data-dir", str(data_dir), *ports, *options]
    with log.open("a") as errors:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=tree,
            env=os.environ | imports_of(tree) | (environment or {}),
        )
    node = RunningNode(process, data_dir, log)
    line = read_line(process, ready_within_s)
    for name, host, port in ADDRESS.findall(line):
        node.addresses[name] = (host, int(port))
    if "amqp" not in node.addresses:
        node.kill()
        raise RuntimeError(f"the node did not start; it said {line!r} and its log ends with\n{log.read_text()[-4000:]}")
    return node


def imports_of(tree: Path) -> dict[str, str]:
    """What has a process import the modules of this tree, wherever the interpreter finds those that are installed."""
    return {} if tree == ROOT else {"PYTHONPATH": os.pathsep.join([str(tree), str(tree / "client")])}


def read_line(process: subprocess.Popen[str], timeout_s: float) -> str:
    """The next line of its output, or what there is when it ends or time is up."""
    assert process.stdout is not None, "started with a pipe"
    readable, _, _ = select.select([process.stdout], [], [], timeout_s)
    return process.stdout.readline() if readable else ""


@contextlib.contextmanager
def running_node(
    *options: str, data_dir: Path | None = None, environment: dict[str, str] | None = None
) -> Iterator[RunningNode]:
    """A node that is stopped at the end of the block."""
    with tempfile.TemporaryDirectory(prefix="leveret-") as scratch:
        node = start_node(data_dir or Path(scratch) / "data", *options, environment=environment)
        try:
            yield node
        finally:
            if node.process.poll() is None:
                node.stop()
