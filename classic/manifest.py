"""Which files of the classic queues are durable, and up to where: one small file, replaced as a whole.

An index, a body or a store file is appended to at any time, and synced only before the log lets go of what is in it. So after a
crash what lies behind the size noted here is cut off, and a file that is not noted is deleted: the log still has it all. What
lies before that size had been synced; if it cannot be read it is damage. A file is taken out of here before it is deleted.

    {"queues": {id: [directory, [[number, index size, body size, first, end, in store], ...]]}, "store": {number: size}}
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from classic.queue_index import QueueIndex, Segment
from classic.store import MessageStore
from storage import fact_file
from storage.disk import Disk
from storage.errors import Corrupt
from storage.names import CLASSIC_FILES


@dataclass(slots=True)
class Manifest:
    """The sizes of durable files. Segments here are copies, not those in use."""

    queues: dict[int, tuple[str, dict[int, Segment]]] = field(default_factory=dict)
    store: dict[int, int] = field(default_factory=dict)

    def copy(self) -> Manifest:
        """Another one that may be changed; the segments, which nobody changes, are shared."""
        queues = {queue_id: (directory, dict(segments)) for queue_id, (directory, segments) in self.queues.items()}
        return Manifest(queues, dict(self.store))

    def note_queue(self, queue_id: int, index: QueueIndex) -> None:
        if index.segments:
            copies = {
                number: Segment(number, one.index_size, one.body_size, one.first, one.end, in_store=one.in_store)
                for number, one in index.segments.items()
            }
            self.queues[queue_id] = (index.directory, copies)

    def note_store(self, store: MessageStore) -> None:
        self.store = {number: file.size for number, file in store.files.items()}

    def forget_segment(self, queue_id: int, number: int) -> bool:
        """True when it was noted."""
        noted = self.queues.get(queue_id)
        if noted is None or noted[1].pop(number, None) is None:
            return False
        if not noted[1]:
            del self.queues[queue_id]
        return True

    def save(self, disk: Disk) -> None:
        """Raises DiskFull, DiskFailed."""
        queues = {
            str(queue_id): [
                directory,
                [[s.number, s.index_size, s.body_size, s.first, s.end, s.in_store] for s in segments.values()],
            ]
            for queue_id, (directory, segments) in self.queues.items()
        }
        store = {str(number): size for number, size in self.store.items()}
        fact_file.save(disk, CLASSIC_FILES, {"queues": queues, "store": store})


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
