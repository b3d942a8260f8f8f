"""Messages as they stand in the log: whoever delivers one reads it from the entry that brought it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from broker.queues.added_headers import with_headers
from native.content import skip
from quorum.fifo import commands
from quorum.fifo.commands import Enqueue, Piece
from replicated.entry_cache import EntryCache

KEPT_BYTES_MAX = 32 << 20  # of entries of all queues that were applied or read lately


class Body(NamedTuple):
    """Messages of one piece. They begin at `position` of `content`, which is the whole entry: nothing is copied."""

    content: bytes
    position: int
    exchange: str
    routing_key: str
    flags: int  # of the ENQUEUE

    def after(self, count: int) -> Body:
        """Without the first of its messages."""
        return self._replace(position=skip(self.content, self.position, count))

    @property
    def persistent(self) -> bool:
        return bool(self.flags & commands.PERSISTENT)

    @property
    def delivered_elsewhere(self) -> bool:
        """Clients have had them in the queue that dead-lettered them."""
        return bool(self.flags & commands.REDELIVERED)


def count_headers(delivery_count: int, acquired_count: int) -> dict[str, int] | None:
    """What a message tells of its way so far; None: nobody has had it."""
    if not acquired_count:
        return None
    if not delivery_count:
        return {"x-acquired-count": acquired_count}
    return {"x-acquired-count": acquired_count, "x-delivery-count": delivery_count}


def counted(content: bytes, delivery_count: int, acquired_count: int) -> bytes:
    """A dead letter as it leaves: it tells what became of it here."""
    headers = count_headers(delivery_count, acquired_count)
    return content if headers is None else with_headers(content, 0, 1, headers)


def body_of(data: bytes, piece: Piece) -> Body:
    """Raises ValueError where the entry has no such messages."""
    op = commands.decode(data, piece.offset)
    if not isinstance(op, Enqueue):
        raise ValueError(f"the op at {piece.offset} of entry {piece.entry} is no ENQUEUE")
    start = op.content[0]
    position = skip(data, start, piece.first) if piece.first else start
    return Body(data, position, op.exchange, op.routing_key, op.flags)


class Bodies:
    """Those of one queue's member. `read_entry` may raise raft.errors.Damaged."""

    def __init__(self, group: int, cache: EntryCache, read_entry: Callable[[int], bytes]) -> None:
        self._group = group
        self._cache = cache
        self._read_entry = read_entry
        self.reads = 0  # of entries that were not kept

    def get(self, piece: Piece) -> Body:
        data = self._cache.get(self._group, piece.entry)
        if data is None:
            self.reads += 1
            data = self._read_entry(piece.entry)
            self._cache.keep(self._group, piece.entry, data)
        return body_of(data, piece)

    def applied(self, index: int, data: bytes) -> None:
        """What the entry brought may be delivered in the same turn."""
        self._cache.keep(self._group, index, data)
