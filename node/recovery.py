"""What a start makes of the node's log, for all who keep something in it: classic queues and replicated groups."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from broker.records import QueueRecord
from raft.store.group_stores import NodeStores
from storage import names
from storage.disk import Disk
from storage.errors import Corrupt
from storage.wal.facts import LogFacts
from storage.wal.file_reader import Chunk
from storage.wal.files import LogKeeper
from storage.wal.log_core import LogEnd
from storage.wal.replay import Replay

logger = logging.getLogger("leveret")


@dataclass(slots=True, frozen=True)
class Recovered:
    """Where the log goes on, and what that had been durable is missing."""

    end: LogEnd
    places: int  # where the log is damaged
    is_gone: bool  # there was a log, and nothing is left of it
    groups: int  # whose replicated logs are broken

    @property
    def lost(self) -> bool:
        """Whether this disk cannot vouch for what it had promised."""
        return bool(self.places or self.groups or self.is_gone)


class LogReader(Protocol):
    """Who keeps something in the log besides replicated groups: the classic queues."""

    def recover(self, chunks: Iterable[Chunk], records: Iterable[QueueRecord]) -> int:
        """Read the log to its end, for these queues. Returns the highest number of one that has messages there and is not among
        them, or 0. Raises Corrupt."""


def recover(
    disk: Disk,
    facts: LogFacts,
    raft: NodeStores,
    others: LogReader,
    records: Iterable[QueueRecord],
    *,
    had_log: bool,
    next_queue_id: int,
    older_catalog: bool,
    keeper: LogKeeper | None = None,
) -> Recovered:
    """Read the log once. Raises Corrupt and what the disk raises. `had_log`: an earlier process wrote one here; all files of a
    log that are gone leave no trace of their own. `next_queue_id`: the catalog has given no queue a number from this one on.
    `older_catalog`: an operator has said that what it does not know of may go. `keeper`: who is given released files of the log
    before they go."""
    replay = Replay(disk, facts, salvage=True)
    newest_unknown = others.recover(raft.recover(replay, facts.first_file), records)
    if newest_unknown >= next_queue_id:  # it would be taken for a queue that was deleted, and its messages let go
        reason = (
            f"it knows of no classic queue above number {next_queue_id - 1}, and the log has messages of number "
            f"{newest_unknown}: the catalog was lost, or is an older one"
        )
        if not older_catalog:
            raise Corrupt(names.CATALOG_DIRECTORY, 0, 0, f"{reason}. Put back the one that belongs to this log")
        logger.error("%s. As node.older_catalog asks for, these messages are let go", reason)
    end = replay.finish(keeper)
    raft.finish(end)
    for damage in replay.damage:
        logger.error(
            "the log is damaged: file %d, %d bytes at %d: %s. What it held is lost on this node",
            damage.file_number, damage.length, damage.offset, damage.reason,
        )  # fmt: skip
    is_gone = replay.nothing_is_left or (had_log and end.file_number == 0)
    if is_gone:
        logger.error(
            "nothing is left of the log. What only this node had is lost, and what it had promised to other nodes is void: its "
            "members of groups come back as new ones"
        )
    return Recovered(end, len(replay.damage), is_gone, len(raft.renumbered))
