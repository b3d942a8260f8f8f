"""What this node can not follow any more, for `cluster status` on any node: its log holds what only a later version knows."""

from __future__ import annotations

from collections.abc import Sequence

from node.watching.disk_losses import count_of
from replicated.queue import ReplicatedQueue


def halted_sentences(metadata: str | None, queues: Sequence[ReplicatedQueue]) -> tuple[str, ...]:
    """Each sentence continues the node's name. `metadata`: why the catalog is halted."""
    found = []
    if metadata is not None:
        found.append(f"learns of no change of what is declared any more, and takes none: {metadata}. Update it")
    if queues:
        first = queues[0]
        found.append(
            f"has quarantined its member of {count_of(len(queues), 'quorum queue')}, such as {first.record.label}: "
            f"{first.quarantined}. Update it and start it again"
        )
    return tuple(found)
