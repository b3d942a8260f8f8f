"""Whether a node's log ends in order, or may have said more: of a node that was killed, and of a copy that was cut off.

A node that is idle or was stopped has a mark at the end of its log that vouches for all before it. Records, or parts of one,
that stand behind what marks vouch for are of a commit that was being written, of which more may have been there.
"""

from __future__ import annotations

from analytics.inputs import LogFile, NodeDisk, unless_deleted
from storage.history.column_reader import ColumnReader, last_mark
from storage.record import MARK_BYTES, MARK_BYTES_MIN, ROLL_BYTES, Mark


def open_since(file: LogFile) -> int | None:
    """The time of the last mark in a node's last file, µs, where something stands behind what marks vouch for; 0: none says
    the time. None: the log ends in order."""
    with unless_deleted(file):
        reader = ColumnReader(NodeDisk(file.directory), file.name)
        mark: Mark | None = None
        for piece in reader.pieces():
            mark = last_mark(piece) or mark
        is_torn = any(one.torn for one in reader.damage)
        if mark is None or is_torn or not _vouches_for_all(mark, reader.place.base):
            return 0 if mark is None else mark.time_us
    return None


def _vouches_for_all(mark: Mark, end: int) -> bool:
    """The first one of a file does so for the file before."""
    is_first = mark.offset == ROLL_BYTES
    is_up_to_itself = (mark.durable_file, mark.durable_offset) == (mark.file, mark.offset)
    return end - mark.offset in (MARK_BYTES, MARK_BYTES_MIN) and (is_first or is_up_to_itself)
