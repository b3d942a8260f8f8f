"""pytest plugin: the node under test stands in for the broker that a suite would start in Docker.

aio-pika starts its broker through a module `tests.docker_client` of its own, aiormq through two fixtures that its sdist
leaves out. This plugin puts a module of that name in place before a conftest imports it, and offers the fixtures.
`run` answers with the ports of the node under test, which is neither started nor stopped. Anything else that a test
wants of Docker (stop the broker, run a command in it) raises `NoDocker`, so such a test fails here on every broker and
never enters a recorded list.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest
from yarl import URL


class NoDocker(RuntimeError):
    """A test asked Docker for something that a plain node cannot do."""


@dataclass
class ContainerInfo:
    id: str
    ports: dict[str, int]
    host: str


@dataclass
class DockerHostInfo:
    is_tcp: bool = False


class DockerNotAvailableError(Exception):
    """Named by the suites' conftest; never raised, since no Docker is needed."""


def check_docker_available() -> DockerHostInfo:
    return DockerHostInfo()


def _address(variable: str) -> tuple[str, int]:
    host, _, port = os.environ[variable].rpartition(":")
    return host, int(port)


class DockerClient:
    def __init__(self, docker_host_info: DockerHostInfo | None = None) -> None:
        self.docker_host_info = docker_host_info

    def run(self, image: str, ports: list[str], environment: dict[str, str] | None = None) -> ContainerInfo:
        if environment:
            raise NoDocker(f"a broker of its own with {sorted(environment)} was asked for ({image})")
        host, amqp_port = _address("COMPAT_AMQP")
        _, amqps_port = _address("COMPAT_AMQPS")
        offered = {"5672/tcp": amqp_port, "5671/tcp": amqps_port}
        missing = [port for port in ports if port not in offered]
        if missing:
            raise NoDocker(f"ports {missing} were asked for, only {sorted(offered)} are offered ({image})")
        return ContainerInfo(id="node-under-test", ports={port: offered[port] for port in ports}, host=host)

    def kill(self, container_id: str) -> None:
        """The node outlives the suite."""

    def remove(self, container_id: str) -> None:
        """The node outlives the suite."""

    def __getattr__(self, name: str) -> Any:
        raise NoDocker(f"'{name}' needs a broker that the test may stop and start")


@pytest.fixture(scope="session")
def rabbitmq_container() -> ContainerInfo:
    return DockerClient().run("none", ["5672/tcp", "5671/tcp"])


@pytest.fixture(scope="session")
def amqp_direct_url(rabbitmq_container: ContainerInfo) -> URL:
    port = rabbitmq_container.ports["5672/tcp"]
    return URL.build(scheme="amqp", user="guest", password="guest", host=rabbitmq_container.host, port=port, path="//")


_module = ModuleType("tests.docker_client")
for _name in ("ContainerInfo", "DockerClient", "DockerHostInfo", "DockerNotAvailableError", "check_docker_available"):
    setattr(_module, _name, globals()[_name])
sys.modules["tests.docker_client"] = _module
