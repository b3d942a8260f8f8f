"""A cluster of three real processes, of which `extra` runs a link to a broker beside it, and the ways in which it leaves it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from links.link_claims import TAKE_S, TURN_S, LinkKey, ranked
from tests.e2e.test_cluster import address_of, joining, on, status_when
from tests.e2e.test_shovels import until
from tests.running_cluster import RunningCluster, running_cluster
from tests.running_node import RunningNode, running_node

CLUSTER = "owners"
NAMES = ("n1", "extra", "more")
COUNT = 20_000  # messages that the link is to move
MOVES_WITHIN_S = TAKE_S + len(NAMES) * TURN_S + 20  # on a busy machine


@dataclass
class LinkOwners:
    """The three, and the broker beside them."""

    cluster: RunningCluster
    extra: RunningNode
    more: RunningNode
    broker: RunningNode

    def running(self) -> list[str]:
        """The nodes that say that they run the link, as `n1` hears them."""
        raise NotImplementedError

    def moved_by_another(self) -> None:
        """Waits until another node than `extra` runs it."""
        until("another node runs it", lambda: set(self.running()) & {"n1", "more"}, MOVES_WITHIN_S)


Owners = TypeVar("Owners", bound=LinkOwners)


@contextmanager
def link_owners(kind: type[Owners], folder: Path) -> Iterator[Owners]:
    config = folder / "owners.toml"
    config.write_text(f'[node]\ncluster_name = "{CLUSTER}"\n')
    with ExitStack() as stack:
        cluster = stack.enter_context(running_cluster(folder / "data", nodes=1, config=config))
        extra, more = (
            stack.enter_context(
                running_node(*joining(cluster, "--name", name, "--config", str(config)), data_dir=folder / name)
            )
            for name in NAMES[1:]
        )
        status_when(cluster.grpc(1), lambda found: len(found.metadata_voters) == 3)
        yield kind(cluster, extra, more, stack.enter_context(running_node("--name", "broker")))


def first_of_extra(kind: str, key_of: Callable[[str], LinkKey]) -> str:
    """A name of a link that `extra` should run."""
    return next(name for name in map(str, range(100)) if ranked(kind, key_of(name), NAMES)[0] == "extra")


def killed(owners: LinkOwners) -> None:
    owners.extra.kill()


def drained(owners: LinkOwners) -> None:
    on(address_of(owners.extra), lambda node: node.admin.drain_node())


def stopped(owners: LinkOwners) -> None:
    assert owners.extra.stop() == 0


# How `extra` leaves its link. That a drained node gives it away at once is shown in tests/unit/links/test_link_claims.py: there
# no other work of the machine can be taken for a claim that has to run out.
LEAVINGS = [killed, drained, stopped]


def sleep_until_another_runs_it(owners: LinkOwners) -> None:
    """`extra` wakes up then, and leaves it there."""
    os.kill(owners.extra.process.pid, signal.SIGSTOP)
    try:
        owners.moved_by_another()
    finally:
        os.kill(owners.extra.process.pid, signal.SIGCONT)
    (owner,) = until("one of them runs it", lambda: len(one := owners.running()) == 1 and one)
    assert owner != "extra"
