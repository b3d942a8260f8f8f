"""What a start makes of the node's log, for all who keep something in it: classic queues and replicated groups."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from broker.records import QueueRecord
from classic.driver import ClassicQueues
from raft.node_log import RaftStore
from storage.disk import Disk
from storage.wal import LogEnd
from storage.wal_facts import LogFacts
from storage.wal_replay import Replay

logger = logging.getLogger("leveret")


@dataclass(slots=True, frozen=True)
class Recovered:
    """Where the log goes on. `lost`: something that had been durable is missing, and this disk cannot vouch for what it had
    promised."""

    end: LogEnd
    lost: bool


def recover(
    disk: Disk, facts: LogFacts, raft: RaftStore, classic: ClassicQueues, records: Iterable[QueueRecord]
) -> Recovered:
    """Read the log once. Raises Corrupt and what the disk raises."""
    replay = Replay(disk, facts, salvage=True)
    classic.recover(raft.recover(replay, facts.first_file), records)
    end = replay.finish()
    raft.finish(end)
    for damage in replay.damage:
        logger.error(
            "the log is damaged: file %d, %d bytes at %d: %s. What it held is lost on this node",
            damage.file_number, damage.length, damage.offset, damage.reason,
        )  # fmt: skip
    return Recovered(end, bool(replay.damage or raft.renumbered))
