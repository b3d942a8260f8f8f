"""What the parts of the catalog need of the whole."""

from __future__ import annotations

from abc import abstractmethod

from broker.catalog.commands.catalog_commands import Record
from broker.catalog.parts.catalog_limits import CatalogLimits
from broker.catalog.parts.namespace import Namespace


class CatalogPart:
    """Each has its commands, and sets nothing of another part."""

    limits: CatalogLimits

    @abstractmethod
    def namespace(self, vhost: str) -> Namespace:
        """What the vhost holds. Raises NotFound."""

    @abstractmethod
    def _changed(self, record: Record, present: bool) -> None: ...
