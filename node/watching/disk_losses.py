"""What this process has found its disk to have lost, for `cluster status` on any node.

The log tells each place when it is found. This keeps the sum until the process ends: an operator who looks at the cluster sees
that a disk is not to be trusted, also after everything that was lost is repaired.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from broker.records import QueueRecord
from raft.core.errors import Damaged, ReadmittedEarly

logger = logging.getLogger("leveret")


@dataclass(slots=True)
class DiskLosses:
    """Each sentence continues the node's name."""

    log_places: int = 0  # where the log was damaged at the start
    log_is_gone: bool = False
    members: int = 0  # of groups that others repair, at the start or since
    cut: list[tuple[QueueRecord, int]] = field(default_factory=list)  # last copies, and the last entry left of each

    def queue_cut(self, record: QueueRecord, kept: int) -> str:
        """The sentence about this queue, for the log."""
        self.cut.append((record, kept))
        left = f"goes on with entries up to {kept}" if kept else "begins empty"
        return (
            f"{record.label} had its only copy on this node, and a part of that is damaged or gone: it {left}. Confirmed "
            f"messages behind that, if there were any, are lost, and messages that were acknowledged there come again"
        )

    def member_begins_anew(self, group: int, damage: Damaged, *, alone: bool) -> None:
        """Of a queue. `alone`: there are no others to repair it."""
        if isinstance(damage, ReadmittedEarly):
            logger.info("group %d begins anew on this node: %s", group, damage)
            return
        logger.error("group %d takes no part on this node for now: %s", group, damage)
        self.members += not alone

    def sentences(self) -> tuple[str, ...]:
        found = []
        if self.log_is_gone:
            found.append("found nothing of its log when it started: what was only there is lost")
        elif self.log_places:
            places = count_of(self.log_places, "place")
            found.append(f"found its log damaged when it started, at {places}: its disk is not to be trusted")
        if self.members:
            found.append(
                f"could not vouch for {count_of(self.members, 'replicated log')} any more, which the other nodes repair"
            )
        if self.cut:
            record, _ = self.cut[0]
            found.append(
                f"may have lost messages of {count_of(len(self.cut), 'quorum queue')}, such as "
                f"{record.label}: it had the only copy"
            )
        return tuple(found)


def count_of(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
