"""How the doctor (storage/doctor.py) reads the files of classic queues.

Whether bytes that are no record are damage or the trace of a crash is said by the manifest (classic/store/manifest.py): what
lies before the size noted there had been synced, and what lies behind it the log still has. A file that was copied out of its
data directory has no manifest beside it, and is taken for synced as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from classic.recovery import clean_stop
from classic.store import manifest
from classic.store.log_records import (
    OUT_BEFORE,
    decode_checkpoint,
    decode_deleted,
    decode_published,
    decode_reasoned,
    decode_settled,
)
from storage import doctor, fact_file, snapshot_file
from storage.disk import Disk
from storage.errors import Corrupt
from storage.names import (
    BODY_SUFFIX,
    CLASSIC_CLEAN_STOP,
    CLASSIC_FILES,
    INDEX_SUFFIX,
    STORE_PERSISTENT,
    STORE_SUFFIX,
    STORE_TRANSIENT,
    body_file,
    index_segment,
    number_of,
    store_file,
)
from storage.os_disk import OsDisk
from storage.record import PAYLOAD_BYTES_MAX, Kind, scan

SUFFIXES = {"index": INDEX_SUFFIX, "body": BODY_SUFFIX, "message store": STORE_SUFFIX}
MANIFEST_NAME = CLASSIC_FILES.rpartition("/")[2]
CLEAN_STOP_NAME = CLASSIC_CLEAN_STOP.rpartition("/")[2]


def verify_records(disk: Disk, name: str) -> Iterator[doctor.Finding]:
    data = disk.read_file(name)
    durable = synced_bytes(disk, name, len(data))
    _, stop, reason = scan(data, 0, len(data), PAYLOAD_BYTES_MAX)
    if stop < durable:
        yield doctor.Finding(name, stop, durable - stop, True, f"no record is here: {reason}")
    elif stop < len(data):
        yield doctor.Finding(name, stop, len(data) - stop, False, "the manifest does not vouch for it, the log has it")


def synced_bytes(disk: Disk, name: str, size: int) -> int:
    """How much of this file had been synced, as the manifest notes it. Raises Corrupt for a damaged manifest."""
    assert isinstance(disk, OsDisk), "the doctor reads real files"
    directory = Path(disk.path(""))
    root = OsDisk(str(directory.parents[1]), read_only=True)
    if not root.exists(CLASSIC_FILES):
        return size
    if directory.match(STORE_TRANSIENT):
        return 0  # emptied at the next start, whatever is in it
    noted = manifest.load(root)
    suffix = "." + name.rpartition(".")[2]
    number = number_of(name, suffix)
    assert number is not None, f"{name} was claimed by its number"
    if directory.match(STORE_PERSISTENT):
        return noted.store.get(number, 0)
    for queue_directory, segments in noted.queues.values():
        if directory.match(queue_directory) and number in segments:
            segment = segments[number]
            return segment.index_size if suffix == INDEX_SUFFIX else segment.body_size
    return 0


def missing_files(disk: OsDisk) -> Iterator[doctor.Finding]:
    """What the manifest names is there: a file is taken out of it before it is deleted."""
    if not disk.exists(CLASSIC_FILES) and manifest.has_files(disk):
        why = "it is missing: which files of queues are durable is unknown, and the next start takes them as they are"
        yield doctor.Finding(disk.path(CLASSIC_FILES), 0, 0, True, why)
    try:
        noted = manifest.load(disk)
    except Corrupt:
        return  # it is found as a file of its own
    for queue_id, (directory, segments) in noted.queues.items():
        lost = f"messages of queue {queue_id}"
        for segment in segments.values():
            for name, size in (
                (index_segment(directory, segment.number), segment.index_size),
                (body_file(directory, segment.number), segment.body_size),
            ):
                if size:
                    yield from missing_file(disk, name, size, lost)
    for number, size in noted.store.items():
        yield from missing_file(
            disk, store_file(STORE_PERSISTENT, number), size, "large messages of one queue or several"
        )


def missing_file(disk: OsDisk, name: str, size: int, lost: str) -> Iterator[doctor.Finding]:
    if not disk.exists(name):
        why = f"the file is missing, of which {size} bytes had been synced: {lost} that lay in it are lost"
        yield doctor.Finding(disk.path(name), 0, size, True, why)


def dump_manifest(disk: Disk, name: str) -> Iterator[doctor.Row]:
    yield fact_file.load(disk, name) or {}


def verify_manifest(disk: Disk, name: str) -> Iterator[doctor.Finding]:
    manifest.decode(fact_file.load(disk, name) or {})
    yield from ()


def dump_clean_stop(disk: Disk, name: str) -> Iterator[doctor.Row]:
    summary = clean_stop.decode(snapshot_file.load(disk, name))
    yield {"next_index": summary.next_index, "queues": len(summary.queues), "live": summary.live}


def verify_clean_stop(disk: Disk, name: str) -> Iterator[doctor.Finding]:
    clean_stop.decode(snapshot_file.load(disk, name))
    yield from ()


def describe_published(payload: memoryview) -> doctor.Row:
    published = decode_published(payload)
    return published._asdict() | {
        "origin": published.origin._asdict(),
        "content_bytes": len(payload) - published.head_len,
    }


def describe_settled(payload: memoryview) -> doctor.Row:
    queue_id, ranges = decode_settled(payload)
    return {"queue": queue_id, "ranges": ranges}


def describe_done(payload: memoryview) -> doctor.Row:
    queue_id, actor, reason, ranges = decode_reasoned(payload)
    return {"queue": queue_id, "actor": actor, "reason": reason, "ranges": ranges}


def describe_out(payload: memoryview) -> doctor.Row:
    queue_id, actor, flags, ranges = decode_reasoned(payload)
    return {"queue": queue_id, "actor": actor, "again": bool(flags & OUT_BEFORE), "ranges": ranges}


def describe_checkpoint(payload: memoryview) -> doctor.Row:
    return decode_checkpoint(payload)._asdict()


def claims_number(suffix: str) -> doctor.Claims:
    return lambda name: number_of(name, suffix) is not None


doctor.register_list(missing_files)
for title, suffix in SUFFIXES.items():
    doctor.register(doctor.Format(title, claims_number(suffix), doctor.dump_records, verify_records))
doctor.register(doctor.Format("manifest", lambda name: name == MANIFEST_NAME, dump_manifest, verify_manifest))
doctor.register(doctor.Format("clean stop", lambda name: name == CLEAN_STOP_NAME, dump_clean_stop, verify_clean_stop))
doctor.describe(Kind.CLASSIC_PUBLISH, describe_published)
doctor.describe(Kind.CLASSIC_SETTLE, describe_settled)
doctor.describe(Kind.CLASSIC_PURGE, describe_settled)
doctor.describe(Kind.CLASSIC_QUEUE_DELETED, lambda payload: {"queue": decode_deleted(payload)})
doctor.describe(Kind.CLASSIC_DONE, describe_done)
doctor.describe(Kind.CLASSIC_BACK, describe_done)
doctor.describe(Kind.CLASSIC_CHECKPOINT, describe_checkpoint)
doctor.describe(Kind.CLASSIC_OUT, describe_out)
