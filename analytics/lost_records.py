"""What one file of a log should have and has not: bytes that are no records, and what the file behind it says that there was.

The head of each file says where the log ended in the file before. So a file that was cut off between two records, or whose end
is zeros now, is not taken for a whole one.
"""

from __future__ import annotations

import json
from contextlib import suppress

from analytics.coverage import DELETED
from analytics.inputs import LogFile, segment_group
from storage import snapshot_file
from storage.disk import Disk
from storage.errors import Corrupt
from storage.history.column_reader import ColumnReader, DamagedRange, head_of
from storage.names import LOG_SUFFIX, NODE_FACTS, archived, log_file
from storage.os_disk import OsDisk
from storage.record import Roll

NOT_BEGUN = "nothing is written in the file"
BEHIND_GAP = "the file before it is missing, and how much that had is not known"
CUT_OFF = "the file behind it says that the log went on here"
OTHER_LOG = "the file behind it is of another log"
OTHER_FILE = "its head says that it is another file of the log"
RAM = "ram"  # a node's kind, as its facts have it (node/identity.py)


def deleted(file: LogFile) -> list[DamagedRange]:
    """What a file of the log had that was there when its node was looked at, and was gone when it was to be read."""
    is_segment = segment_group(file) is not None  # other segments have by now what still counts of it
    return [] if is_segment else [DamagedRange(0, file.size, torn=False, reason=DELETED)]


def lost_of(file: LogFile, reader: ColumnReader) -> list[DamagedRange]:
    """Of a file that was read to its end."""
    if not file.name.endswith(LOG_SUFFIX):
        return reader.damage
    if file.is_behind_gap:
        return [DamagedRange(0, 0, torn=False, reason=BEHIND_GAP)]
    ending = _not_begun(file, reader) if file.is_last else _behind(file, reader)
    return [*reader.damage, *_misnamed(file), *ending]


def _misnamed(file: LogFile) -> list[DamagedRange]:
    """A copy of one file in the place of another: what is to be there is missing."""
    head = _head_of(OsDisk(file.directory, read_only=True), file.number)
    return [] if head is None or head.file == file.number else [DamagedRange(0, 0, torn=False, reason=OTHER_FILE)]


def _not_begun(file: LogFile, reader: ColumnReader) -> list[DamagedRange]:
    is_empty = not (reader.place.log_id or reader.place.base or reader.damage)
    is_lost = is_empty and not _is_of_a_ram_node(file.directory)
    return [DamagedRange(0, file.size, torn=False, reason=NOT_BEGUN)] if is_lost else []


def _is_of_a_ram_node(directory: str) -> bool:
    """Which makes a file of a log, and never writes to it. Facts are JSON (storage/fact_file.py, which Spark's workers lack
    something for)."""
    with suppress(FileNotFoundError, Corrupt, ValueError):
        return json.loads(snapshot_file.load(OsDisk(directory, read_only=True), NODE_FACTS)).get("kind") == RAM  # type: ignore[no-any-return]
    return False


def _behind(file: LogFile, reader: ColumnReader) -> list[DamagedRange]:
    end = max([reader.place.base, *(one.offset + one.length for one in reader.damage)])
    head = _head_of(OsDisk(file.directory, read_only=True), file.number + 1)
    if head is None or head.file != file.number + 1:
        return []
    if reader.place.log_id and head.log_id != reader.place.log_id:
        return [DamagedRange(end, 0, torn=False, reason=OTHER_LOG)]
    return [DamagedRange(end, head.previous_end - end, torn=False, reason=CUT_OFF)] if end < head.previous_end else []


def _head_of(disk: Disk, number: int) -> Roll | None:
    """None: the file is missing or damaged, which others tell. A running node moves files to its archive."""
    here = log_file(number)
    for name in (here, archived(here)):
        with suppress(FileNotFoundError):
            return head_of(disk, name)
    return None
