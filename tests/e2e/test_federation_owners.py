"""Links of exchanges in a cluster of real processes: one node runs each, and another goes on when that leaves it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from links.federation.node_federation import CLAIMED_AS
from links.federation.wanted_links import EXCHANGE, LinkKey
from tests.e2e.link_owners import (
    CLUSTER,
    COUNT,
    LEAVINGS,
    LinkOwners,
    first_of_extra,
    link_owners,
    sleep_until_another_runs_it,
)
from tests.e2e.test_federation import bodies, declare_x, federate, links, publish_to_x
from tests.e2e.test_shovels import until, waiting

UPSTREAM = first_of_extra(CLAIMED_AS, lambda name: ("/", LinkKey("/", EXCHANGE, "x", name, "x").id))


@dataclass
class FederationOwners(LinkOwners):
    """The link brings messages of the broker's exchange x to that of the cluster, and so to a queue on `more`."""

    def running(self) -> list[str]:
        return [one["node"] for one in links(self.more) if one["status"] == "running"]

    def check_that_all_arrived(self) -> None:
        queue = f"federation: x -> {CLUSTER}"
        until("the upstream's queue is empty", lambda: waiting(self.broker, queue) == 0)
        until("all are here", lambda: waiting(self.more, "q") >= COUNT)
        assert set(map(int, bodies(self.more, "q"))) == set(range(COUNT))


@contextmanager
def owners(folder: Path) -> Iterator[FederationOwners]:
    with link_owners(FederationOwners, folder) as found:
        declare_x(found.more, "k").close()
        federate(found.more, found.broker, "^x$", "exchanges", UPSTREAM, prefetch_count=20)
        until("extra runs the link", lambda: found.running() == ["extra"])
        publish_to_x(found.broker, COUNT)
        until("a part has come", lambda: waiting(found.more, "q") > 100)
        yield found


@pytest.mark.parametrize("leaves", LEAVINGS)
def test_another_node_runs_the_link_and_nothing_is_lost(tmp_path: Path, leaves: Callable[[LinkOwners], Any]) -> None:
    with owners(tmp_path) as found:
        leaves(found)
        found.moved_by_another()
        found.check_that_all_arrived()
        assert len(found.running()) == 1


def test_a_node_that_wakes_up_when_another_one_runs_its_link_leaves_it_there(tmp_path: Path) -> None:
    with owners(tmp_path) as found:
        sleep_until_another_runs_it(found)
        found.check_that_all_arrived()
