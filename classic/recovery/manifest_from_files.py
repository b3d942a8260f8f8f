"""The manifest that is rebuilt from the files themselves, when the saved one is lost: each file counts as durable as it is."""

from __future__ import annotations

from collections.abc import Iterable

from broker.records import QueueRecord
from classic.store.index_entries import IN_BODY
from classic.store.manifest import Manifest
from classic.store.queue_index import Segment
from classic.store.segment_reader import Loaded, read_segment
from storage import names
from storage.disk import Disk


def manifest_from_files(disk: Disk, records: Iterable[QueueRecord]) -> Manifest:
    rebuilt = Manifest()
    for record in records:
        directory = names.queue_directory(record.vhost, record.name, record.id)
        for number in names.numbers_in(disk.list(directory), names.INDEX_SUFFIX):
            data = disk.read_file(names.index_segment(directory, number))
            loaded = read_segment(data, record.id, number)
            first = loaded.firsts[0] if loaded.firsts else 0
            end = max((fields[0] + fields[1] for fields in loaded.entries), default=0)
            body_size = body_bytes_of(disk, names.body_file(directory, number), loaded)
            segment = Segment(number, len(data), body_size, first, end, in_store=True)
            rebuilt.queues.setdefault(record.id, (directory, {}))[1][number] = segment
    for number in names.numbers_in(disk.list(names.STORE_PERSISTENT), names.STORE_SUFFIX):
        rebuilt.store[number] = len(disk.read_file(names.store_file(names.STORE_PERSISTENT, number)))
    return rebuilt


def body_bytes_of(disk: Disk, name: str, loaded: Loaded) -> int:
    """How long a body file is, or was when its index was written: no other content may be put where entries point to."""
    found = len(disk.read_file(name)) if disk.exists(name) else 0
    return max([found, *(fields[9] + fields[8] for fields in loaded.entries if fields[4] == IN_BODY)])
