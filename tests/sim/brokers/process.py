"""One life of a whole broker: node/kernel.py over simulated ports.

Left out is what needs sockets and asyncio: fronts, the bytes of links, first boots, and what operators wait for.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from broker.broker import Broker
from broker.catalog.catalog_state import CatalogDamaged, decode_state
from broker.errors import BrokerError, PreconditionFailed
from broker.pending import ignore
from broker.turns import Turns
from node.background import Inline
from node.catalog.catalog_store import NothingKept
from node.catalog.cluster_metadata import ClusterMetadata
from node.conversion.conversion import Conversion
from node.foundation import Foundation
from node.identity import RAM
from node.kernel import ENTER_S, Kernel
from node.peers.calls import PeerCalls
from quorum.driver import QuorumQueues
from storage import names
from storage.errors import Corrupt, StorageError
from tests.sim.brokers.catalog_file import CatalogFile
from tests.sim.brokers.classics import WatchedClassicQueues
from tests.sim.brokers.parts import NoPasswords, kernel_settings, parts_of
from tests.sim.brokers.ways import SimWays, Wire
from tests.sim.parts import SlowWork, no_delay
from tests.sim.process import Process

if TYPE_CHECKING:
    from tests.sim.brokers.site import BrokerSite

LOGGER = logging.getLogger("sim.brokers")


class BrokerProcess(Process):
    """See the module."""

    site: BrokerSite
    has_begun = False

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
        self.wire, self.ways = Wire(self), SimWays(self)
        self.calls = PeerCalls(self.wire, self.loop, LOGGER)
        self.kernel = Kernel(self.ports, kernel_settings(self), parts_of(self), identity, self.calls)
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
        self._has_entered = False
        self._began = site.clock.monotonic()
        kernel.meet(self.ways, site.clock.wall_ms(), list)
        *others, started = kernel.enter(lambda: "hash")
        for one in others:
            one.then(ignore, ignore)
        started.then(self._entered, self._not_entered)
        self.has_begun = True
        super().begin()

    def _entered(self, _: Any) -> None:
        self._has_entered = True

    def _not_entered(self, error: BrokerError) -> None:
        """A real node stops with the reason."""
        if isinstance(error, PreconditionFailed):
            self._is_on_an_old_disk(error.text)

    def _is_on_an_old_disk(self, why: str) -> None:
        """As others say: it is given another one."""
        assert self.site.damaged or self.site.was_rolled_back, f"its disk is no old one: {why}"
        self.site.rolled_back = True
        raise Corrupt(names.NODE_FACTS, 0, 0, why)

    # The port Process

    def leave_out(self, reason: str) -> None:
        self._is_on_an_old_disk(reason)

    def fail(self, reason: str) -> None:
        """By its disk, perhaps."""
        if isinstance(sys.exception(), StorageError):
            self.failed = self.failed or reason
        else:
            super().fail(reason)

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
    def conversions(self) -> list[Conversion]:
        """Those that are under way here."""
        return list(self.kernel.conversions.running.values()) if self.has_begun else []

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
        return (self._has_entered or (waited and self.kernel.may_serve_alone)) and not self.broker.closed_because

    @property
    def has_stopped_its_jobs(self) -> bool:
        return super().has_stopped_its_jobs or self.classic.gave_up

    # What operators ask for

    def drain(self, done: Callable[[], None]) -> None:
        """Before a maintenance: others lead, and clients go elsewhere."""

        drain = self.kernel.upkeep.drain()

        def drained(_: None) -> None:
            if drain.stands:
                self.broker.send_clients_away("this node is drained")
                done()

        drain.answer.then(drained, ignore)

    def revive(self) -> None:
        self.broker.let_clients_in()
        self.kernel.upkeep.revive().then(ignore, ignore)

    @property
    def is_drained(self) -> bool:
        return self.kernel.upkeep.drained

    def hand_over(self, done: Callable[[], None]) -> None:
        self.kernel.upkeep.hand_over().then(lambda _: done(), ignore)
