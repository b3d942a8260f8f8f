"""What this node's clients publish to one stream, until it is stored: gathered into portions, each of them a chunk.

What is published comes as parts (stream/chunks/published_parts.py). All that gathers while a portion is on its way becomes the
next one, whichever channels and connections it comes from. Pipelining and saying it again are in replicated/portions.py.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from broker.messages.confirms import Receipt
from native.stream_publish import STREAM_RUN_UNPACKED_BYTES_MAX
from replicated.portions import AMPLE_BYTES, PORTION_BYTES_MAX, Asker, Owner, Pipeline, Portion
from stream.chunks.bloom import make_filter
from stream.chunks.entries import WriterPosition
from stream.chunks.publish_ops import publish_head
from stream.chunks.published_parts import PORTION_MESSAGES_MAX, PublishedPart
from stream.group.machine import Written


class StreamSession(Pipeline):
    """This node's, of one stream, in one life of the process."""

    __slots__ = (
        "_cut_to", "_gathering", "_gathering_bytes", "_incarnation", "_kind_changes", "_node", "filter_bytes",
    )  # fmt: skip

    def __init__(self, node: int, incarnation: int, owner: Owner, filter_bytes: int) -> None:
        super().__init__(owner)
        self.filter_bytes = filter_bytes  # of a chunk's filter, for what is cut from now on
        self._node = node
        self._incarnation = incarnation
        self._gathering: deque[tuple[PublishedPart, Receipt | None]] = deque()
        self._gathering_bytes = 0
        self._kind_changes = 0  # from messages to sub-batches and back: a portion ends there, and waits for nothing
        self._cut_to = 1  # sequence of the first message that is in no portion yet

    def publish(self, parts: Sequence[PublishedPart], receipt: Receipt | None) -> None:
        last = parts[-1]
        for part in parts:
            self._kind_changes += self._is_of_other_kind(part, self._gathering[-1][0]) if self._gathering else 0
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
        return not self.sent or self._gathering_bytes >= AMPLE_BYTES or self._kind_changes > 0

    def _cut(self) -> Portion:
        gathering = self._gathering
        parts: list[PublishedPart] = []
        receipts: list[Receipt] = []
        size = items = messages = unpacked = 0
        while gathering and (not parts or self._fits(parts, size, messages, unpacked)):
            part, receipt = gathering.popleft()
            parts.append(part)
            size += len(part.items)
            items += part.item_count
            messages += part.message_count
            unpacked += part.unpacked_bytes
            if receipt is not None:
                receipts.append(receipt)
        self._cut_to += messages
        self._kind_changes -= self._is_of_other_kind(parts[-1], gathering[0][0]) if gathering else 0
        self._gathering_bytes -= size
        writer = WriterPosition(self._node, self._incarnation, self._cut_to - 1)
        head = publish_head(writer, items, messages, self._filter_of(parts), parts)
        ops = [head, *(part.items for part in parts)]
        return Portion(ops, [receipts], size, self._cut_to, publishes=True)

    def _fits(self, parts: Sequence[PublishedPart], size: int, messages: int, unpacked: int) -> bool:
        following = self._gathering[0][0]
        return (
            size + len(following.items) <= PORTION_BYTES_MAX
            and messages + following.message_count <= PORTION_MESSAGES_MAX
            and unpacked + following.unpacked_bytes <= STREAM_RUN_UNPACKED_BYTES_MAX
            and not self._is_of_other_kind(following, parts[-1])
        )

    @staticmethod
    def _is_of_other_kind(one: PublishedPart, other: PublishedPart) -> bool:
        return one.is_sub_batches != other.is_sub_batches

    def _filter_of(self, parts: Sequence[PublishedPart]) -> bytes:
        values = {value for part in parts for value in part.filter_values}
        if not values:
            return b""
        return make_filter(values, any(part.has_unfiltered for part in parts), self.filter_bytes)

    def _has_gap(self, results: Sequence[Any]) -> bool:
        return Written.OUT_OF_PLACE in results

    def _forget(self) -> list[Asker]:
        waiting: list[Asker] = [[receipt] for _, receipt in self._gathering if receipt is not None]
        self._gathering.clear()
        self._gathering_bytes = self._kind_changes = 0
        return waiting
