"""From the log to segments: what still lives in a rolled log file is written to its writers' segments.

The log file may be released only after this has returned: then every segment is sealed and fsynced, and so are the names.
A crash in between leaves temporary files or whole segments, and doing it again replaces both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from storage.disk import Disk
from storage.names import temporary
from storage.record import Record
from storage.segment import SegmentWriter
from storage.wal_file_reader import Chunk


def flush(disk: Disk, chunks: Iterable[Chunk], segment_of: Callable[[Record], str | None]) -> list[str]:
    """Write each record to the segment that `segment_of` names; None: it is dead. Returns the segments, all durable.

    A record whose index was written already is an older one that was overwritten, or a second one of the same; the caller
    names a segment only for the one that counts. Raises DiskFull and DiskFailed: then keep the log file.
    """
    writers: dict[str, SegmentWriter] = {}
    try:
        for chunk in chunks:
            with memoryview(chunk.buffer) as view:
                for record in chunk.records:
                    name = segment_of(record)
                    if name is not None:
                        kind, flags, term, writer, index, start, end = record
                        segment = writers.get(name) or _begin(disk, name, writers)
                        segment.append(kind, writer, index, [bytes(view[start:end])], flags, term)
            for segment in writers.values():
                segment.write()
        for name, segment in writers.items():
            segment.seal()
            disk.rename(temporary(name), name)
        for directory in sorted({name.rpartition("/")[0] for name in writers}):
            disk.sync_dir(directory)
    finally:
        for segment in writers.values():
            segment.close()
    return list(writers)


def _begin(disk: Disk, name: str, writers: dict[str, SegmentWriter]) -> SegmentWriter:
    with suppress(FileNotFoundError):  # of a flush that a crash ended
        disk.delete(temporary(name))
    writers[name] = SegmentWriter(disk, temporary(name))
    return writers[name]
