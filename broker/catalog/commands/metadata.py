"""The port through which what is declared is changed: one door, whether one node keeps it or a cluster agrees on it.

A command that was submitted has been applied to the catalog and is durable when its answer comes; one that was refused has
changed nothing. Commands are applied in the order in which they were submitted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from broker.catalog.commands.catalog_commands import Command
from broker.pending import Pending

# Called right after a command was applied, with what `Catalog.apply` answered.
OnApplied = Callable[[Command, Any], None]


class Metadata(Protocol):
    """Where commands go."""

    def submit(self, command: Command) -> Pending[Any]:
        """Answers what `Catalog.apply` answered, once that is durable. A refusal is the BrokerError that apply raised;
        ResourceExhausted says that nothing can be kept now (the disk failed, no majority)."""

    def subscribe(self, on_applied: OnApplied) -> None:
        """Call this after every command that is applied from now on, in the order of subscribing."""
