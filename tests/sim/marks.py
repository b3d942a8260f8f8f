"""What the marks of a log vouch for, read from the bytes of a disk at rest.

A mark says up to where the log had been fsynced, so damage before that place is no torn tail, and must be noticed. Damage in
several places may hit the marks as well. When none is left that vouches for a changed byte, nothing tells it from what a power
cut leaves of a commit that nobody was promised.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from struct import pack

from storage import names
from storage.record import HEADER_BYTES, MARK_BYTES, ROLL_BYTES, VERSION, Kind, Mark, decode_mark, decode_roll, scan
from tests.sim.disk import SimDisk

Place = tuple[int, int]  # log file, offset
Logs = Mapping[int, bytes]  # the content of log files by their number

LENGTH_AT = 4
MARK_LOOK = pack("<IBB", MARK_BYTES - HEADER_BYTES, Kind.MARK, VERSION)  # the header's bytes from there on


def logs_on(disk: SimDisk) -> Logs:
    prefix = names.LOG_DIRECTORY + "/"
    numbers = {name: names.number_of(name, names.LOG_SUFFIX) for name in disk.files() if name.startswith(prefix)}
    return {number: disk.content(name) for name, number in numbers.items() if number is not None}


def look_torn(before: Logs, after: Logs) -> bool:
    """Whether a byte has changed that was vouched for, and is no more."""
    start, end = vouched(after), vouched(before)
    return any(start <= place < end for place in changed(before, after))


def vouched(logs: Logs) -> Place:
    """Everything before this place was fsynced, say the marks that are whole, and the heads of files: each file was begun
    when all before it was."""
    place = (0, 0)
    for number, content in logs.items():
        marks = list(_marks(number, content))
        if marks or _has_head(number, content):
            place = max(place, (number, 0))
        place = max([place, *((mark.durable_file, mark.durable_offset) for mark in marks)])
    return place


def changed(before: Logs, after: Logs) -> Iterator[Place]:
    for number, content in before.items():
        now = after.get(number, b"")
        if now != content:
            now = now.ljust(len(content), b"\0")
            yield from ((number, at) for at, byte in enumerate(content) if now[at] != byte)


def _marks(number: int, content: bytes) -> Iterator[Mark]:
    found = content.find(MARK_LOOK)
    while found >= 0:
        at = found - LENGTH_AT
        payload = _payload(content, at, Kind.MARK, MARK_BYTES)
        mark = decode_mark(payload) if payload is not None else None
        if mark is not None and (mark.file, mark.offset) == (number, at):
            yield mark
        found = content.find(MARK_LOOK, found + 1)


def _has_head(number: int, content: bytes) -> bool:
    payload = _payload(content, 0, Kind.ROLL, ROLL_BYTES)
    roll = decode_roll(payload) if payload is not None else None
    return roll is not None and roll.file == number


def _payload(content: bytes, at: int, kind: Kind, size: int) -> bytes | None:
    """Of the record of this kind and size that lies there; None if there is none, or it is not whole."""
    if not 0 <= at <= len(content) - size:
        return None
    records, stop, _ = scan(content[at : at + size], 0, size, size)
    is_one = len(records) == 1 and records[0][0] == kind and stop == size
    return content[at + HEADER_BYTES : at + size] if is_one else None
