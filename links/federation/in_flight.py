"""What a link has published here and is not answered for, by the tags under which its upstream has delivered it.

Publishes are numbered without gaps. Delivery tags have some: what is dropped is acknowledged and not published.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass

from native.sequence_set import Range, SequenceSet


@dataclass(slots=True, frozen=True)
class _Published:
    first: int  # number
    count: int
    tag: int  # of the first
    content_bytes: int


class LinkInFlight:
    """See the module. `bytes_held`: the contents of what is not answered for."""

    def __init__(self) -> None:
        self.bytes_held = 0
        self._published: deque[_Published] = deque()
        self._next = 1
        self._unanswered = SequenceSet()  # numbers
        self._unsettled = SequenceSet()  # tags

    @property
    def unanswered(self) -> int:
        return len(self._unanswered)

    def delivered(self, first_tag: int, count: int) -> None:
        self._unsettled.add(first_tag, first_tag + count)

    def published(self, first_tag: int, count: int, content_bytes: int) -> None:
        self._published.append(_Published(self._next, count, first_tag, content_bytes))
        self._unanswered.add(self._next, self._next + count)
        self._next += count
        self.bytes_held += content_bytes

    def answered(self, first: int, last: int, *, multiple: bool) -> list[Range]:
        """The tags of what these confirms speak of, half open."""
        start = self._unanswered.first() if multiple and self._unanswered else first
        low = min(start, last + 1)
        tags = [tags for part in self._unanswered.intersect(low, last + 1) for tags in self._tags_of(*part)]
        self._unanswered.remove(low, last + 1)
        self._forget_answered()
        return tags

    def _tags_of(self, low: int, high: int) -> list[Range]:
        found: list[Range] = []
        at = bisect_right(self._published, low, key=lambda one: one.first) - 1
        while low < high:
            one = self._published[at]
            end = min(high, one.first + one.count)
            tag = one.tag + low - one.first
            found.append((tag, tag + end - low))
            low, at = end, at + 1
        return found

    def _forget_answered(self) -> None:
        oldest = self._unanswered.first() if self._unanswered else self._next
        while self._published and self._published[0].first + self._published[0].count <= oldest:
            self.bytes_held -= self._published.popleft().content_bytes

    def settle(self, low: int, high: int) -> bool:
        """The upstream is told of these tags. True: none before them is left, so one answer is good for all."""
        is_oldest = bool(self._unsettled) and self._unsettled.first() >= low
        self._unsettled.remove(low, high)
        return is_oldest
