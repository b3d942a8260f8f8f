"""How much of the groups' logs is kept in memory and in files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class SegmentBounds(NamedTuple):
    """A segment takes no more than this, but one pack at least."""

    entries_max: int
    bytes_max: int


@dataclass(slots=True, frozen=True)
class StoreLimits:
    """Sizes. Tests use tiny ones."""

    segment_entries_max: int = 65_536
    # As much as one file of the node's log has (node/config.py). So what large entries leave of it is a segment of its own,
    # which is never joined with others, and goes as a whole once it is dead.
    segment_bytes_max: int = 64 << 20
    kept_pack_bytes_min: int = (
        4_096  # on average, of those in a log file that becomes a segment (raft/store/kept_logs.py)
    )
    log_files_kept: int = 2  # full log files that wait for their entries to be superseded before these are moved out
    # Of each group, below its snapshot, for followers that are a little behind. An entry may be of many megabytes.
    entries_kept: int = 1_024
    bytes_kept: int = 64 << 20
    memory_bytes_max: int = 16 << 20  # of entries that were appended lately, of all groups
    open_segments_max: int = 64
    small_segments_max: int = 8  # of one group; more of them are joined
    compaction_interval_ms: int = 15_000
    snapshot_part_bytes: int = 8 << 20  # of a snapshot that is received; so much is a file until a job takes it

    @property
    def of_segments(self) -> SegmentBounds:
        return SegmentBounds(self.segment_entries_max, self.segment_bytes_max)
