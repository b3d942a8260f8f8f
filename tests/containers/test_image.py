"""The image by itself: what `docker run leveret` gives, before anything is known of other nodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import docker
import pytest
from docker.models.containers import Container

from tests.containers import image
from tests.containers.cluster import HEALTH_EVERY, LOOK_S, READY_WITHIN_S, STOP_WITHIN_S

pytestmark = pytest.mark.containers

NANOSECONDS = 1_000_000_000
HEALTH = {"interval": int(HEALTH_EVERY.removesuffix("s")) * NANOSECONDS}
# A cluster of two, whose other node never comes. Any file with enough bytes is a secret.
WAITING = ["serve", "--data-dir", "/var/lib/leveret", "--peer", "127.0.0.1:5681", "--secret-file", "/etc/os-release"]
WAITING += ["--peers", "127.0.0.1:5681", "--peers", "127.0.0.1:9"]

Begin = Callable[..., Container]


@pytest.fixture
def begin(engine_with_image: None) -> Iterator[Begin]:
    client = docker.from_env(timeout=2 * STOP_WITHIN_S)
    begun: list[Container] = []

    def run(*command: str) -> Container:
        container = client.containers.run(
            image.TAG, list(command) or None, detach=True, init=True, network_mode="none", healthcheck=HEALTH
        )
        begun.append(container)
        return container

    yield run
    for container in begun:
        container.remove(force=True, v=True)
    client.close()


def said(container: Container) -> str:
    return str(container.logs().decode())


def until(holds: Callable[[], bool], container: Container) -> None:
    end = time.monotonic() + READY_WITHIN_S
    while not holds():
        assert time.monotonic() < end, said(container)[-3_000:]
        time.sleep(LOOK_S)


def health(container: Container) -> str:
    container.reload()
    return str(container.attrs["State"]["Health"]["Status"])


def stopped(container: Container) -> int:
    """Its exit code. It must not have been killed in the end."""
    began = time.monotonic()
    container.stop(timeout=STOP_WITHIN_S)
    assert time.monotonic() - began < STOP_WITHIN_S / 2
    container.reload()
    return int(container.attrs["State"]["ExitCode"])


def test_a_node_alone_is_healthy_keeps_its_volume_and_stops_in_order(begin: Begin) -> None:
    container = begin()
    until(lambda: health(container) == "healthy", container)
    container.exec_run(["leveretctl", "queue", "declare", "kept"])
    assert stopped(container) == 0
    container.start()
    until(lambda: said(container).count("ready: ") == 2, container)
    assert b"kept" in container.exec_run(["leveretctl", "queue", "list"]).output
    assert stopped(container) == 0


def test_a_node_that_waits_for_the_others_is_not_healthy_and_stops_when_it_is_asked(begin: Begin) -> None:
    container = begin(*WAITING)
    until(lambda: "127.0.0.1:9" in said(container), container)
    assert health(container) != "healthy"
    assert stopped(container) == 0


def test_a_stop_in_the_first_moment_is_heard(begin: Begin) -> None:
    assert stopped(begin()) in (0, 143)  # 143: told before it listened for it
