"""What a shovel has forwarded and the destination has not answered for; and what the source has not been told.

Both connections are as old as each other, and each message that is delivered is published, in order. So the delivery tag of a
message is its publish sequence number: one number says both, and ranges stand for themselves.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Protocol

from native.content import messages
from native.sequence_set import Range, SequenceSet


class ForwardedMessages(Protocol):
    """A run as it was delivered."""

    @property
    def first_tag(self) -> int: ...

    @property
    def count(self) -> int: ...

    @property
    def content(self) -> bytes: ...


@dataclass(slots=True)
class _Sent:
    run: ForwardedMessages
    exchange: bytes
    routing_key: bytes
    content: bytes  # as it was published
    bodies: list[bytes] | None = None

    def all_bodies(self) -> list[bytes]:
        """Taken apart once: of a run of thousands each may come back."""
        if self.bodies is None:
            self.bodies = [body for _, body in messages(self.content, 0, self.run.count)]
        return self.bodies


class Transit:
    """See the module. With `bytes_held`, what the contents of all that is on its way come to."""

    def __init__(self) -> None:
        self.bytes_held = 0
        self.published = 0  # the last number that was
        self._sent: deque[_Sent] = deque()
        self._unanswered = SequenceSet()
        self._returned = SequenceSet()
        self._returned_up_to = 0
        self._unsettled = SequenceSet()  # at the source

    @property
    def unanswered(self) -> int:
        return len(self._unanswered)

    @property
    def unsettled(self) -> int:
        return len(self._unsettled)

    def sent(
        self, run: ForwardedMessages, exchange: bytes, routing_key: bytes, content: bytes, *, confirms: bool
    ) -> None:
        assert run.first_tag == self.published + 1, f"delivery {run.first_tag} behind publish {self.published}"
        self.published += run.count
        self._unsettled.add(run.first_tag, self.published + 1)
        if confirms:
            self._unanswered.add(run.first_tag, self.published + 1)
            self._sent.append(_Sent(run, exchange, routing_key, content))
            self.bytes_held += len(content)

    def answered(self, first: int, last: int, *, multiple: bool) -> tuple[list[Range], list[Range]]:
        """What the destination has answered for now, half open ranges: messages that arrived, and those it had returned."""
        start = self._unanswered.first() if multiple and self._unanswered else first
        arrived: list[Range] = []
        returned: list[Range] = []
        for low, high in self._unanswered.intersect(min(start, last + 1), last + 1):
            back = self._returned.intersect(low, high)
            returned += back
            arrived += _between(low, high, back)
        self._unanswered.remove(min(start, last + 1), last + 1)
        for low, high in returned:
            self._returned.remove(low, high)
        self._forget_answered()
        return arrived, returned

    def _forget_answered(self) -> None:
        oldest = self._unanswered.first() if self._unanswered else self.published + 1
        while self._sent and self._sent[0].run.first_tag + self._sent[0].run.count <= oldest:
            self.bytes_held -= len(self._sent.popleft().content)

    def came_back(self, exchange: str, routing_key: str, body: bytes) -> bool:
        """A message was returned. A return does not say which: it is the next that looks like it, for they come in the order
        of their publishes. False: none does."""
        names = exchange.encode(), routing_key.encode()
        found = self._next_like(names, body, self._returned_up_to + 1) or self._next_like(names, body, 0)
        if found:
            self._returned.add(found, found + 1)
            self._returned_up_to = found
        return found > 0

    def _next_like(self, names: tuple[bytes, bytes], body: bytes, start: int) -> int:
        """The number of the first message from `start` on; 0: there is none."""
        for sent in self._sent:
            first = sent.run.first_tag
            if first + sent.run.count <= start or (sent.exchange, sent.routing_key) != names:
                continue
            bodies = sent.all_bodies()
            for number in range(max(first, start), first + sent.run.count):
                may_be = number in self._unanswered and number not in self._returned
                if may_be and bodies[number - first] == body:
                    return number
        return 0

    def settle(self, low: int, high: int) -> bool:
        """The source is told of these. True: nothing before them is left, so one answer is good for all."""
        is_oldest = bool(self._unsettled) and self._unsettled.first() >= low
        self._unsettled.remove(low, high)
        return is_oldest


def _between(low: int, high: int, gaps: list[Range]) -> list[Range]:
    """What of low .. high is in no gap."""
    parts: list[Range] = []
    for start, end in gaps:
        if low < start:
            parts.append((low, start))
        low = end
    return [*parts, (low, high)] if low < high else parts
