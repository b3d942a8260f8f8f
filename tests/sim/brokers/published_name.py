"""What a program has published to a stream under one name, and what it is told of that.

The program publishes in order, and what it was told is stored it does not publish again. So its last id must be one that the
log has, and all that it has published up to it must be stored.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tests.sim.brokers import invariants
from tests.sim.brokers.stream_book import StreamBook


class Item(NamedTuple):
    """What has one id."""

    id: int
    bodies: tuple[bytes, ...]  # of a sub-batch, several
    value: str  # to filter by
    compression: int = 0


@dataclass
class PublishedName:
    """Of one stream and name."""

    name: str
    items: list[Item] = field(default_factory=list)  # all that it has ever published, with ids that ascend
    was_refused: bool = False  # something of it: what came behind that may be stored without it

    def told(self, book: StreamBook, who: str, last_id_then: int, last_id: int) -> None:
        """`last_id_then`: by the log, when it asked."""
        last_id_now = book.last_ids.get(self.name, 0)
        invariants.last_id_is_the_logs(book.about, who, last_id_then, last_id, last_id_now)
        if not self.was_refused:
            bodies = [body for item in self.items if item.id <= last_id for body in item.bodies]
            missing = [body for body in bodies if body not in book.bodies]
            invariants.what_is_up_to_a_last_id_is_stored(book.about, who, last_id, missing)

    def behind(self, last_id: int) -> list[Item]:
        return [item for item in self.items if item.id > last_id]
