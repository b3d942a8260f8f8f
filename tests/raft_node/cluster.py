"""Three such processes on this machine, to be asked, killed, paused, wiped and started again."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import grpc

from tests.ports import free_ports
from tests.raft_node import wire
from tests.running_node import read_line

START_TIMEOUT_S = 60.0
CALL_TIMEOUT_S = 60.0
POLL_S = 0.02


@dataclass(frozen=True)
class Place:
    """Where a node lives."""

    data_dir: Path
    listen: str  # for the other nodes
    service: str
    enter: tuple[str, ...] = ()  # a command that runs another one there, such as in a network of its own

    def moved(self, data_dir: Path) -> Place:
        return replace(self, data_dir=data_dir)


class Process:
    """One node, over its lives."""

    def __init__(self, number: int, places: Mapping[int, Place], log: Path, options: tuple[str, ...]) -> None:
        self.number = number
        self.place = places[number]
        self.data_dir = self.place.data_dir
        self.service = self.place.service
        self.log = log
        self.secret = "a secret of these tests alone"
        self._peers = ",".join(f"{other}={place.listen}" for other, place in places.items() if other != number)
        self._options = options
        self.lives = 1  # that its disks were granted
        self._process: subprocess.Popen[str] | None = None
        self._channel: grpc.Channel | None = None

    def begin(self, *more: str) -> None:
        command = [
            *self.place.enter, sys.executable, "-m", "tests.raft_node", "--number", str(self.number),
            "--data-dir", str(self.data_dir), "--listen", self.place.listen, "--service", self.service,
            "--peers", self._peers, "--life", str(self.lives), *self._options, *more,
        ]  # fmt: skip
        with self.log.open("a") as errors:
            self._process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=Path(__file__).parents[2],
                env=os.environ | {"RAFT_NODE_SECRET": self.secret},
            )

    def wait_until_ready(self) -> None:
        line = read_line(self.process, START_TIMEOUT_S)
        if not line.startswith("ready"):
            self.kill()
            raise RuntimeError(f"node {self.number} did not start; its log ends with\n{self.log.read_text()[-4000:]}")
        self._channel = grpc.insecure_channel(self.service, [("grpc.use_local_subchannel_pool", 1)])

    def start(self, *more: str) -> None:
        self.begin(*more)
        self.wait_until_ready()

    @property
    def process(self) -> subprocess.Popen[str]:
        assert self._process is not None, f"node {self.number} was not started"
        return self._process

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def call(self, name: str, **arguments: Any) -> Any:
        """Ask the node itself: see Service in tests/raft_node/service.py."""
        assert self._channel is not None, f"node {self.number} was not started"
        method = self._channel.unary_unary(f"/{wire.SERVICE}/{wire.CALL}")
        return wire.decode(method(wire.encode((name, arguments)), timeout=CALL_TIMEOUT_S))

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self._close()
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        self._close()
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(CALL_TIMEOUT_S)

    def wipe(self) -> None:
        assert not self.alive, f"node {self.number} still uses its disk"
        shutil.rmtree(self.data_dir)
        self.lives += 1

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_bytes(self) -> int:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def _close(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None


class Cluster:
    """The processes by their number."""

    def __init__(self, scratch: Path, places: Mapping[int, Place], options: tuple[str, ...]) -> None:
        self.nodes = {number: Process(number, places, scratch / f"n{number}.log", options) for number in places}

    def form(self) -> None:
        """Start all of them with empty disks."""
        for node in self.nodes.values():
            node.begin("--form")
        for node in self.nodes.values():
            node.wait_until_ready()

    def alive(self) -> list[Process]:
        return [node for node in self.nodes.values() if node.alive]

    def others(self, node: Process) -> list[Process]:
        return [other for other in self.alive() if other is not node]

    def leader(self, group: int = 1) -> Process:
        """Waits until all that live agree on one of them."""

        def agreed() -> Process | None:
            said = {node.call("status", group=group)["leader"] for node in self.alive()}
            leader = self.nodes.get(said.pop()) if len(said) == 1 else None
            return leader if leader is not None and leader.alive else None

        found: Process = eventually(agreed, f"a leader of group {group}")
        return found

    def stop(self) -> None:
        for node in self.alive():
            node.signal(signal.SIGCONT)
            node.kill()


def eventually(found: Callable[[], Any], what: str, within_s: float = 30.0) -> Any:
    """What `found` returns as soon as it is not false. Raises TimeoutError."""
    until = time.monotonic() + within_s
    while not (value := found()):
        if time.monotonic() > until:
            raise TimeoutError(f"{what} did not come within {within_s} s")
        time.sleep(POLL_S)
    return value


def places_here(scratch: Path, count: int = 3) -> dict[int, Place]:
    """On this machine's loopback, with directories side by side."""
    ports = free_ports(2 * count)
    return {
        number: Place(
            scratch / f"n{number}", f"127.0.0.1:{ports[2 * number - 2]}", f"127.0.0.1:{ports[2 * number - 1]}"
        )
        for number in range(1, count + 1)
    }


@contextlib.contextmanager
def running_cluster(scratch: Path, *options: str, places: Mapping[int, Place] | None = None) -> Iterator[Cluster]:
    """Nodes that have formed their groups together, and are ended with the block."""
    scratch.mkdir(exist_ok=True)
    cluster = Cluster(scratch, places or places_here(scratch), options)
    try:
        cluster.form()
        yield cluster
    finally:
        cluster.stop()
