"""What an operator should know of this process, in words, for `cluster status` on any node: what it has found its disk to have
lost, until it is started again, and what it cannot follow.

Everything has been told in the log, place by place. Here it is put together: an operator who looks at the cluster should see
that a disk is not to be trusted, also after all that was lost is repaired.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from broker.records import QueueRecord
from replicated.queue import ReplicatedQueue


@dataclass(slots=True)
class Notices:
    """Each sentence goes on behind the node's name."""

    log_places: int = 0  # where the log was damaged at the start
    log_is_gone: bool = False
    members: int = 0  # of groups that others repair, at the start or since
    cut: list[tuple[QueueRecord, int]] = field(default_factory=list)  # last copies, and the last entry left of each

    def queue_cut(self, record: QueueRecord, kept: int) -> str:
        """The sentence about this queue, for the log."""
        self.cut.append((record, kept))
        left = f"goes on with entries up to {kept}" if kept else "begins empty"
        return (
            f"{record.label} had its only copy on this node, and a part of that is lost: it {left}. Confirmed messages behind "
            f"that are lost, and messages that were acknowledged there come again"
        )

    def sentences(self) -> tuple[str, ...]:
        found = []
        if self.log_is_gone:
            found.append("found nothing of its log when it started: what was only there is lost")
        elif self.log_places:
            places = _count(self.log_places, "place")
            found.append(f"found its log damaged when it started, at {places}: its disk is not to be trusted")
        if self.members:
            found.append(
                f"could not vouch for {_count(self.members, 'replicated log')} any more, which the other nodes repair"
            )
        if self.cut:
            record, _ = self.cut[0]
            found.append(
                f"has lost messages of {_count(len(self.cut), 'quorum queue')}, such as "
                f"{record.label}: it had the only copy"
            )
        return tuple(found)


def stopped_sentences(metadata: str | None, queues: Sequence[ReplicatedQueue]) -> tuple[str, ...]:
    """Of what this node cannot follow any more, as its log holds something that it does not know."""
    found = []
    if metadata is not None:
        found.append(f"learns of no change of what is declared any more, and takes none: {metadata}. Update it")
    if queues:
        first = queues[0]
        found.append(
            f"has quarantined its member of {_count(len(queues), 'quorum queue')}, such as {first.record.label}: "
            f"{first.quarantined}. Update it and start it again"
        )
    return tuple(found)


def _count(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
