"""What the parts of the catalog need of the whole."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

from broker.catalog.commands.catalog_commands import Record
from broker.catalog.parts.catalog_limits import CatalogLimits
from broker.catalog.parts.namespace import Namespace
from broker.limits import RATE_LIMITS


class CatalogPart:
    """Each has its commands, and sets nothing of another part."""

    limits: CatalogLimits
    # Those with a limit of broker/limits.py, RATE_LIMITS: ("vhost", name) and ("user", name). The same set for ever.
    rate_limited: set[tuple[str, str]]

    @abstractmethod
    def namespace(self, vhost: str) -> Namespace:
        """What the vhost holds. Raises NotFound."""

    def _note_rates(self, kind: str, name: str, limits: Mapping[str, int]) -> None:
        if RATE_LIMITS.isdisjoint(limits):
            self.rate_limited.discard((kind, name))
        else:
            self.rate_limited.add((kind, name))

    @abstractmethod
    def _changed(self, record: Record, present: bool) -> None: ...
