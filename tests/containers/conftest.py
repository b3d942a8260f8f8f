"""One cluster of containers for all tests that leave it well."""

from __future__ import annotations

from collections.abc import Iterator

import docker
import pytest
from docker.errors import DockerException

from tests.containers import image, spark_image
from tests.containers.cluster import SPARK_SERVICES, ContainerCluster


@pytest.fixture(scope="session")
def engine_with_image() -> None:
    try:
        docker.from_env().images.get(image.TAG)
    except DockerException as error:
        pytest.fail(f"{error}: begin these tests with `make test-containers`")


@pytest.fixture(scope="session")
def cluster(engine_with_image: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContainerCluster]:
    yield from begun(ContainerCluster(tmp_path_factory.mktemp("compose")))


@pytest.fixture(scope="session")
def cluster_with_spark(engine_with_image: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContainerCluster]:
    """The nodes and, beside them, a master and a worker of Spark."""
    spark_image.build()
    yield from begun(ContainerCluster(tmp_path_factory.mktemp("compose"), beside=SPARK_SERVICES))


def begun(cluster: ContainerCluster) -> Iterator[ContainerCluster]:
    """With users; ended afterwards."""
    try:
        cluster.begin()
        cluster.add_users()
        yield cluster
    finally:
        cluster.end()
