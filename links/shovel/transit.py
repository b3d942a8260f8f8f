"""What a shovel has forwarded and the destination has not answered for; and what the source has not been told.

Both connections are as old as each other, and each message that is delivered is published, in order. So the delivery tag of a
message is its publish sequence number: one number says both, and ranges stand for themselves.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from native.content import messages
from native.sequence_set import Range, SequenceSet
from wire.amqp.tables import TableError, split_properties

ALIKE_MAX = 1_000  # messages with the same body whose properties are looked at for one that came back
EMPTY_HEADERS = b"\0\0\0\0"


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
    apart: list[tuple[bytes, bytes]] | None = None  # properties and bodies

    def all_messages(self) -> list[tuple[bytes, bytes]]:
        """Taken apart once: of a run of thousands each may come back."""
        if self.apart is None:
            self.apart = messages(self.content, 0, self.run.count)
        return self.apart


class Transit:
    """See the module. With `bytes_held`, what the contents of all that is on its way come to."""

    def __init__(self) -> None:
        self.bytes_held = 0
        self.published = 0  # the last number that was
        self._sent: deque[_Sent] = deque()
        self._unanswered = SequenceSet()
        self._returned = SequenceSet()
        self._returned_up_to = 0
        self._props_tell = True  # messages that came back apart
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

    def came_back(self, exchange: str, routing_key: str, props: bytes, body: bytes) -> bool:
        """A message was returned. A return does not say which: it is the next that looks like it, for they come in the order
        of their publishes. False: none does."""
        names = exchange.encode(), routing_key.encode()
        found = self._next_like(names, props, body)
        if found:
            self._returned.add(found, found + 1)
            self._returned_up_to = found
        return found > 0

    def _next_like(self, names: tuple[bytes, bytes], props: bytes, body: bytes) -> int:
        """The number of the message; 0: there is none. A broker that gives properties back otherwise than it got them is only
        believed what the body is, from the first time on: nobody makes this side compare for ever."""
        alike = islice(self._numbers_with(names, body), ALIKE_MAX if self._props_tell else 1)
        found = first = 0
        for number, own_props in alike:
            first = first or number
            if not self._props_tell or _same(props, own_props):
                found = number
                break
        if first and not found:
            self._props_tell = False
        return found or first

    def _numbers_with(self, names: tuple[bytes, bytes], body: bytes) -> Iterator[tuple[int, bytes]]:
        """With the properties of each."""
        start = self._returned_up_to + 1
        place = bisect_right(self._sent, start, key=lambda sent: sent.run.first_tag)
        for sent in islice(self._sent, max(0, place - 1), None):
            if (sent.exchange, sent.routing_key) != names:
                continue
            first, apart = sent.run.first_tag, sent.all_messages()
            for number in range(max(first, start), first + sent.run.count):
                props, own_body = apart[number - first]
                if own_body == body and number in self._unanswered:
                    yield number, props

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


def _same(props: bytes, other: bytes) -> bool:
    """RabbitMQ gives a message without headers back with none in a table."""
    return props == other or _told(props) == _told(other)


def _told(props: bytes) -> dict[str, bytes] | None:
    try:
        fields = split_properties(props)
    except TableError:
        return None
    return {name: value for name, value in fields.items() if (name, value) != ("headers", EMPTY_HEADERS)}
