"""The backend of containers: the cluster of deploy/compose.yaml, whose networks and volumes are the engine's.

The compose file has three disk nodes and one RAM node, so scenarios with more are left out. Run it where an engine is:

    python -m tests.containers python -m tests.chaos --backend containers

Isolating takes a node off the network on which nodes speak to each other; clients reach it on another.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import docker
from docker.errors import DockerException

from tests.chaos.backend import Address, BaseBackend, Can, NodeFailed, Shape
from tests.containers import image
from tests.containers.cluster import (
    AMQP_PORT,
    CONFIGURATION,
    DEPLOY,
    DISK_NODES,
    GRPC_PORT,
    OPERATOR,
    PASSWORD,
    RAM_NODES,
    ContainerCluster,
    NotReady,
)

NODES_NETWORK = "nodes"


def unavailable(needs: frozenset[Can]) -> str | None:
    """Why containers cannot do this here, or None when they can."""
    if beyond := needs - Containers.can:
        return f"containers cannot {', '.join(sorted(what.value for what in beyond))}"
    if os.geteuid() != 0:
        return "the files of containers are root's"
    try:
        docker.from_env().images.get(image.TAG)
    except DockerException:
        return "no engine has the image: run it with `python -m tests.containers` in front"
    return None


class Containers(BaseBackend):
    can = frozenset({Can.ISOLATE, Can.CONFIG})

    def __init__(self, shape: Shape, scratch: Path, needs: frozenset[Can] = frozenset()) -> None:
        assert (why_not := self.unfit(shape)) is None, why_not
        del needs  # it can always do all that it can
        self.shape = shape
        self.credentials = (OPERATOR, PASSWORD)
        self._configurations = {node: scratch / f"{node}.toml" for node in shape.names}
        for node in shape.names:
            self._configure(node)
        self._cluster = ContainerCluster(scratch, shape.names, self._configurations, restart=False)
        self._isolated: set[str] = set()

    @classmethod
    def unfit(cls, shape: Shape) -> str | None:
        if shape.disk_nodes == len(DISK_NODES) and shape.ram_nodes <= len(RAM_NODES):
            return None
        return f"deploy/compose.yaml has {len(DISK_NODES)} disk nodes and {len(RAM_NODES)} RAM node"

    def begin(self) -> None:
        try:
            self._cluster.begin()
        except NotReady as error:
            raise NodeFailed(str(error)) from error
        self._cluster.add_users()

    def end(self) -> None:
        self._cluster.end()

    def amqp(self, node: str) -> Address:
        return self._cluster.address(node, AMQP_PORT)

    def grpc(self, node: str) -> str:
        host, port = self._cluster.address(node, GRPC_PORT)
        return f"{host}:{port}"

    def log(self, node: str) -> str:
        return self._cluster.log(node)

    def is_running(self, node: str) -> bool:
        return self._cluster.container(node).status in ("running", "paused")

    def start(self, node: str) -> None:
        self._configure(node)
        self._start(node)

    def start_with(self, node: str, config: str) -> None:
        self._configure(node, config)
        self._start(node)

    def _start(self, node: str) -> None:
        give_to_owner(self.data_dir(node))
        try:
            self._cluster.start_again(node)
        except NotReady as error:
            self.kill(node)
            raise NodeFailed(str(error)) from error

    def stop(self, node: str) -> None:
        code = self._cluster.stop(node)
        if code != 0:
            raise NodeFailed(f"{node} stopped with exit code {code}: {self.log(node)[-3_000:]}")

    def kill(self, node: str) -> None:
        container = self._cluster.container(node)
        with suppress(DockerException):  # it may have ended by itself
            container.kill()
        container.wait()

    def pause(self, node: str) -> None:
        self._cluster.container(node).pause()

    def resume(self, node: str) -> None:
        container = self._cluster.container(node)
        if container.status == "paused":  # it may have been killed meanwhile
            container.unpause()

    def data_dir(self, node: str) -> Path:
        return self._cluster.volume(node)

    def isolate(self, node: str) -> None:
        if node not in self._isolated:
            self._cluster.network(NODES_NETWORK).disconnect(self._cluster.container(node))
            self._isolated.add(node)

    def mend(self) -> None:
        for node in sorted(self._isolated):
            alias = f"{node}.{NODES_NETWORK}"  # as in the compose file
            self._cluster.network(NODES_NETWORK).connect(self._cluster.container(node), aliases=[alias])
        self._isolated.clear()

    def _configure(self, node: str, more: str = "") -> None:
        """What stands in this file holds from the node's next start on; it is mounted, so it has to stay the same file."""
        text = (DEPLOY / Path(CONFIGURATION).name).read_text()
        self._configurations[node].write_text(text + self.shape.config + more)


def give_to_owner(directory: Path) -> None:
    """Files that were put here from outside, by root, to whom the directory is: the node is not root."""
    owner = directory.stat()
    for path in directory.rglob("*"):
        os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
