"""node/kernel.py: what a node does by itself, in one of a simulated cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from broker.catalog.commands.metadata_entry import METADATA_GROUP
from node import archiving as archiving_of_nodes
from node.kernel import Kernel
from node.kernel_settings import KernelSettings
from quorum.driver import QuorumQueues
from raft.store.groups_file import GroupsFile
from storage.archive.archive_window import ArchiveLimits
from storage.names import ARCHIVE_DIRECTORY, RAFT_GROUPS, SUMMARY_SUFFIX
from storage.wal.facts import load_or_create
from storage.wal.writer import LogWriter
from stream.driver import StreamQueues
from tests.sim.brokers import process as process_of_brokers
from tests.sim.brokers.parts import kernel_settings
from tests.sim.brokers.plan import BrokerShape, draw
from tests.sim.brokers.process import BrokerProcess
from tests.sim.disk import SimDisk
from tests.sim.layers import layer_of
from tests.sim.plan import Ask, Plan

ARCHIVE_BYTES = 20_000


@pytest.fixture
def kernel() -> Kernel:
    shape = BrokerShape(seconds=16.0, groups=0, queues="plain", publishers=1, takers=1)
    world = layer_of("brokers").world(Plan(1, shape, (), (), "brokers"))
    world.form()
    process = world.sites[1].process
    assert isinstance(process, BrokerProcess)
    return process.kernel


def holds(kernel: Kernel) -> list[tuple[str, bool]]:
    """Who is told to hold publishers, or to let them go on: those of this node, and other nodes."""
    told: list[tuple[str, bool]] = []
    kernel.hold_publishers = lambda held: told.append(("clients", held))
    kernel.anywhere.hold = lambda held: told.append(("nodes", held))  # type: ignore[method-assign]
    kernel.tick()
    assert told == []
    return told


def test_publishers_wait_here_and_on_other_nodes_while_too_much_waits_for_the_disk(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = holds(kernel)
    limit = kernel._settings.gathering_bytes_max
    waiting = limit
    monkeypatch.setattr(LogWriter, "gathering_bytes", property(lambda log: waiting))
    kernel.tick()
    assert told == []
    waiting = limit + 1
    for _ in range(2):
        kernel.tick()
    assert told == [("nodes", True), ("clients", True)], "once"
    waiting = 0
    kernel.tick()
    assert told[2:] == [("nodes", False), ("clients", False)]


@pytest.mark.parametrize("kind", [QuorumQueues, StreamQueues], ids=["quorum queues", "streams"])
def test_publishers_of_this_node_alone_wait_while_too_much_waits_for_leaders(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, kind: type
) -> None:
    """Other nodes have leaders of their own to wait for."""
    told = holds(kernel)
    monkeypatch.setattr(kind, "congested", property(lambda queues: True))
    kernel.tick()
    assert told == [("nodes", False), ("clients", True)]


def test_a_node_that_archives_keeps_what_its_log_gives_up_and_tidies_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a simulated cluster promises it keeps all the same."""

    def archiving(process: BrokerProcess) -> KernelSettings:
        return replace(kernel_settings(process), archive=ArchiveLimits(24, ARCHIVE_BYTES, 0))

    monkeypatch.setattr(process_of_brokers, "kernel_settings", archiving)
    monkeypatch.setattr(archiving_of_nodes, "TIDY_MS", 1_000)
    world = layer_of("brokers").world(draw(2, 8.0))
    world.run()
    figures = [site.process.kernel.archive_figures() for site in world.sites.values() if site.process is not None]
    assert any(one.files for one in figures), "nothing was kept, or nobody has looked at it"
    assert all(one.size <= ARCHIVE_BYTES for one in figures)
    kept = [name for site in world.sites.values() for name in site.disk.list(ARCHIVE_DIRECTORY)]
    assert any(name.endswith(SUMMARY_SUFFIX) for name in kept)


def both_copies_rot(disk: SimDisk) -> None:
    for name in RAFT_GROUPS:
        disk.flip_bit(name, 200)


def newer_copy_rots(disk: SimDisk) -> None:
    """The one that is left is of the first start, when there was no member yet."""
    disk.flip_bit(RAFT_GROUPS[0], 200)
    GroupsFile(generation=1).save(disk)


@pytest.mark.parametrize("harm", [both_copies_rot, newer_copy_rots])
def test_a_node_that_has_forgotten_its_member_of_the_catalog_begins_it_under_another_number(
    harm: Callable[[SimDisk], None],
) -> None:
    """Simulated seed 400560: what that member had voted and acknowledged counted for the new one, which knew nothing of it."""
    shape = BrokerShape(
        seconds=16.0, voters=3, frail=1, groups=0, queues="plain", publishers=1, takers=1, file_bytes_max=2048
    )
    asks = tuple(Ask(round(0.3 + 0.01 * at, 3), 1, 0, "publish", "plain", 200) for at in range(300))
    world = layer_of("brokers").world(Plan(1, shape, (), asks, "brokers"))
    world.form()
    site = world.sites[1]
    for ask in asks:
        world.loop.call_at(world.loop.time() + ask.at, world.ask, ask)
    world.loop.run_for(6.0)
    assert site.process is not None
    before = site.process.store.group(METADATA_GROUP).member
    site.end(power=True)
    assert load_or_create(site.disk, b"").first_file > 1, "all is in the log, and nothing can be forgotten"
    harm(site.disk)
    site.damaged = site.rolled_back = True
    world.start(site)
    assert isinstance(site.process, BrokerProcess)
    assert site.process.store.group(METADATA_GROUP).member > before
    assert "1 replicated log" in " ".join(site.process.kernel.disk_losses.sentences())
