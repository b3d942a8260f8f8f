"""Which version of the metadata log's entries may be written: one that every node of the cluster reads.

Each node tells the others what it reads (node/membership/news.py), and from which of its processes that is. It counts once
this node's catalog knows of that process: whoever an earlier process has taken in is in the catalog then, too. A node that
joins says what it reads before it is taken in (node/membership/joining.py). So what all nodes of a catalog read is read by
all that come after them, and is written from then on, whatever is heard later. An entry of the log that has the version shows
that it had come to that.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.catalog.catalog import Catalog
from broker.catalog.commands.metadata_entry import ENTRY_NEWEST, ENTRY_OLDEST
from raft.core.messages import NodeId


class EntryVersions:
    """See the module. Of one process."""

    def __init__(self, catalog: Catalog) -> None:
        # The newest that a node reads, as this process of it has told; set once there is somebody to ask.
        self.told: Callable[[NodeId, int], int] = lambda node, incarnation: ENTRY_OLDEST
        self._catalog = catalog
        self._writable = ENTRY_OLDEST

    def met(self, version: int) -> None:
        """An entry of this version is in the log."""
        self._writable = max(self._writable, version)

    def behind(self, version: int) -> list[str]:
        """Nodes of which it is not known that they read entries of this version."""
        if self.writable() >= version:
            return []
        return [one.name for one in self._catalog.nodes.values() if self.told(one.number, one.incarnation) < version]

    def writable(self) -> int:
        if self._writable < ENTRY_NEWEST:
            told = [self.told(one.number, one.incarnation) for one in self._catalog.nodes.values()]
            self.met(min(told, default=ENTRY_OLDEST))
        return min(self._writable, ENTRY_NEWEST)
