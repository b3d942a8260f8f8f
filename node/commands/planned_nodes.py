"""Which nodes `leveret cluster` runs on a machine: what they are called, where they listen, whom they look for.

    DIR/secret       made at the first start, for this cluster alone, unless one is given; readable by its owner
    DIR/n1, DIR/n2   what the nodes keep
    ports            AMQP from BASE on, gRPC from BASE + 100, HTTP from BASE + 200, for other nodes from BASE + 300, for the
                     stream protocol from BASE + 400

Alone they are a cluster to try, each node in a zone of its own. Where they are a machine of a larger cluster, all of them are
in the machine's zone, so that members of a queue are on different machines where there are enough.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

SECRET_BYTES = 32
PORTS = 5  # of a node
PORTS_APART = 100
LOOPBACK = "127.0.0.1"
EVERYWHERE = ("0.0.0.0", "::", "[::]", "")


class CannotStart(Exception):
    """The text says what an operator has to change."""


@dataclass(frozen=True, slots=True)
class HostMachine:
    """What the command line says of this machine and of the cluster that it belongs to."""

    disk_nodes: int
    ram_nodes: int
    directory: Path
    base_port: int
    host: str = LOOPBACK
    prefix: str = "n"  # of the nodes' names, which their cluster has only once
    zone: str = ""  # of all nodes; without it each is one of its own
    founders: tuple[
        str, ...
    ] = ()  # where those listen for nodes that found the cluster, of all machines; else all disk nodes
    secret_file: Path | None = None
    config_file: Path | None = None

    @property
    def nodes(self) -> int:
        return self.disk_nodes + self.ram_nodes

    def address(self, number: int, part: int) -> str:
        return address(self.base_port, number, part, self.host)


@dataclass(slots=True)
class PlannedNode:
    """One node: its name, where it listens, and how its process is started."""

    name: str
    amqp: str
    grpc: str
    http: str
    peer: str
    stream: str
    command: list[str]
    process: asyncio.subprocess.Process | None = field(default=None, repr=False)


def prepared(directory: Path) -> Path:
    """The file with the cluster's secret, made if there is none yet. Raises CannotStart."""
    path = directory / "secret"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            made = path.with_suffix(".new")
            with open(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                file.write(secrets.token_hex(SECRET_BYTES) + "\n")
                file.flush()
                os.fsync(file.fileno())
            made.rename(path)
    except OSError as error:
        raise CannotStart(f"{error.filename}: {error.strerror}") from error
    return path


def plan(machine: HostMachine, secret_file: Path) -> list[PlannedNode]:
    """The founders found the cluster together, and the others join it. Raises CannotStart."""
    check(machine)
    return [planned_node(machine, number, secret_file) for number in range(machine.nodes)]


def check(machine: HostMachine) -> None:
    """Raises CannotStart."""
    last = machine.base_port + PORTS_APART * (PORTS - 1) + machine.nodes - 1
    if last > 65_535:
        raise CannotStart(f"--base-port {machine.base_port} is too high: {machine.nodes} nodes need ports up to {last}")
    if machine.host in EVERYWHERE:
        raise CannotStart(
            f"--host {machine.host or repr('')} is no address: give the one that others reach this machine at"
        )
    if machine.founders and machine.secret_file is None:
        raise CannotStart("--peers needs --secret-file, with the same secret on all machines")


def planned_node(machine: HostMachine, number: int, secret_file: Path) -> PlannedNode:
    name = f"{machine.prefix}{number + 1}"
    amqp, grpc, http, peer, stream = (machine.address(number, part) for part in range(PORTS))
    command = [sys.executable, "-m", "node.main", "serve", "--name", name, "--data-dir", str(machine.directory / name)]
    if machine.config_file is not None:
        command += ["--config", str(machine.config_file)]
    command += ["--amqp", amqp, "--grpc", grpc, "--http", http, "--peer", peer, "--stream", stream]
    command += ["--zone", machine.zone or name, "--nodes-on-machine", str(machine.nodes)]
    command += ["--secret-file", str(secret_file), *whom_it_looks_for(machine, number)]
    if number >= machine.disk_nodes:
        command.append("--ram")
    return PlannedNode(name, amqp, grpc, http, peer, stream, command)


def whom_it_looks_for(machine: HostMachine, number: int) -> list[str]:
    """Options of a node. One that founds nothing joins by way of a founder, of its own machine if there is one."""
    here = [machine.address(one, 3) for one in range(machine.disk_nodes)]
    founders = machine.founders or tuple(here)
    if machine.founders and machine.address(number, 3) not in founders:
        return ["--join", next((one for one in founders if one in here), founders[0])]
    return [part for one in founders for part in ("--peers", one)]


def address(base_port: int, number: int, part: int, host: str = LOOPBACK) -> str:
    return f"{host}:{base_port + PORTS_APART * part + number}"


def table(nodes: Sequence[PlannedNode], directory: Path) -> str:
    rows = [("node", "AMQP", "gRPC", "HTTP", "nodes", "streams")]
    rows += [(node.name, node.amqp, node.grpc, node.http, node.peer, node.stream) for node in nodes]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.append(
        f"data in {directory}; Ctrl-C stops all of them. See `leveretctl --node {nodes[0].grpc} cluster status`"
    )
    return "\n".join(lines)
