"""One cluster of containers for all tests that leave it well."""

from __future__ import annotations

from collections.abc import Iterator

import docker
import pytest
from docker.errors import DockerException

from tests.containers import image
from tests.containers.cluster import ContainerCluster


@pytest.fixture(scope="session")
def engine_with_image() -> None:
    try:
        docker.from_env().images.get(image.TAG)
    except DockerException as error:
        pytest.fail(f"{error}: begin these tests with `make test-containers`")


@pytest.fixture(scope="session")
def cluster(engine_with_image: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContainerCluster]:
    cluster = ContainerCluster(tmp_path_factory.mktemp("compose"))
    try:
        cluster.begin()
        cluster.add_users()
        yield cluster
    finally:
        cluster.end()
