"""What the log must know before its first byte is read: its id, and which of its files still counts.

The id tells marks of this log from anything that looks like one. `first_file` is moved before the files below it are
deleted, so a file found below it was being deleted, while one missing from there on is damage.
"""

from __future__ import annotations

from dataclasses import dataclass

from storage import fact_file
from storage.disk import Disk
from storage.errors import Corrupt
from storage.names import LOG_DIRECTORY, LOG_FACTS, LOG_SUFFIX, log_file, numbers_in
from storage.record import PAYLOAD_BYTES_MAX, ROLL_BYTES, Kind, decode_roll, scan


@dataclass(slots=True, frozen=True)
class LogFacts:
    """`rebuilt` is not stored: it says that the file was missing or damaged and the log's own files were asked."""

    log_id: bytes
    first_file: int
    rebuilt: bool = False

    def save(self, disk: Disk) -> None:
        fact_file.save(disk, LOG_FACTS, {"log_id": self.log_id.hex(), "first_file": self.first_file})


def load_or_create(disk: Disk, new_log_id: bytes) -> LogFacts:
    """The facts of the log in this directory; of a new one with `new_log_id` (random) when there is none.

    Raises Corrupt when the facts are lost and the log's files do not agree on whose they are.
    """
    disk.make_dir(LOG_DIRECTORY)
    try:
        stored = fact_file.load(disk, LOG_FACTS)
    except Corrupt:
        stored = None
    if stored is not None:
        return LogFacts(bytes.fromhex(stored["log_id"]), stored["first_file"])
    facts = _rebuild(disk) or LogFacts(new_log_id, 1)
    facts.save(disk)
    return facts


def _rebuild(disk: Disk) -> LogFacts | None:
    """The facts as the heads of the log's files tell them; None when there are no files."""
    numbers = numbers_in(disk.list(LOG_DIRECTORY), LOG_SUFFIX)
    if not numbers:
        return None
    ids = {log_id for number in numbers if (log_id := _id_in(disk, number)) is not None}
    if len(ids) != 1:
        raise Corrupt(LOG_FACTS, 0, 0, f"it is lost, and {len(numbers)} log files name {len(ids)} different logs")
    return LogFacts(ids.pop(), numbers[0], rebuilt=True)


def _id_in(disk: Disk, number: int) -> bytes | None:
    file = disk.open(log_file(number))
    try:
        head = file.read_at(0, ROLL_BYTES)
    finally:
        file.close()
    records, _, _ = scan(head, 0, len(head), PAYLOAD_BYTES_MAX)
    if not records or records[0][0] != Kind.ROLL:
        return None
    roll = decode_roll(head[records[0][5] : records[0][6]])
    return roll.log_id if roll is not None and roll.file == number else None
