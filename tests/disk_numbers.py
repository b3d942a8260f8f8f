"""What worlds without a catalog keep on a node's disk: which process it is, and which numbers its members may have.

A test's own supervisor stands for the catalog: it grants each empty disk a life, and counts them upward.
"""

from __future__ import annotations

from raft.store.replicas import ReplicaNumbers, reserved_from
from storage import fact_file, names
from storage.disk import Disk

LIFE_NUMBERS = 1 << 20  # of one life; the first one begins behind the numbers of founders


def begin_process(disk: Disk, life: int, wall_ms: int) -> tuple[int, ReplicaNumbers]:
    """The incarnation of a process, above that of every earlier one on this disk, and its numbers. `life`, from 1, is the one
    that the disk is granted if it is empty. Raises Corrupt and StorageError."""
    facts = fact_file.load(disk, names.NODE_FACTS)
    if facts is None:
        facts = {"incarnation": 0, "life": life, "reserved": life * LIFE_NUMBERS}
    end = (facts["life"] + 1) * LIFE_NUMBERS
    given: int = facts["reserved"]
    facts["incarnation"] = max(facts["incarnation"] + 1, wall_ms)
    facts["reserved"] = reserved_from(given + 1, end)
    fact_file.save(disk, names.NODE_FACTS, facts)

    def reserve(reserved: int) -> None:
        facts["reserved"] = reserved
        fact_file.save(disk, names.NODE_FACTS, facts)

    return facts["incarnation"], ReplicaNumbers(given, facts["reserved"], end, reserve)
