"""Which files of the classic queues are durable, and up to where: one small file, replaced as a whole.

An index, a body or a store file is appended to at any time, and synced only before the log lets go of what is in it. So after a
crash what lies behind the size noted here is cut off, and a file that is not noted is deleted: the log still has it all. What
lies before that size had been synced; if it cannot be read it is damage. A file is taken out of here before it is deleted.

    {"queues": {id: [directory, [[number, index size, body size, first, end, in store], ...]]}, "store": {number: size}}
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from classic.store.queue_index import QueueIndex, Segment
from classic.store.store import MessageStore
from storage import fact_file
from storage.disk import Disk
from storage.errors import Corrupt
from storage.names import CLASSIC_DIRECTORY, CLASSIC_FILES, STORE_PERSISTENT, is_queue_directory


@dataclass(slots=True)
class Manifest:
    """The sizes of durable files. Segments here are copies, not those in use."""

    queues: dict[int, tuple[str, dict[int, Segment]]] = field(default_factory=dict)
    store: dict[int, int] = field(default_factory=dict)
    _encoded: dict[int, msgspec.Raw] = field(default_factory=dict, compare=False, repr=False)  # queues, for `save`

    def copy(self) -> Manifest:
        """Another one that may be changed: what both have of a queue is shared, and replaced as a whole."""
        return Manifest(dict(self.queues), dict(self.store), dict(self._encoded))

    def note_segments(self, queue_id: int, index: QueueIndex, numbers: Iterable[int]) -> None:
        """These segments of a queue as they are now, or not at all."""
        segments = dict(self.queues[queue_id][1]) if queue_id in self.queues else {}
        for number in numbers:
            one = index.segments.get(number)
            if one is not None and one.index_size:
                segments[number] = Segment(
                    number, one.index_size, one.body_size, one.first, one.end, in_store=one.in_store
                )
            else:
                segments.pop(number, None)
        self._replace(queue_id, index.directory, segments)

    def note_store(self, store: MessageStore) -> None:
        """All files of the store, but for one that nothing was written to yet, whose name may not be durable."""
        self.store = {number: file.size for number, file in store.files.items() if file.size}

    def forget_queue(self, queue_id: int) -> None:
        self.queues.pop(queue_id, None)
        self._encoded.pop(queue_id, None)

    def forget_segment(self, queue_id: int, number: int) -> bool:
        """True when it was noted."""
        noted = self.queues.get(queue_id)
        if noted is None or number not in noted[1]:
            return False
        self._replace(queue_id, noted[0], {one: segment for one, segment in noted[1].items() if one != number})
        return True

    def note_index_size(self, queue_id: int, number: int, size: int) -> None:
        """An index file that was repaired."""
        directory, segments = self.queues[queue_id]
        self._replace(queue_id, directory, {**segments, number: replace(segments[number], index_size=size)})

    def _replace(self, queue_id: int, directory: str, segments: dict[int, Segment]) -> None:
        self.forget_queue(queue_id)
        if segments:
            self.queues[queue_id] = (directory, segments)

    def save(self, disk: Disk) -> None:
        """Raises DiskFull, DiskFailed."""
        queues = {str(queue_id): self._encode(queue_id) for queue_id in self.queues}
        store = {str(number): size for number, size in self.store.items()}
        fact_file.save(disk, CLASSIC_FILES, {"queues": queues, "store": store})

    def _encode(self, queue_id: int) -> msgspec.Raw:
        """Queues that are as they were before are not encoded again: there may be ten thousands of them."""
        encoded = self._encoded.get(queue_id)
        if encoded is None:
            directory, segments = self.queues[queue_id]
            rows = [[s.number, s.index_size, s.body_size, s.first, s.end, s.in_store] for s in segments.values()]
            encoded = self._encoded[queue_id] = msgspec.Raw(msgspec.json.encode([directory, rows]))
        return encoded


def has_files(disk: Disk) -> bool:
    """Whether there are files that a manifest would name. The first start saves one before there is any."""
    directories = [name for name in disk.list(CLASSIC_DIRECTORY) if is_queue_directory(name)]
    return any(disk.list(f"{CLASSIC_DIRECTORY}/{name}") for name in directories) or bool(disk.list(STORE_PERSISTENT))


def load(disk: Disk) -> Manifest:
    """An empty one when there is none. Raises Corrupt."""
    facts = fact_file.load(disk, CLASSIC_FILES)
    return Manifest() if facts is None else decode(facts)


def decode(facts: dict[str, Any]) -> Manifest:
    """Raises Corrupt."""
    try:
        return Manifest(
            {
                int(queue_id): (directory, {row[0]: _segment(*row) for row in rows})
                for queue_id, (directory, rows) in facts["queues"].items()
            },
            {int(number): size for number, size in facts["store"].items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise Corrupt(CLASSIC_FILES, 0, 0, f"it does not say what it should: {error!r}") from error


def _segment(number: int, index_size: int, body_size: int, first: int, end: int, in_store: bool) -> Segment:
    return Segment(number, index_size, body_size, first, end, in_store=in_store)
