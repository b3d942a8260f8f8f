"""What an operator decides of a kernel (node/kernel.py)."""

from __future__ import annotations

from dataclasses import dataclass

from broker.catalog.parts.catalog_limits import CatalogLimits
from broker.history_level import HistoryLevel
from broker.limits import Limits
from broker.routing.fan_out import QUEUES_PER_STEP
from classic.store.node_storage import ClassicLimits
from node.foundation import LogSettings
from quorum.bodies import KEPT_BYTES_MAX
from storage.archive.archive_window import ArchiveLimits


@dataclass(frozen=True, slots=True)
class KernelSettings:
    """The last three are for simulations, which make them small."""

    log: LogSettings
    classic: ClassicLimits
    clients: Limits
    catalog: CatalogLimits | None  # that the cluster is told of; None: of none
    gathering_bytes_max: int  # that wait for the log until publishers wait, too
    grows: bool  # queues get the members that they lack
    reconcile_interval_ms: int
    zone: str
    history: HistoryLevel = HistoryLevel.BASIC
    archive: ArchiveLimits | None = None  # None: nothing is archived
    older_catalog: bool = False
    steps_per_turn: int | None = None  # of work in slices; None: as many as there is time for
    queues_per_step: int = QUEUES_PER_STEP
    entry_bytes_kept_max: int = KEPT_BYTES_MAX
