"""What is declared, changed at once and kept nowhere: broker/catalog/commands/metadata.py for tests of what lies above it."""

from __future__ import annotations

from collections import deque
from typing import Any

from broker.catalog.catalog import Catalog
from broker.catalog.commands.catalog_commands import Command, encode_command
from broker.catalog.commands.metadata import OnApplied
from broker.errors import BrokerError
from broker.pending import Pending


class CatalogAtOnce:
    """Fulfils Metadata. With `refusal` set, everything is refused with that, as by a cluster without a majority."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.refusal: BrokerError | None = None
        self._subscribers: list[OnApplied] = []
        self._untold: deque[tuple[Command, Any]] = deque()

    def submit(self, command: Command) -> Pending[Any]:
        if self.refusal is not None:
            return Pending.failed(self.refusal)
        try:
            encode_command(command)
            result = self.catalog.apply(command)
        except BrokerError as error:
            return Pending.failed(error)
        self._tell(command, result)
        return Pending.of(result)

    def subscribe(self, on_applied: OnApplied) -> None:
        self._subscribers.append(on_applied)

    def _tell(self, command: Command, result: Any) -> None:
        """A subscriber may submit commands itself; all subscribers still hear of all of them in the same order."""
        self._untold.append((command, result))
        if len(self._untold) > 1:
            return
        while self._untold:
            for on_applied in self._subscribers:
                on_applied(*self._untold[0])
            self._untold.popleft()
