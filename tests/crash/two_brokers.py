"""Two brokers between which links carry messages, a genuine RabbitMQ and a node: each is killed and started where it was."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pika
from pika.exceptions import AMQPError

from tests.e2e.test_http import ask, ask_at
from tests.ports import free_ports
from tests.running_node import RunningNode, start_node

STEP_S_MAX = 900.0
EVERY_S = 0.5


def arguments(description: str | None) -> argparse.ArgumentParser:
    """What says where the other broker is."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True)
    parser.add_argument("--pid", required=True)
    parser.add_argument("--start", required=True)
    parser.add_argument("--count", type=int, default=1_000_000)
    return parser


@dataclass
class Broker:
    """The other one."""

    url: str
    pid_command: str
    start_command: str

    management: str = ""  # HOST:PORT of its HTTP API

    def connect(self) -> pika.BlockingConnection:
        return connected(lambda: pika.URLParameters(self.url))

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        host, _, port = self.management.rpartition(":")
        return ask_at((host, int(port)), method, path, body)

    def kill(self) -> None:
        found = subprocess.run(self.pid_command, shell=True, capture_output=True, text=True, check=True)
        os.kill(int(found.stdout), signal.SIGKILL)

    def start(self) -> None:
        subprocess.run(self.start_command, shell=True, check=True, stdout=subprocess.DEVNULL)

    def kill_and_start(self) -> None:
        self.kill()
        self.start()


@dataclass
class OwnNode:
    """A node that is started again where it was."""

    data_dir: Path
    ports: list[int] = field(default_factory=lambda: free_ports(3))

    def start(self) -> None:
        where = [part for to, port in zip(("amqp", "grpc", "http"), self.ports, strict=True)
                 for part in (f"--{to}", f"127.0.0.1:{port}")]  # fmt: skip
        self.running: RunningNode = start_node(self.data_dir, "--name", "own", *where)

    def kill(self) -> None:
        self.running.kill()

    def kill_and_start(self) -> None:
        self.kill()
        self.start()

    @property
    def url(self) -> str:
        return f"{self.running.amqp_url}%2F"  # a slash alone is the vhost without a name

    def connect(self) -> pika.BlockingConnection:
        return connected(lambda: pika.URLParameters(self.url))

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        return ask(self.running, method, path, body)

    def declare(self, name: str, **definition: Any) -> None:
        value = {key.replace("_", "-"): one for key, one in definition.items()}
        put(self, f"/api/parameters/shovel/%2F/{name}", {"value": value})

    def delete(self, name: str) -> None:
        assert self.ask("DELETE", f"/api/shovels/vhost/%2F/{name}")[0] == 204

    def unconfirmed(self, name: str) -> int | None:
        """None: the shovel does not run now."""
        status, raw = self.ask("GET", f"/api/shovels/vhost/%2F/{quote(name)}")
        found = json.loads(raw) if status == 200 else {}
        return found["unconfirmed"] if found.get("state") == "running" else None


def put(end: Broker | OwnNode, path: str, body: Any) -> None:
    status, raw = end.ask("PUT", path, body)
    assert status in (200, 201, 204), raw


def connected(parameters: Callable[[], pika.URLParameters]) -> pika.BlockingConnection:
    """As soon as the broker is there again."""
    deadline = time.monotonic() + STEP_S_MAX
    while True:
        try:
            return pika.BlockingConnection(parameters())
        except (AMQPError, OSError):
            if time.monotonic() > deadline:
                raise
            time.sleep(EVERY_S)


def waiting(end: Broker | OwnNode, queue: str) -> int:
    connection = end.connect()
    try:
        return int(connection.channel().queue_declare(queue, durable=True).method.message_count)
    finally:
        connection.close()


def report(what: str, count: int, seconds: float, kills: int) -> None:
    print(f"{what}: {count} messages in {seconds:.0f} s, {count / seconds:.0f}/s, with {kills} kills", flush=True)
