"""Clusters begun from deploy/compose.yaml, as testcontainers does it; their nodes by name.

Beside the compose file there is one of ours, which says which image is under test, and lets health checks come often. It can
give each node a configuration of its own. All calls block.
"""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import docker
import pika
from docker.models.containers import Container
from testcontainers.compose import DockerCompose

import leveret
from leveret.errors import LeveretError
from leveret.records import ClusterStatus
from tests.containers import engine, image, spark_image

DEPLOY = Path(__file__).parents[2] / "deploy"
PROJECT = "leveret-test"
USER, OPERATOR, PASSWORD = "app", "operator", "a password of the tests"
DISK_NODES, RAM_NODES = ("n1", "n2", "n3"), ("n4",)
NODES = DISK_NODES + RAM_NODES  # the services of the compose file
SPARK_PROFILE, SPARK_SERVICES, SPARK_JOB = "analytics", ("spark-master", "spark-worker"), "analytics"
AMQP_PORT, GRPC_PORT = 5672, 5680
DATA = "/var/lib/leveret"
CONFIGURATION = "/etc/leveret/cluster.toml"
HEALTH_EVERY = "2s"
OPEN_FILES = 65_536  # what the compose file asks for
READY_WITHIN_S = 90.0
STOP_WITHIN_S = 60
ASK_S = 5.0
LOOK_S = 0.1


class NotReady(Exception):
    """What was waited for did not come. The text ends with the log."""


class Compose(DockerCompose):
    """With the command that is there: `docker compose`, or docker-compose of old."""

    @cached_property
    def compose_command_property(self) -> list[str]:
        assert isinstance(self.compose_file_name, list), "two of them"
        files = [part for file in self.compose_file_name for part in ("-f", file)]
        return [*engine.compose_command(), "-p", PROJECT, "--profile", SPARK_PROFILE, *files]

    def _run_command(self, cmd: str | list[str], context: str | None = None) -> subprocess.CompletedProcess[bytes]:
        """As the one overridden, which tells nobody what the command had to say when it failed."""
        try:
            return subprocess.run(cmd, capture_output=True, check=True, cwd=context or self.context)
        except subprocess.CalledProcessError as error:
            error.add_note((error.stdout + error.stderr).decode(errors="replace"))
            raise


class ContainerCluster:
    """`configurations`: a file for each node whose configuration is not deploy/cluster.toml.
    `restart`: False when a node that ends is to stay as it is. `beside`: services that begin with the nodes.
    """

    def __init__(
        self,
        scratch: Path,
        nodes: Sequence[str] = NODES,
        configurations: dict[str, Path] | None = None,
        restart: bool = True,
        beside: Sequence[str] = (),
    ) -> None:
        self.nodes = tuple(nodes)
        ours = scratch / "compose.json"
        ours.write_text(json.dumps(_override(configurations or {}, restart)))
        self._compose = Compose(DEPLOY, ["compose.yaml", str(ours)], wait=False, services=[*nodes, *beside])
        self._client = docker.from_env(timeout=2 * STOP_WITHIN_S)

    def begin(self) -> None:
        """All nodes, on empty volumes. Returns when all serve clients."""
        self._compose.start()
        for node in self.nodes:
            self.until_ready(node, 1)

    def end(self) -> None:
        """Containers, volumes and networks are gone then."""
        for container in self._found({}):
            if container.status == "paused":
                container.unpause()
            container.kill() if container.status == "running" else None
        self._compose.services = None  # `down` takes no names: it is about all of them
        self._compose.stop()
        self._client.close()

    def container(self, node: str) -> Container:
        """As it is now."""
        found = self._found({"com.docker.compose.service": node})
        assert len(found) == 1, f"{len(found)} containers of {node}"
        return found[0]

    def address(self, node: str, port: int) -> tuple[str, int]:
        """Where this port of the node is reached from here; the same after each start."""
        bound = self.container(node).attrs["HostConfig"]["PortBindings"][f"{port}/tcp"][0]
        return bound["HostIp"], int(bound["HostPort"])

    def volume(self, node: str) -> Path:
        """The node's data directory, as this machine sees it."""
        mounts = self.container(node).attrs["Mounts"]
        return Path(next(mount["Source"] for mount in mounts if mount["Destination"] == DATA))

    def tables(self) -> Path:
        """Where questions leave files, as this machine sees it."""
        return Path(self._client.volumes.get(f"{PROJECT}_tables").attrs["Mountpoint"])

    def network(self, name: str) -> Any:
        return self._client.networks.get(f"{PROJECT}_{name}")

    def run(self, node: str, *command: str) -> str:
        """What the command says in that container."""
        said, errors, code = self._compose.exec_in_container(list(command), node)
        assert code == 0, f"{command} in {node}: {errors}"
        return said

    def ask(self, *question: str) -> str:
        """What leveret-analytics answers in a container of its own."""
        command = [*self._compose.compose_command_property, "run", "--rm", "-T", SPARK_JOB, *question]
        return self._compose._run_command(command).stdout.decode()

    def stop_all(self) -> None:
        """All nodes at once, each in order."""
        self._compose._run_command([*self._compose.compose_command_property, "stop", *self.nodes])

    def add_users(self) -> None:
        """As the head of the compose file tells; and one who may look at the cluster from outside."""
        for name, *tags in ((USER,), (OPERATOR, "--tag", "administrator")):
            self.run("n1", "leveretctl", "user", "add", name, "--new-password", PASSWORD, *tags)
            self.run("n1", "leveretctl", "permission", "set", name, ".*", ".*", ".*")

    def connected(self, node: str) -> pika.BlockingConnection:
        """As one of the users of `add_users`."""
        host, port = self.address(node, AMQP_PORT)
        login = pika.PlainCredentials(USER, PASSWORD)
        return pika.BlockingConnection(
            pika.ConnectionParameters(host, port, credentials=login, blocked_connection_timeout=30)
        )

    def status(self, node: str) -> ClusterStatus | None:
        """What the node tells the operator, or None when it does not answer."""

        async def ask() -> ClusterStatus:
            host, port = self.address(node, GRPC_PORT)
            async with leveret.connect(
                f"{host}:{port}", user=OPERATOR, password=PASSWORD, timeout_s=ASK_S
            ) as connected:
                return await connected.admin.cluster_status()

        try:
            return asyncio.run(ask())
        except LeveretError:
            return None

    def log(self, node: str) -> str:
        """All that it has said, over all its lives."""
        return str(self.container(node).logs().decode(errors="replace"))

    def times_ready(self, node: str) -> int:
        """How often it has said that it serves clients."""
        return sum(line.startswith("ready: ") for line in self.log(node).splitlines())

    def until_ready(self, node: str, times: int) -> None:
        """Until it has said so for this time. Raises NotReady, at once when it has ended instead."""
        until = time.monotonic() + READY_WITHIN_S
        while self.times_ready(node) < times:
            ended = self.container(node).status in ("exited", "dead")
            if ended or time.monotonic() > until:
                why = "has ended" if ended else f"is not ready after {READY_WITHIN_S:g} s"
                raise NotReady(f"{node} {why}: {self.log(node)[-3_000:]}")
            time.sleep(LOOK_S)

    def start_again(self, node: str) -> None:
        """One that does not run. Returns when it serves clients."""
        before = self.times_ready(node)
        self.container(node).start()
        self.until_ready(node, before + 1)

    def stop(self, node: str) -> int:
        """Its exit code."""
        self.container(node).stop(timeout=STOP_WITHIN_S)
        return int(self.container(node).attrs["State"]["ExitCode"])

    def eventually(self, holds: Callable[[], bool], what: str) -> None:
        """Raises NotReady."""
        until = time.monotonic() + READY_WITHIN_S
        while not holds():
            if time.monotonic() > until:
                raise NotReady(f"{what} did not come within {READY_WITHIN_S:g} s")
            time.sleep(LOOK_S)

    def _found(self, labels: dict[str, str]) -> list[Container]:
        wanted = [f"{name}={value}" for name, value in ({"com.docker.compose.project": PROJECT} | labels).items()]
        return list(self._client.containers.list(all=True, filters={"label": wanted}))


def _override(configurations: dict[str, Path], restart: bool) -> dict[str, Any]:
    services: dict[str, Any] = {"secret": {"image": image.TAG}}
    files = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], OPEN_FILES)  # an engine cannot give more than it has
    for node in NODES:
        services[node] = {"image": image.TAG, "healthcheck": {"interval": HEALTH_EVERY}, "ulimits": {"nofile": files}}
        if node in configurations:
            services[node]["volumes"] = [f"{configurations[node]}:{CONFIGURATION}:ro"]
        if not restart:
            services[node]["restart"] = "no"
    services |= {name: {"image": spark_image.TAG} for name in (*SPARK_SERVICES, SPARK_JOB)}
    return {"services": services}
