"""Thousands of silent connections from one address over all ports of a node that may open few files, and clients beside them.

    python -m tests.security.strangers_load [--connections 20000] [--descriptors 4096] [--seconds 10]

A publisher that has logged in goes on meanwhile; clients from other addresses (all of 127.0.0.0/8 is this machine) log in over
AMQP, HTTP and gRPC. Prints the figures, and ends with 1 when one misses its bar:

    the publisher's rate         at least half of what it was before
    logins from elsewhere        each within a second
    memory of the node           at most 64 MiB more
    the node                     still runs
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import multiprocessing
import multiprocessing.connection
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import grpc.aio

from leveret.v1 import admin_pb2, admin_pb2_grpc
from tests.running_node import RunningNode, start_node
from tests.security import wire
from tests.security.guarded_node import Http
from tests.security.wire import Peer
from wire.amqp.frame import PROTOCOL_HEADER

STRANGER = "127.0.0.66"
OTHERS = ("127.0.0.2", "127.0.0.3", "127.0.0.4")
RATE_SHARE_MIN = 0.5
LOGIN_S_MAX = 1.0
GROWTH_BYTES_MAX = 64 << 20
LOGIN_EVERY_S = 0.2
WARM_S = 1.0
CONNECTIONS_PER_PROCESS = 10_000
BATCH = 20
PASSWORD = "strangers-load"


@dataclass
class Figures:
    rate_before: float = 0.0
    rate_during: float = 0.0
    grown_bytes: int = 0
    opened: int = 0
    login_s: dict[str, list[float]] = field(default_factory=lambda: {"AMQP": [], "HTTP": [], "gRPC": []})
    failures: list[str] = field(default_factory=list)

    def missed(self) -> list[str]:
        found = list(self.failures)
        if self.rate_during < RATE_SHARE_MIN * self.rate_before:
            found.append(f"the publisher fell from {self.rate_before:.0f} to {self.rate_during:.0f} messages a second")
        for protocol, seconds in self.login_s.items():
            if not seconds:
                found.append(f"nobody logged in over {protocol}")
            elif max(seconds) > LOGIN_S_MAX:
                found.append(f"a login over {protocol} took {max(seconds):.2f} s")
        if self.grown_bytes > GROWTH_BYTES_MAX:
            found.append(f"the node's memory grew by {self.grown_bytes >> 20} MiB")
        return found

    def lines(self) -> Iterator[str]:
        yield f"silent connections opened    {self.opened}"
        yield f"publisher before             {self.rate_before:.0f} messages/s"
        share = self.rate_during / self.rate_before if self.rate_before else 0.0
        yield f"publisher during             {self.rate_during:.0f} messages/s ({share:.0%})"
        for protocol, seconds in self.login_s.items():
            if seconds:
                times = f"median {statistics.median(seconds):.3f} s, longest {max(seconds):.3f} s"
                yield f"logins over {protocol}             {len(seconds)}, {times}"
        yield f"memory                       +{self.grown_bytes / (1 << 20):.1f} MiB"


class Strangers:
    """Processes that wait for a word to open their silent connections."""

    def __init__(self, node: RunningNode, connections: int) -> None:
        ports = [str(address[1]) for address in node.addresses.values()]
        self._processes = [
            subprocess.Popen(
                [
                    sys.executable, "-m", "tests.security.silent_connections", STRANGER,
                    str(min(CONNECTIONS_PER_PROCESS, connections - first)), *ports,
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for first in range(0, connections, CONNECTIONS_PER_PROCESS)
        ]  # fmt: skip

    def begin(self) -> None:
        for process in self._processes:
            assert process.stdin is not None, "started with a pipe"
            process.stdin.write("\n")
            process.stdin.flush()

    def opened(self) -> int:
        """When all have tried."""
        total = 0
        for process in self._processes:
            assert process.stdout is not None, "started with a pipe"
            total += int(process.stdout.readline() or 0)
        return total

    def end(self) -> None:
        for process in self._processes:
            process.communicate()


class Publisher:
    """Confirmed messages in small batches, one batch after the other."""

    def __init__(self, node: RunningNode) -> None:
        self._peer = Peer(node.amqp)
        self._peer.log_in("load", PASSWORD)
        self._peer.open_channel()
        assert self._peer.call(1, "queue.declare", queue="load").name == "queue.declare-ok"
        assert self._peer.call(1, "confirm.select").name == "confirm.select-ok"
        self._sent = 0

    def batch(self) -> None:
        self._peer.send(wire.publish(1, "", "load", b"x" * 100) * BATCH)
        self._sent += BATCH
        confirmed = 0
        while confirmed < self._sent:
            said = self._peer.expect("basic.ack")
            confirmed = said.arguments["delivery_tag"]

    def rate(self, seconds: float) -> float:
        began = time.monotonic()
        before = self._sent
        while time.monotonic() - began < seconds:
            self.batch()
        return (self._sent - before) / (time.monotonic() - began)


def log_in(node: Where, protocol: str, source: str) -> None:
    """Raises when the login does not succeed."""
    if protocol == "AMQP":
        with contextlib.closing(socket.create_connection(node.amqp, LOGIN_S_MAX, (source, 0))) as one:
            amqp_login(one)
    elif protocol == "HTTP":
        with contextlib.closing(socket.create_connection(node.http, LOGIN_S_MAX, (source, 0))) as one:
            authorization = base64.b64encode(f"load:{PASSWORD}".encode())
            one.sendall(b"GET /api/whoami HTTP/1.1\r\nHost: x\r\nAuthorization: Basic " + authorization + b"\r\n\r\n")
            answer = one.recv(1_000)
            assert answer.startswith(b"HTTP/1.1 200"), answer[:100]
    else:
        asyncio.run(grpc_login(node))


def amqp_login(one: socket.socket) -> None:
    reader = wire.Reader()

    def expect(name: str) -> None:
        while True:
            data = one.recv(65_536)
            assert data, f"the node hung up before {name}"
            for said in reader.feed(data):
                assert said.name == name, said
                return

    one.sendall(PROTOCOL_HEADER)
    expect("connection.start")
    one.sendall(wire.start_ok("load", PASSWORD))
    expect("connection.tune")
    one.sendall(wire.tune_ok() + wire.method(0, "connection.open", virtual_host="/"))
    expect("connection.open-ok")


async def grpc_login(node: Where) -> None:
    """gRPC chooses its address itself, so this one is of 127.0.0.1: another one than the strangers'."""
    authorization = "Basic " + base64.b64encode(f"load:{PASSWORD}".encode()).decode()
    options = [("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.insecure_channel(f"{node.grpc[0]}:{node.grpc[1]}", options=options) as channel:
        answer = await admin_pb2_grpc.AdminStub(channel).WhoAmI(
            admin_pb2.WhoAmIRequest(), timeout=LOGIN_S_MAX, metadata=(("authorization", authorization),)
        )
        assert answer.user == "load"


def time_logins(node: Where, figures: Figures) -> None:
    for protocol, seconds in figures.login_s.items():
        for source in OTHERS:
            began = time.monotonic()
            try:
                log_in(node, protocol, source)
            except Exception as error:
                figures.failures.append(f"a login over {protocol} from {source} failed: {type(error).__name__} {error}")
            else:
                seconds.append(time.monotonic() - began)


@dataclass(frozen=True)
class Where:
    """What logging in needs of a node; goes to another process."""

    amqp: tuple[str, int]
    http: tuple[str, int]
    grpc: tuple[str, int]


def keep_logging_in(where: Where, pipe: multiprocessing.connection.Connection) -> None:
    """In a process of its own, from the first word to the second."""
    figures = Figures()
    pipe.send(None)
    pipe.recv()
    while not pipe.poll():
        time_logins(where, figures)
        time.sleep(LOGIN_EVERY_S)
    time_logins(where, figures)
    pipe.send(figures)


def measure(node: RunningNode, connections: int, seconds: float) -> Figures:
    add_user(node)
    spawn = multiprocessing.get_context("spawn")
    pipe, far = spawn.Pipe()
    clients = spawn.Process(target=keep_logging_in, args=(Where(node.amqp, node.http, node.grpc), far))
    clients.start()
    pipe.recv()
    strangers = Strangers(node, connections)
    publisher = Publisher(node)
    publisher.rate(WARM_S)
    before = publisher.rate(seconds)
    memory = node.resident_bytes()
    strangers.begin()
    pipe.send(None)
    during = publisher.rate(seconds)
    opened = strangers.opened()
    publisher.batch()
    grown = node.resident_bytes() - memory
    pipe.send(None)
    figures: Figures = pipe.recv()
    clients.join()
    strangers.end()
    figures.rate_before, figures.rate_during, figures.opened, figures.grown_bytes = before, during, opened, grown
    if node.process.poll() is not None:
        figures.failures.append(f"the node ended with {node.process.returncode}")
    return figures


def add_user(node: RunningNode) -> None:
    http = Http(node)
    http.put_user("load", PASSWORD, tags="management")
    http.permit("load", "/", ".*", ".*", ".*")


def run(connections: int, descriptors: int, seconds: float) -> Figures:
    """With a node of its own, whose limit of open files is this."""
    with tempfile.TemporaryDirectory(prefix="leveret-") as scratch:
        node = start_node(Path(scratch) / "data", command_prefix=("prlimit", f"--nofile={descriptors}:{descriptors}"))
        try:
            return measure(node, connections, seconds)
        finally:
            if node.process.poll() is None:
                node.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=20_000)
    parser.add_argument("--descriptors", type=int, default=4_096)
    parser.add_argument("--seconds", type=float, default=10.0)
    given = parser.parse_args()
    figures = run(given.connections, given.descriptors, given.seconds)
    print(*figures.lines(), sep="\n")
    missed = figures.missed()
    print(*(f"MISSED: {one}" for one in missed), sep="\n", end="\n" if missed else "")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
