"""What becomes of an entry of the metadata log: the same on every node, and for who reads the log later.

A node that does not know what became of a command sends it again. So for each node the last command is remembered that was
carried out: what has a number up to there was done before (REPEATED), and what does not follow it is not done yet (MISSED):
whoever sent it begins anew behind the last one. So each is carried out once, in the order in which it was submitted, whatever
happens on the way. An entry of a process that is over, as a later one has sent something, is not carried out (LATE).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from broker.catalog.catalog import Catalog
from broker.catalog.catalog_state import Sessions
from broker.catalog.commands.catalog_commands import Command
from broker.catalog.commands.metadata_entry import Origin
from broker.errors import BrokerError, InternalError
from broker.pending import without_frames


class EntryFate(Enum):
    """What became of an entry."""

    DONE = "done"  # or refused: `Outcome.error` says so
    REPEATED = "repeated"
    MISSED = "missed"
    LATE = "late"
    SKIPPED = "skipped"  # a snapshot brought what all up to this one of the same process did: nobody here has seen how


@dataclass(slots=True, frozen=True)
class CommandOutcome:
    """One entry and what became of it."""

    origin: Origin
    verdict: EntryFate
    command: Command | None = None
    result: Any = None
    error: BrokerError | None = None


def carry_out(catalog: Catalog, sessions: Sessions, origin: Origin, command: Command) -> CommandOutcome:
    """Changes the catalog, or is refused and changes nothing; in both cases this was the node's last command."""
    verdict = _verdict(sessions, origin)
    if verdict is not EntryFate.DONE:
        return CommandOutcome(origin, verdict)
    sessions[origin.node] = origin.incarnation, origin.number
    try:
        return CommandOutcome(origin, verdict, command, catalog.apply(command))
    except BrokerError as error:
        return CommandOutcome(origin, verdict, command, error=without_frames(error))
    except Exception as error:  # a mistake of ours, the same on every node: one command must not end them all
        return CommandOutcome(origin, verdict, command, error=InternalError(f"{type(command).__name__}: {error!r}"))


def _verdict(sessions: Mapping[int, tuple[int, int]], origin: Origin) -> EntryFate:
    incarnation, last = sessions.get(origin.node, (0, 0))
    if origin.incarnation < incarnation:
        return EntryFate.LATE
    if origin.incarnation > incarnation:
        last = 0
    if origin.number <= last:
        return EntryFate.REPEATED
    return EntryFate.DONE if origin.previous == last else EntryFate.MISSED
