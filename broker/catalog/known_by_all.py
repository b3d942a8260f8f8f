"""What only nodes of this version know of is declared once all nodes of the cluster do.

A door before the metadata's. A node of an earlier version could not go on with what the catalog says then, or would take it for
something else than the others. Which nodes know it they tell each other (node/catalog/entry_versions.py). Uses of queues are
counted from then on, too (broker/catalog/parts/queue_uses.py); before that a deletion says nothing of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from broker.catalog.catalog import Catalog
from broker.catalog.commands.catalog_commands import (
    Command,
    DeclareExchange,
    DeclareQueue,
    DeleteQueue,
    PutPolicy,
    TakeClaim,
    UseQueue,
)
from broker.catalog.commands.metadata import Metadata, OnApplied
from broker.catalog.commands.metadata_entry import (
    ENTRY_CONVERSIONS,
    ENTRY_DELAYING_QUEUES,
    ENTRY_DELAYS,
    ENTRY_QUEUE_USES,
)
from broker.catalog.mirroring import MIRRORING_KEYS
from broker.errors import PreconditionFailed
from broker.exchanges.delayed_exchange import DELAYED_KIND
from broker.exchanges.delaying_queue import DELAYED_MESSAGES
from broker.exchanges.federation_upstream import FEDERATION_KIND
from broker.names import is_becoming
from broker.pending import Pending

NEWER_KINDS = frozenset({DELAYED_KIND, FEDERATION_KIND})


class KnownByAll:
    """See the module. Fulfils Metadata."""

    def __init__(self, metadata: Metadata, catalog: Catalog, behind: Callable[[int], Sequence[str]]) -> None:
        """`behind`: names of nodes of which it is not known that they read entries of a version."""
        self._metadata = metadata
        self._catalog = catalog
        self._behind = behind

    def submit(self, command: Command) -> Pending[Any]:
        newer = self._newer(command)
        behind = self._behind(_version_of(command)) if newer else ()
        if behind:
            return Pending.failed(
                PreconditionFailed(
                    f"{newer} can be declared once all nodes know of them, and it is not known that {', '.join(behind)} "
                    "do: start and update these nodes, or have those that are gone forgotten"
                )
            )
        return self._submit_counting(command)

    def _submit_counting(self, command: Command) -> Pending[Any]:
        match command:
            case DeclareQueue() if not self._behind(ENTRY_QUEUE_USES):
                command = replace(command, counted=True)
            case DeleteQueue(uses=int()) if self._behind(ENTRY_QUEUE_USES):
                command = replace(command, uses=None)
            case UseQueue(vhost, name, id) if self._behind(ENTRY_QUEUE_USES):
                record = self._catalog.queue(vhost, name)
                return Pending.of(record if record is not None and record.id == id else None)
        return self._metadata.submit(command)

    def subscribe(self, on_applied: OnApplied) -> None:
        self._metadata.subscribe(on_applied)

    def _newer(self, command: Command) -> str:
        """What this asks for that earlier versions do not know; empty: nothing that is not there already."""
        match command:
            case DeclareExchange(record) if record.kind in NEWER_KINDS:
                there = self._catalog.exchange(record.vhost, record.name) is not None
                return "" if there else f"exchanges of the type {record.kind}"
            case TakeClaim():
                return "" if any(self._catalog.claim_records()) else "claims on shovels"
            case PutPolicy(record) if not MIRRORING_KEYS.isdisjoint(record.definition):
                return "policies with ha-mode and other keys of mirroring"
            case DeclareQueue(name=name) if is_becoming(name):
                return "queues that others are converted to"
            case DeclareQueue(vhost, name, arguments=arguments) if arguments.get(DELAYED_MESSAGES) is True:
                return "" if self._catalog.queue(vhost, name) is not None else f"queues with {DELAYED_MESSAGES}"
        return ""


def _version_of(command: Command) -> int:
    """Of entries: who reads these knows what the command asks for."""
    if isinstance(command, DeclareQueue):
        return ENTRY_CONVERSIONS if is_becoming(command.name) else ENTRY_DELAYING_QUEUES
    return ENTRY_DELAYS
