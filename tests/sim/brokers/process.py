"""One life of a whole broker: node/kernel.py over simulated ports.

Left out is what needs sockets and asyncio: fronts, links, discovery, and node/membership/cluster.py. What the last one does
now and then is done here in the same way: the metadata group's members follow the catalog,
a drained node hands over what it leads, a node that was removed ends.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from broker.broker import Broker, ignore
from broker.catalog_commands import AddNode, Command, JoinNode, NodeStarted, PutNode, PutUser, RemoveNode
from broker.errors import BrokerError, PreconditionFailed
from broker.limits import Limits
from broker.turns import Turns
from classic.shelf import ClassicLimits
from node.background import Inline
from node.catalog.catalog_state import decode_state
from node.catalog.catalog_store import CatalogDamaged, NothingKept
from node.catalog.cluster_metadata import ClusterMetadata
from node.catalog.group import METADATA_GROUP
from node.catalog.group_members import wanted_change
from node.foundation import Foundation
from node.identity import RAM, KnownNode
from node.kernel import ENTER_S, Kernel, KernelSettings
from node.membership.cluster import GO_AROUND_S, TICK_S
from node.peers.calls import PeerCalls
from quorum.driver import QuorumQueues
from raft.driver import Driver
from raft.errors import RaftError
from raft.messages import MemberId, node_of
from storage import names
from storage.errors import Corrupt
from tests.sim.brokers.catalog_file import CatalogFile
from tests.sim.brokers.classics import WatchedClassicQueues
from tests.sim.brokers.parts import NoPasswords, Wire, parts_of
from tests.sim.brokers.plan import BrokerShape
from tests.sim.parts import SlowWork, no_delay
from tests.sim.process import Process

if TYPE_CHECKING:
    from tests.sim.brokers.site import BrokerSite

LOGGER = logging.getLogger("sim.brokers")
RECONCILE_MS = 5_000  # an hour in production


class BrokerProcess(Process):
    """See the module."""

    site: BrokerSite

    # Start and stop

    def read_disk(self) -> None:
        site = self.site
        identity = site.begin_identity()
        if identity.blank:
            raise Corrupt(names.NODE_FACTS, 0, 0, "this node has forgotten which cluster it belongs to")
        identity.take_part()
        if identity.kind == RAM:
            identity.renew_disk()  # what its members promise is forgotten with each process
        self.identity = identity
        self.wire = Wire(self)
        self.calls = PeerCalls(self.wire, self.loop, LOGGER)
        settings = kernel_settings(self, site.world.shape)
        self.kernel = Kernel(self.ports, settings, parts_of(self), identity, self.calls)
        self._open_catalog()
        self.kernel.open_log()

    def _open_catalog(self) -> None:
        site = self.site
        if self.identity.kind == RAM:
            assert site.fetched is not None, f"node {site.number} is started without a catalog"
            metadata = self.kernel.open_catalog(NothingKept(), Inline())
            metadata.machine.stand_on(*decode_state(site.fetched))
            return
        work = SlowWork(self.loop, site.job_delay_s)
        try:
            self.kernel.open_catalog(CatalogFile(site.disk), work)  # type: ignore[arg-type]
        except CatalogDamaged as error:
            raise Corrupt(names.CATALOG_DIRECTORY, 0, 0, str(error)) from error

    def begin(self) -> None:
        site, kernel = self.site, self.kernel
        kernel.join_groups(self)
        self.log.delay_s = site.fsync_delay_s
        kernel.begin(NoPasswords())
        self._drained = False
        self._changing = False
        self._has_entered = False
        self._began = site.clock.monotonic()
        self._cluster_ticks = 0
        self.metadata.subscribe(self._applied)
        *others, started = kernel.enter(site.address, site.name, lambda: "hash")
        for one in others:
            one.then(ignore, ignore)
        started.then(self._entered, self._not_entered)
        super().begin()
        self._cluster_tick()

    def _entered(self, _: Any) -> None:
        self._has_entered = True

    def _not_entered(self, error: BrokerError) -> None:
        """A real node stops with the reason. One that stands on an old disk is given another one."""
        if isinstance(error, PreconditionFailed):
            assert self.site.damaged or self.site.was_rolled_back, f"its disk is no old one: {error}"
            self.site.rolled_back = True
            raise Corrupt(names.NODE_FACTS, 0, 0, error.text)

    def tick(self) -> None:
        self.kernel.tick()

    def close(self) -> None:
        self.log.delay_s = no_delay
        self.kernel.close()
        self.metadata.close()

    # What is there

    @property
    def foundation(self) -> Foundation:  # type: ignore[override]  # of its kernel
        return self.kernel.foundation

    @property
    def metadata(self) -> ClusterMetadata:
        return self.kernel.metadata

    @property
    def broker(self) -> Broker:
        return self.kernel.broker

    @property
    def quorum(self) -> QuorumQueues:
        return self.kernel.quorum

    @property
    def turns(self) -> Turns:
        return self.kernel.turns

    @property
    def classic(self) -> WatchedClassicQueues:
        assert isinstance(self.kernel.classic, WatchedClassicQueues), f"{self.kernel.classic}"
        return self.kernel.classic

    @property
    def number(self) -> int:
        """Of the node in its cluster."""
        return self.kernel.place.number

    @property
    def incarnation(self) -> int:
        return self.kernel.place.incarnation

    @property
    def serves_clients(self) -> bool:
        waited = self.site.clock.monotonic() - self._began > ENTER_S
        return (self._has_entered or (waited and self.kernel.may_serve_alone)) and not self._drained

    @property
    def has_stopped_its_jobs(self) -> bool:
        return super().has_stopped_its_jobs or self.classic.gave_up

    # The cluster

    def _applied(self, command: Command, result: Any) -> None:
        if isinstance(command, AddNode | JoinNode | PutNode | RemoveNode | NodeStarted | PutUser):
            self._follow()

    def _follow(self) -> None:
        """The nodes are those of the catalog, once that knows this one."""
        catalog, me = self.metadata.catalog, self.number
        known = [KnownNode(one.number, one.name, one.address, one.kind) for one in catalog.nodes.values()]
        if any(one.number == me for one in known):
            self.identity.know(known)
        elif 0 < me < catalog.next_node_number and catalog.nodes:
            self.site.removed = True

    def _cluster_tick(self) -> None:
        self._change_members()
        self._cluster_ticks += 1
        if self._cluster_ticks % round(GO_AROUND_S / TICK_S) == 0:
            if self._drained:
                self.hand_over()
            self._announce()
        self.loop.call_after(TICK_S, self._cluster_tick)

    def _change_members(self) -> None:
        driver = self.metadata_driver()
        if driver is None or not driver.leads or self._changing or not self.metadata.catalog.nodes:
            return
        status = driver.core.status()
        if status.change_pending:
            return
        change = wanted_change(status.membership, self.metadata.catalog.nodes.values(), self.number)
        if change is not None:
            self._changing = True
            self.groups.change(METADATA_GROUP, change, self._changed)

    def _changed(self, results: Any, error: RaftError | None) -> None:
        self._changing = False

    def metadata_driver(self) -> Driver | None:
        return next((one for one in self.groups.drivers() if one.group == METADATA_GROUP), None)

    def _announce(self) -> None:
        """A process that has just been started is drained no more."""
        record = self.metadata.catalog.nodes.get(self.site.name)
        if record is not None and record.number == self.number and record.draining != self._drained:
            self.metadata.submit(PutNode(replace(record, draining=self._drained))).then(ignore, ignore)

    def drain(self) -> None:
        """As an operator does before a maintenance: others lead, and clients go elsewhere."""
        self._drained = True
        self._announce()
        self.hand_over()
        self.broker.send_clients_away("this node is drained")

    def revive(self) -> None:
        self._drained = False
        self._announce()
        self.broker.let_clients_in()

    @property
    def is_drained(self) -> bool:
        return self._drained

    def hand_over(self) -> None:
        for driver in list(self.groups.drivers()):
            heir = self._heir(driver) if driver.leads else 0
            if heir:
                try:
                    driver.transfer(heir, self.site.clock.monotonic())
                except RaftError:
                    self.site.world.watch.count("transfer refused")

    def _heir(self, driver: Driver) -> MemberId:
        status = driver.core.status()
        draining = [record.number for record in self.metadata.catalog.nodes.values() if record.draining]
        fit = [
            one
            for one in status.followers
            if one.member in status.membership.voters and not one.suspected and node_of(one.member) not in draining
        ]
        return max(fit, key=lambda one: one.match).member if fit else 0


def kernel_settings(process: Process, shape: BrokerShape) -> KernelSettings:
    return KernelSettings(
        log=process.log_settings(),
        classic=ClassicLimits(
            embed_below=shape.classic_embed_below,
            sequences_per_segment=shape.classic_sequences_per_segment,
            store_file_bytes_max=shape.classic_store_file_bytes,
            runs_max=shape.classic_runs_max,
            ram_count_max=shape.classic_ram_count_max,
            log_files_kept=shape.log_files_kept,
            loaded_runs_max=8,
            compaction_interval_ms=shape.compaction_interval_ms,
        ),
        clients=Limits(),
        catalog=None,
        gathering_bytes_max=shape.uncommitted_bytes_max,
        grows=bool(shape.reconcile),
        reconcile_interval_ms=RECONCILE_MS,
        steps_per_turn=shape.steps_max,
        queues_per_step=shape.queues_per_step,
        entry_bytes_kept_max=shape.memory_bytes_max,  # so that bodies are read from files all the time
    )
