"""Clears up after nodes that do not come back: what was exclusive to their clients, or transient there, is deleted for all.

Every node notes since when each other one was not reached. The one that leads the metadata group has those declared lost that
were away for AWAY_S; a node that was started again is another process, and lost only when that one is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from broker.catalog import Catalog
from broker.catalog_commands import Command, NodeLost
from broker.errors import BrokerError
from broker.pending import Pending
from raft.messages import NodeId

AWAY_S = 60.0

logger = logging.getLogger("leveret")


class LostNodes:
    """`tick` now and then."""

    def __init__(
        self,
        node: NodeId,
        catalog: Catalog,
        *,
        reached: Callable[[NodeId], bool],
        leads: Callable[[], bool],
        submit: Callable[[Command], Pending[Any]],
    ) -> None:
        self._node = node
        self._catalog = catalog
        self._reached = reached
        self._leads = leads
        self._submit = submit
        self._away_since: dict[NodeId, float] = {}
        self._declared: set[tuple[NodeId, int]] = set()  # processes that are lost already, or about to be

    def tick(self, now: float) -> None:
        records = [record for record in self._catalog.nodes.values() if record.number != self._node]
        away = [record for record in records if not self._reached(record.number)]
        self._away_since = {record.number: self._away_since.get(record.number, now) for record in away}
        if not away or not self._leads():
            return
        for record in away:
            process = record.number, record.incarnation
            if self._away_since[record.number] <= now - AWAY_S and process not in self._declared and record.incarnation:
                self._declare(process, record.name)

    def _declare(self, process: tuple[NodeId, int], name: str) -> None:
        self._declared.add(process)

        def lost(queues: Any) -> None:
            logger.warning(
                "node '%s' was away for %d s: %d exclusive or transient queues of it are deleted",
                name,
                AWAY_S,
                len(queues),
            )

        def refused(error: BrokerError) -> None:
            self._declared.discard(process)  # another leader's matter, or tried again

        self._submit(NodeLost(name, process[1])).then(lost, refused)
