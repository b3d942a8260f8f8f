"""Shovels of a cluster of real processes: one node runs each, and another goes on when that dies, sleeps or is drained."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from leveret import Node
from tests.e2e.link_owners import (
    COUNT,
    LEAVINGS,
    LinkOwners,
    first_of_extra,
    link_owners,
    sleep_until_another_runs_it,
)
from tests.e2e.test_cluster import on
from tests.e2e.test_shovels import drain, fill, until, uri, waiting

SHOVEL = first_of_extra("shovel", lambda name: ("/", name))


@dataclass
class ShovelOwners(LinkOwners):
    """The shovel moves messages from one queue of the broker to another one."""

    def running(self) -> list[str]:
        async def ask(node: Node) -> list[str]:
            return [one.node for one in (await node.admin.shovels()).shovels if one.node]

        return on(self.cluster.grpc(1), ask)

    def forwarded(self) -> int:
        async def ask(node: Node) -> int:
            return sum(one.forwarded for one in (await node.admin.shovels()).shovels)

        return on(self.cluster.grpc(1), ask)

    def check_that_all_arrived(self) -> None:
        until("the source is empty", lambda: waiting(self.broker, "from") == 0 and waiting(self.broker, "to") >= COUNT)
        bodies = [int(body) for _, body in drain(self.broker, "to", waiting(self.broker, "to"))]
        assert set(bodies) == set(range(COUNT))


@contextmanager
def owners(folder: Path) -> Iterator[ShovelOwners]:
    with link_owners(ShovelOwners, folder) as found:
        fill(found.broker, "from", COUNT)
        definition = {
            "src-uri": uri(found.broker), "src-queue": "from", "dest-uri": uri(found.broker), "dest-queue": "to",
            "src-prefetch-count": 20,
        }  # fmt: skip
        on(found.cluster.grpc(1), lambda node: node.admin.put_shovel(SHOVEL, definition))
        until("extra moves messages", lambda: found.running() == ["extra"] and found.forwarded() > 100)
        yield found


@pytest.mark.parametrize("leaves", LEAVINGS)
def test_another_node_goes_on_and_nothing_is_lost(tmp_path: Path, leaves: Callable[[LinkOwners], Any]) -> None:
    with owners(tmp_path) as found:
        leaves(found)
        found.moved_by_another()
        found.check_that_all_arrived()
        assert len(found.running()) == 1


def test_a_node_that_wakes_up_when_another_one_runs_its_shovel_leaves_it_there(tmp_path: Path) -> None:
    with owners(tmp_path) as found:
        sleep_until_another_runs_it(found)
        found.check_that_all_arrived()
