"""Shovels of a cluster of real processes: one node runs each, and another goes on when that dies, sleeps or is drained."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from leveret import Node
from links.link_claims import LEASE_S, TAKE_S, TURN_S, ranked
from tests.e2e.test_cluster import address_of, joining, on, status_when
from tests.e2e.test_shovels import drain, fill, until, uri, waiting
from tests.running_cluster import RunningCluster, running_cluster
from tests.running_node import RunningNode, running_node

NAMES = ("n1", "extra", "more")
COUNT = 20_000
MOVES_WITHIN_S = TAKE_S + len(NAMES) * TURN_S + 6  # on a busy machine
SHOVEL = next(name for name in map(str, range(100)) if ranked("shovel", ("/", name), NAMES)[0] == "extra")


@dataclass
class World:
    """A cluster of three, of which `extra` runs the shovel, and a broker beside it, within which that moves messages."""

    cluster: RunningCluster
    extra: RunningNode
    more: RunningNode
    broker: RunningNode

    def running(self) -> list[str]:
        """The nodes that say that they run the shovel, as `n1` hears them."""

        async def ask(node: Node) -> list[str]:
            return [one.node for one in (await node.admin.shovels()).shovels if one.node]

        return on(self.cluster.grpc(1), ask)

    def forwarded(self) -> int:
        async def ask(node: Node) -> int:
            return sum(one.forwarded for one in (await node.admin.shovels()).shovels)

        return on(self.cluster.grpc(1), ask)

    def moved_by_another(self, within_s: float) -> float:
        """How long it takes until another node than `extra` runs it."""
        began = time.monotonic()
        until("another node runs it", lambda: set(self.running()) & {"n1", "more"}, within_s)
        return time.monotonic() - began

    def check_that_all_arrived(self) -> None:
        until("the source is empty", lambda: waiting(self.broker, "from") == 0 and waiting(self.broker, "to") >= COUNT)
        bodies = [int(body) for _, body in drain(self.broker, "to", waiting(self.broker, "to"))]
        assert set(bodies) == set(range(COUNT))


@contextmanager
def world(folder: Path) -> Iterator[World]:
    with ExitStack() as stack:
        cluster = stack.enter_context(running_cluster(folder / "data", nodes=1))
        extra, more = (
            stack.enter_context(running_node(*joining(cluster, "--name", name), data_dir=folder / name))
            for name in NAMES[1:]
        )
        status_when(cluster.grpc(1), lambda found: len(found.metadata_voters) == 3)
        found = World(cluster, extra, more, stack.enter_context(running_node("--name", "broker")))
        fill(found.broker, "from", COUNT)
        definition = {
            "src-uri": uri(found.broker), "src-queue": "from", "dest-uri": uri(found.broker), "dest-queue": "to",
            "src-prefetch-count": 20,
        }  # fmt: skip
        on(cluster.grpc(1), lambda node: node.admin.put_shovel(SHOVEL, definition))
        until("extra moves messages", lambda: found.running() == ["extra"] and found.forwarded() > 100)
        yield found


def killed(world: World) -> None:
    world.extra.kill()


def drained(world: World) -> None:
    on(address_of(world.extra), lambda node: node.admin.drain_node())


def stopped(world: World) -> None:
    assert world.extra.stop() == 0


@pytest.mark.parametrize(
    ("leaves", "within_s"), [(killed, MOVES_WITHIN_S), (drained, LEASE_S), (stopped, MOVES_WITHIN_S)]
)
def test_another_node_goes_on_and_nothing_is_lost(
    tmp_path: Path, leaves: Callable[[World], Any], within_s: float
) -> None:
    with world(tmp_path) as found:
        leaves(found)
        found.moved_by_another(within_s)
        found.check_that_all_arrived()
        assert len(found.running()) == 1


def test_a_node_that_wakes_up_when_another_one_runs_its_shovel_leaves_it_there(tmp_path: Path) -> None:
    with world(tmp_path) as found:
        os.kill(found.extra.process.pid, signal.SIGSTOP)
        try:
            found.moved_by_another(MOVES_WITHIN_S)
        finally:
            os.kill(found.extra.process.pid, signal.SIGCONT)
        (owner,) = until("one of them runs it", lambda: len(one := found.running()) == 1 and one)
        assert owner != "extra"
        found.check_that_all_arrived()
