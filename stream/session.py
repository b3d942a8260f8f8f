"""What this node's clients publish to one stream, until it is stored: gathered into portions, each of them a chunk.

What is published comes as parts (stream/published_parts.py). All that gathers while a portion is on its way becomes the next
one, whichever channels and connections it comes from. Pipelining and saying it again are in replicated/portions.py.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from broker.confirms import Receipt
from replicated.portions import AMPLE_BYTES, PORTION_BYTES_MAX, Asker, Owner, Pipeline, Portion
from stream.bloom import make_filter
from stream.entries import WriterPosition
from stream.machine import Written
from stream.published_parts import PORTION_MESSAGES_MAX, PublishedPart
from stream.publishing import publish_head


class StreamSession(Pipeline):
    """This node's, of one stream, in one life of the process."""

    __slots__ = ("_cut_to", "_gathering", "_gathering_bytes", "_incarnation", "_node", "filter_bytes")

    def __init__(self, node: int, incarnation: int, owner: Owner, filter_bytes: int) -> None:
        super().__init__(owner)
        self.filter_bytes = filter_bytes  # of a chunk's filter, for what is cut from now on
        self._node = node
        self._incarnation = incarnation
        self._gathering: deque[tuple[PublishedPart, Receipt | None]] = deque()
        self._gathering_bytes = 0
        self._cut_to = 1  # sequence of the first message that is in no portion yet

    def publish(self, parts: Sequence[PublishedPart], receipt: Receipt | None) -> None:
        last = parts[-1]
        for part in parts:
            # The receipt is answered when all before it is stored, too.
            self._gathering.append((part, receipt if part is last else None))
            size = len(part.items)
            self._gathering_bytes += size
            self.waiting_bytes += size
            self.waiting_messages += part.message_count

    @property
    def idle(self) -> bool:
        """Whether everything was answered."""
        return not (self.portions or self._gathering)

    # Pipeline

    def _may_cut(self) -> bool:
        if not self._gathering:
            return False
        return not self.sent or self._gathering_bytes >= AMPLE_BYTES or self._gathering[0][0].is_sub_batch

    def _cut(self) -> Portion:
        gathering = self._gathering
        parts: list[PublishedPart] = []
        receipts: list[Receipt] = []
        size = items = messages = 0
        while gathering and (not parts or self._fits(parts, size, messages)):
            part, receipt = gathering.popleft()
            parts.append(part)
            size += len(part.items)
            items += part.item_count
            messages += part.message_count
            if receipt is not None:
                receipts.append(receipt)
        self._cut_to += messages
        self._gathering_bytes -= size
        writer = WriterPosition(self._node, self._incarnation, self._cut_to - 1)
        head = publish_head(writer, items, messages, self._filter_of(parts), parts)
        ops = [head, *(part.items for part in parts)]
        return Portion(ops, [receipts], size, self._cut_to, publishes=True)

    def _fits(self, parts: Sequence[PublishedPart], size: int, messages: int) -> bool:
        following = self._gathering[0][0]
        if size + len(following.items) > PORTION_BYTES_MAX or messages + following.message_count > PORTION_MESSAGES_MAX:
            return False
        return not (following.is_sub_batch or parts[0].is_sub_batch)

    def _filter_of(self, parts: Sequence[PublishedPart]) -> bytes:
        values = {value for part in parts for value in part.filter_values}
        if not values:
            return b""
        return make_filter(values, any(part.has_unfiltered for part in parts), self.filter_bytes)

    def _is_gap(self, result: Any) -> bool:
        return result is Written.OUT_OF_PLACE

    def _forget(self) -> list[Asker]:
        waiting: list[Asker] = [[receipt] for _, receipt in self._gathering if receipt is not None]
        self._gathering.clear()
        self._gathering_bytes = 0
        return waiting
