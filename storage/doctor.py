"""Dumps and verifies any file of ours, without changing it. The CLI, the tests and whoever analyses logs use this.

`dump` tells what is in a file, `verify` what is wrong with it; for the data directory of a stopped node, verify looks at
everything in it, and what is not there. Formats of other folders are added with `register`, and lists of files that must be
there with `register_list`; what no format claims is not ours, and is not judged.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from struct import error
from typing import Any

from storage import fact_file, snapshot_file
from storage.archive.summary import Summary
from storage.disk import Disk
from storage.errors import Corrupt, StorageError, TornTail
from storage.history.column_reader import ColumnReader
from storage.history.count_records import decode_counts
from storage.history.name_records import decode_actor, decode_gone, decode_name
from storage.history.reader_records import decode_readers
from storage.names import (
    ARCHIVE_DIRECTORY,
    LOG_DIRECTORY,
    LOG_FACTS,
    LOG_SUFFIX,
    NODE_FACTS,
    SEGMENT_SUFFIX,
    SUMMARY_SUFFIX,
    log_file,
    number_of,
    numbers_in,
)
from storage.os_disk import OsDisk
from storage.record import (
    FIRST_KIND_OF_WRITERS,
    HEADER_BYTES,
    PAYLOAD_BYTES_MAX,
    ROLL_BYTES,
    Kind,
    Record,
    decode_mark,
    decode_roll,
    scan,
)
from storage.segment import Segment
from storage.wal.facts import LogFacts
from storage.wal.file_reader import LogFileReader
from storage.wal.replay import Replay

Row = dict[str, Any]
Describe = Callable[[memoryview], Row]
Claims = Callable[[str], bool]


@dataclass(slots=True, frozen=True)
class Finding:
    """Something wrong. `damage` was durable once; what is not damage is the trace of a crash, and harmless."""

    path: str
    offset: int
    length: int
    damage: bool
    reason: str


@dataclass(slots=True, frozen=True)
class Format:
    """One kind of file. `dump` and `verify` get the directory and the file's name in it; verify raises what it finds:
    Corrupt or TornTail, or yields findings when there can be several."""

    name: str
    claims: Claims  # by the file's name, without its path
    dump: Callable[[Disk, str], Iterator[Row]]
    verify: Callable[[Disk, str], Iterator[Finding]]


Looks = Callable[[OsDisk], Iterator[Finding]]

_formats: list[Format] = []
_lists: list[Looks] = []
_described: dict[int, Describe] = {}  # by kind of record


def register(new: Format) -> None:
    """Add a format. Each file belongs to the first format that claims it."""
    assert all(known.name != new.name for known in _formats), f"there is a format {new.name} already"
    _formats.append(new)


def register_list(missing: Looks) -> None:
    """Have a data directory looked at for files that its own lists name, and that are missing or of another size. `missing`
    gets the directory, and passes over a list that cannot be read: it is found as a file of its own."""
    _lists.append(missing)


def describe(kind: Kind, what: Describe) -> None:
    """Have a dump show what the payload of such a record says. `what` may raise for bytes that are none."""
    assert kind not in _described, f"records of kind {kind.name} are described already"
    _described[kind] = what


def formats() -> list[str]:
    """Names of all formats that are known."""
    return [known.name for known in _formats]


def dump(path: str) -> Iterator[Row]:
    """What is in this file, in its order, as far as it can be read. Raises ValueError for a file that is not ours."""
    known = _format_of(path)
    if known is None:
        raise ValueError(f"{path} is none of our files; we know {', '.join(formats())}")
    yield from known.dump(_directory_of(path), os.path.basename(path))


def columns(path: str) -> ColumnReader:
    """The records of a file as columns. Raises ValueError for a file that is not made of records."""
    known = _format_of(path)
    if known is None or known.dump is not dump_records:
        raise ValueError(f"{path} is no file of records")
    return ColumnReader(_directory_of(path), os.path.basename(path))


def verify(path: str) -> list[Finding]:
    """What is wrong with a file, or with everything in a data directory."""
    if os.path.isdir(path):
        return list(_verify_directory(path))
    known = _format_of(path)
    if known is None:
        raise ValueError(f"{path} is none of our files; we know {', '.join(formats())}")
    return list(_verify_file(known, path))


def is_ours(path: str) -> bool:
    """Whether a format claims this file, by its name."""
    return _format_of(path) is not None


def _format_of(path: str) -> Format | None:
    name = os.path.basename(path)
    return next((known for known in _formats if known.claims(name)), None)


def _directory_of(path: str) -> Disk:
    return OsDisk(os.path.dirname(os.path.abspath(path)), read_only=True)


def _verify_file(known: Format, path: str) -> Iterator[Finding]:
    try:
        for found in known.verify(_directory_of(path), os.path.basename(path)):
            yield Finding(path, found.offset, found.length, found.damage, found.reason)
    except Corrupt as error:
        yield Finding(path, error.offset, error.length, True, error.reason)
    except TornTail as error:
        yield Finding(path, error.whole, error.size - error.whole, False, "an unfinished write")
    except (StorageError, OSError) as error:
        yield Finding(path, 0, 0, True, str(error))


def _verify_directory(root: str) -> Iterator[Finding]:
    """The log as a whole, since its files know of each other, what lists name, and every other file by itself, also those of
    the archive."""
    disk = OsDisk(root, read_only=True)
    yield from _verify_log(disk)
    for missing in _lists:
        yield from missing(disk)
    for directory, below, names in os.walk(root):
        below.sort()
        for name in sorted(names):
            path = os.path.join(directory, name)
            known = _format_of(path)
            if known is not None and (known.name != "log" or os.path.basename(directory) == ARCHIVE_DIRECTORY):
                yield from _verify_file(known, path)


def _verify_log(disk: OsDisk) -> Iterator[Finding]:
    if not numbers_in(disk.list(LOG_DIRECTORY), LOG_SUFFIX):
        return
    try:
        stored = fact_file.load(disk, LOG_FACTS)
    except Corrupt:
        return  # it is found as a file of its own
    if stored is None:
        yield Finding(disk.path(LOG_FACTS), 0, 0, True, "it is missing, and the log's id with it")
        return
    replay = Replay(disk, LogFacts(bytes.fromhex(stored["log_id"]), stored["first_file"]), salvage=True)
    for _ in replay.chunks():
        pass  # looking is all
    for found in replay.damage:
        yield Finding(disk.path(log_file(found.file_number)), found.offset, found.length, True, found.reason)
    if replay.torn_bytes:
        yield Finding(disk.path(LOG_DIRECTORY), 0, replay.torn_bytes, False, "an unfinished commit ends the log")


# The log.


def _log_reader(disk: Disk, name: str) -> LogFileReader:
    """A reader for one log file that lies anywhere. The log's id is taken from its head."""
    file = disk.open(name)
    try:
        head = file.read_at(0, ROLL_BYTES)
    finally:
        file.close()
    records, _, _ = scan(head, 0, len(head), PAYLOAD_BYTES_MAX)
    roll = decode_roll(head[records[0][5] : records[0][6]]) if records and records[0][0] == Kind.ROLL else None
    if roll is None:
        raise Corrupt(name, 0, len(head), "the head is unreadable: look at the whole data directory instead")
    return LogFileReader(disk, name, roll.file, roll.log_id)


def dump_records(disk: Disk, name: str) -> Iterator[Row]:
    """Every record of a file that is made of records. What cannot be read ends the dump with a row of its own."""
    data = disk.read_file(name)
    records, stop, reason = scan(data, 0, len(data), PAYLOAD_BYTES_MAX)
    for record in records:
        yield _row(record, data[record[5] : record[6]])
    rest = data[stop:].rstrip(b"\0")
    if rest:
        yield {"offset": stop, "kind": "UNREADABLE", "size": len(rest), "stop": reason}


def _row(record: Record, payload: bytes) -> Row:
    kind, flags, term, writer, index, start, end = record
    name = Kind(kind).name if kind in list(Kind) else str(kind)
    row: Row = {"offset": start - HEADER_BYTES, "kind": name, "size": end - start}
    if kind >= FIRST_KIND_OF_WRITERS:
        return row | {"writer": writer, "index": index, "term": term, "flags": flags} | described(kind, payload)
    detail = decode_mark(payload) if kind == Kind.MARK else decode_roll(payload) if kind == Kind.ROLL else None
    if detail is None:
        return row
    return row | detail._asdict() | {"log_id": detail.log_id.hex(), "offset": start - HEADER_BYTES}


def described(kind: int, payload: bytes) -> Row:
    """What a payload says, for kinds that somebody can explain."""
    known = _described.get(kind)
    if known is None:
        return {}
    try:
        return {"says": known(memoryview(payload))}
    except (ValueError, IndexError, error) as what:
        return {"unreadable": str(what)}


def _describe_counts(payload: memoryview) -> Row:
    span_ms, rows = decode_counts(payload)
    return {"span_ms": span_ms, "rows": [row._asdict() for row in rows]}


def verify_log_file(disk: Disk, name: str) -> Iterator[Finding]:
    """One file of the log, wherever it lies and whatever its name is."""
    if not disk.read_file(name).strip(b"\0"):
        return  # prepared for commits that were never written
    reader = _log_reader(disk, name)
    try:
        while True:
            for _ in reader.records(None):
                pass  # looking is all
            mark = reader.next_mark(None, durable=False)
            if mark is None:
                break
            yield Finding(name, reader.position, mark.offset - reader.position, True, reader.why)
            reader.resume_at(mark)
        if used := reader.used_bytes():
            yield Finding(name, reader.position, used, False, f"not vouched for by any mark: {reader.why}")
    finally:
        reader.close()


# Segments.


def _verify_segment(disk: Disk, name: str) -> Iterator[Finding]:
    segment = Segment(disk, name)
    try:
        for _ in segment.records():
            pass  # it raises what is wrong
    finally:
        segment.close()
    yield from ()


# Facts.


def _dump_facts(disk: Disk, name: str) -> Iterator[Row]:
    yield fact_file.load(disk, name) or {}


def _verify_facts(disk: Disk, name: str) -> Iterator[Finding]:
    fact_file.load(disk, name)
    yield from ()


# What is archived.


def _dump_summary(disk: Disk, name: str) -> Iterator[Row]:
    summary = Summary.decode(name, snapshot_file.load(disk, name))
    yield {field: getattr(summary, field) for field in ("whole", "first_us", "last_us", "end", "commits")}
    for row in summary.writers:
        yield row._asdict()
    for queue, called in summary.queues or ():
        yield {"queue": queue, **({} if called is None else called._asdict())}


def _verify_summary(disk: Disk, name: str) -> Iterator[Finding]:
    Summary.decode(name, snapshot_file.load(disk, name))
    yield from ()


register(Format("log", lambda name: number_of(name, LOG_SUFFIX) is not None, dump_records, verify_log_file))
register(Format("segment", lambda name: number_of(name, SEGMENT_SUFFIX) is not None, dump_records, _verify_segment))
register(
    Format(
        "archive summary",
        lambda name: name.endswith(SUMMARY_SUFFIX),
        _dump_summary,
        _verify_summary,
    )
)
register(Format("facts", lambda name: name in (NODE_FACTS, LOG_FACTS), _dump_facts, _verify_facts))
describe(Kind.ACTOR, lambda payload: decode_actor(payload)._asdict())
describe(Kind.ACTOR_GONE, lambda payload: {"reason": decode_gone(payload)})
describe(Kind.NAME, lambda payload: decode_name(payload)._asdict())
describe(Kind.COUNTS, _describe_counts)
describe(Kind.STREAM_READERS, lambda payload: {"readers": [row._asdict() for row in decode_readers(payload)]})
