"""What this node's clients publish to one stream, until it is stored: gathered into portions, each of them a chunk.

Runs are turned into items of chunks as they come (stream/stored_form.py). All that gathers while a portion is on its way
becomes the next one, whichever channels it comes from. Pipelining and saying it again are in replicated/portions.py.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Any

from broker.confirms import Receipt
from broker.message import Run
from native.content import take
from replicated.portions import AMPLE_BYTES, PORTION_BYTES_MAX, Asker, Owner, Pipeline, Portion
from stream.entries import WriterPosition
from stream.machine import Written
from stream.publishing import publish_head
from stream.stored_form import items_of_run

PORTION_MESSAGES_MAX = 10_000  # a chunk is read as a whole, whoever wants only its last message


class _Publishing:
    """Messages that wait to be cut into a portion."""

    __slots__ = ("count", "items", "receipt", "size")

    def __init__(self, count: int, items: bytes, receipt: Receipt | None) -> None:
        self.count = count
        self.items = items
        self.size = len(items)
        self.receipt = receipt


class StreamSession(Pipeline):
    """This node's, of one stream, in one life of the process."""

    __slots__ = ("_cut_to", "_gathering", "_gathering_bytes", "_incarnation", "_node")

    def __init__(self, node: int, incarnation: int, owner: Owner) -> None:
        super().__init__(owner)
        self._node = node
        self._incarnation = incarnation
        self._gathering: deque[_Publishing] = deque()
        self._gathering_bytes = 0
        self._cut_to = 1  # sequence of the first message that is in no portion yet

    def publish(self, run: Run, receipt: Receipt | None) -> None:
        while run.count > 1 and (run.count > PORTION_MESSAGES_MAX or len(run.content) > PORTION_BYTES_MAX):
            first, rest = _split(run)
            if rest is None:
                break
            self._add(first, None)
            run = rest
        self._add(run, receipt)  # answered when all before it is stored, too

    def _add(self, run: Run, receipt: Receipt | None) -> None:
        one = _Publishing(run.count, items_of_run(run), receipt)
        self._gathering.append(one)
        self._gathering_bytes += one.size
        self.waiting_bytes += one.size
        self.waiting_messages += one.count

    @property
    def idle(self) -> bool:
        """Whether everything was answered."""
        return not (self.portions or self._gathering)

    # Pipeline

    def _may_cut(self) -> bool:
        return bool(self._gathering) and (not self.sent or self._gathering_bytes >= AMPLE_BYTES)

    def _cut(self) -> Portion:
        gathering = self._gathering
        items: list[bytes] = []
        receipts: list[Receipt] = []
        size = count = 0
        while gathering and (not items or self._fits(size, count)):
            one = gathering.popleft()
            items.append(one.items)
            size += one.size
            count += one.count
            if one.receipt is not None:
                receipts.append(one.receipt)
        self._cut_to += count
        self._gathering_bytes -= size
        writer = WriterPosition(self._node, self._incarnation, self._cut_to - 1)
        return Portion([publish_head(writer, count, count), *items], [receipts], size, self._cut_to, publishes=True)

    def _fits(self, size: int, count: int) -> bool:
        following = self._gathering[0]
        return size + following.size <= PORTION_BYTES_MAX and count + following.count <= PORTION_MESSAGES_MAX

    def _is_gap(self, result: Any) -> bool:
        return result is Written.OUT_OF_PLACE

    def _forget(self) -> list[Asker]:
        waiting: list[Asker] = [[one.receipt] for one in self._gathering if one.receipt is not None]
        self._gathering.clear()
        self._gathering_bytes = 0
        return waiting


def _split(run: Run) -> tuple[Run, Run | None]:
    """What fits a portion, one message at least, and what is left."""
    taken, end, body_bytes = take(run.content, 0, PORTION_MESSAGES_MAX, PORTION_BYTES_MAX)
    if taken == run.count:
        return run, None
    first = replace(run, content=run.content[:end], count=taken, body_bytes=body_bytes)
    rest = replace(run, content=run.content[end:], count=run.count - taken, body_bytes=run.body_bytes - body_bytes)
    return first, rest
