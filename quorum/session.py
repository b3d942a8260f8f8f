"""What this node says to one queue's group: gathered into portions, one entry each, and said again until it is answered.

    gathering    what was said since the last portion was cut; grows while the pipeline is full
    portions     cut and not answered yet, in order; the first `sent` of them are on their way, the rest will be (again)

Nothing waits for a portion to grow: `flush` at the end of a turn sends what there is. While IN_FLIGHT_MAX portions are on their
way the next one gathers, so portions grow with the load and a lone message leaves at once.

An answer counts only if everything before it was answered too. When one portion fails (its leader is gone, its fate unknown),
all from the first unanswered one on are said again, in the old order. What was applied already is recognised by the machine: by
the sequences of messages, the numbers of consumers and gets, the ids of deliveries. So a channel's order holds whatever
happens to leaders, and nothing said later takes effect for good before what was said earlier.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from broker.confirms import Receipt
from broker.message import Run
from broker.queue_type import Outcome
from quorum import commands
from quorum.commands import ConsumerKey, Gap, SessionKey

PORTION_BYTES_MAX = 512 << 10  # of one entry; a single operation may be larger
IN_FLIGHT_MAX = 4
SETTLE_RANGES_MAX = 10_000  # of one operation

_LENGTHS_BYTES = 8  # of a message in a content, see native/content.py; its properties follow and begin with their flags
_HAS_PRIORITY = 0x08  # in the first byte of these

Asker = Callable[[Any], None] | Receipt | None
"""Who waits for an operation's result: a publisher's receipt, a function that is given the result, or nobody."""


class Portion:
    """What one entry holds."""

    __slots__ = ("askers", "ops", "results", "sequence_end", "size")

    def __init__(self, ops: list[bytes], askers: list[Asker], size: int, sequence_end: int) -> None:
        self.ops = ops  # their bytes, one behind the other; an operation may be several of these
        self.askers = askers  # one for each operation
        self.size = size
        self.sequence_end = sequence_end  # of the first message that is not in it, nor in one before it
        self.results: Sequence[Any] | None = None  # known, while those of a portion before it are not


class Owner:
    """Whose session it is: the queue."""

    def send(self, portion: Portion, attempt: int) -> None:
        """Bring it to the leader; then call `answered` or `failed` with this attempt, once."""
        raise NotImplementedError

    def enqueued(self, receipt: Receipt, result: Any) -> None:
        """What became of a run whose publisher waits for it."""
        raise NotImplementedError

    def lost_touch(self) -> None:
        """What was sent will not be answered. Set `open` again when there is somebody to say it to."""
        raise NotImplementedError


class _Op:
    """One operation that waits to be cut into a portion."""

    __slots__ = ("asker", "parts", "sequence_end", "size")

    def __init__(self, parts: tuple[bytes, ...], size: int, asker: Asker, sequence_end: int) -> None:
        self.parts = parts
        self.size = size
        self.asker = asker
        self.sequence_end = sequence_end


class Session:
    """This node's, of one queue, in one life of the process."""

    __slots__ = (
        "_answered",
        "_gathering",
        "_next_number",
        "_next_sequence",
        "_owner",
        "_settles",
        "attempt",
        "key",
        "open",
        "portions",
        "sent",
        "waiting_bytes",
        "waiting_messages",
    )

    def __init__(self, key: SessionKey, owner: Owner) -> None:
        self.key = key
        self.open = True  # False while there is nobody to say anything to: then all gathers
        self.attempt = 0  # counts how often all was said anew; answers to an earlier one are late
        self.sent = 0
        self.portions: deque[Portion] = deque()
        self.waiting_bytes = 0  # said and not answered, sent or not
        self.waiting_messages = 0
        self._owner = owner
        self._gathering: deque[_Op] = deque()
        self._settles: dict[tuple[int, Outcome], list[tuple[int, int]]] = {}
        self._next_sequence = 1
        self._answered = 1  # sequence of the first message that has no answer
        self._next_number = 1

    # what is said

    def enqueue(self, run: Run, receipt: Receipt | None) -> None:
        head, content = commands.encode_enqueue(
            self.key,
            self._next_sequence,
            run.count,
            run.body_bytes,
            run.exchange,
            run.routing_key,
            run.content,
            answered=self._answered,
            expiration_ms=run.expiration_ms,
            flags=(commands.PERSISTENT * run.persistent) | (commands.REDELIVERED * run.redelivered),
            priority=commands.level(run.priority if run.priority or _says_priority(run.content) else None),
        )
        self._next_sequence += run.count
        self.waiting_messages += run.count
        self._add((head, content), len(head) + len(content), receipt)

    def settle(self, number: int, first: int, count: int, outcome: Outcome) -> None:
        """What one consumer or get has held. Neighbours become one range, and all of a portion one operation."""
        ranges = self._settles.get((number, outcome))
        if ranges is None:
            self._settles[number, outcome] = [(first, count)]
            return
        last_first, last_count = ranges[-1]
        if last_first + last_count == first:
            ranges[-1] = (last_first, last_count + count)
        else:
            ranges.append((first, count))
            if len(ranges) == SETTLE_RANGES_MAX:
                self._say_settles()

    def new_number(self) -> int:
        """For a consumer or a get; they ascend in the order in which they are said."""
        self._next_number += 1
        return self._next_number - 1

    def consumer_key(self, number: int) -> ConsumerKey:
        return ConsumerKey(*self.key, number)

    def say(self, op: commands.Op, asker: Callable[[Any], None] | None = None) -> None:
        """Anything else, behind everything said before."""
        self._say_settles()
        data = commands.encode(op)
        self._add((data,), len(data), asker)

    def _say_settles(self) -> None:
        if self._settles:
            settles, self._settles = self._settles, {}
            for (number, outcome), ranges in settles.items():
                data = commands.encode_settle(self.consumer_key(number), outcome, ranges)
                self._add((data,), len(data), None)

    def _add(self, parts: tuple[bytes, ...], size: int, asker: Asker) -> None:
        self._gathering.append(_Op(parts, size, asker, self._next_sequence))
        self.waiting_bytes += size

    # to the leader

    @property
    def idle(self) -> bool:
        """Whether everything was answered."""
        return not (self.portions or self._gathering or self._settles)

    def flush(self) -> None:
        """Send what waits, as far as the pipeline has room."""
        if not self.open:
            return
        self._say_settles()
        while self.open and self.sent < IN_FLIGHT_MAX:
            if self.sent == len(self.portions):
                if not self._gathering:
                    return
                self.portions.append(self._cut())
            self.sent += 1
            self._owner.send(self.portions[self.sent - 1], self.attempt)

    def _cut(self) -> Portion:
        gathering = self._gathering
        ops: list[bytes] = []
        askers: list[Asker] = []
        size = sequence_end = 0
        while gathering and (not ops or size + gathering[0].size <= PORTION_BYTES_MAX):
            op = gathering.popleft()
            ops += op.parts
            askers.append(op.asker)
            size += op.size
            sequence_end = op.sequence_end
        return Portion(ops, askers, size, sequence_end)

    def answered(self, portion: Portion, attempt: int, results: Sequence[Any]) -> None:
        """The portion was applied."""
        if attempt != self.attempt:
            return
        if len(results) != len(portion.askers) or any(type(result) is Gap for result in results):
            self.failed(attempt)  # what came before it is missing; or it was made by nobody who knows what was asked
            return
        portion.results = results
        while self.portions and self.portions[0].results is not None:
            self._tell(self.portions.popleft())
        self.flush()

    def _tell(self, portion: Portion) -> None:
        self.sent -= 1
        self.waiting_bytes -= portion.size
        self.waiting_messages -= portion.sequence_end - self._answered
        self._answered = portion.sequence_end
        assert portion.results is not None, "a portion is told its results before they are known"
        for asker, result in zip(portion.askers, portion.results, strict=True):
            if asker is None:
                continue
            if isinstance(asker, Receipt):
                self._owner.enqueued(asker, result)
            else:
                asker(result)

    def failed(self, attempt: int) -> None:
        """A portion of this attempt was not applied, or nobody knows."""
        if attempt != self.attempt:
            return
        self.attempt += 1
        self.sent = 0
        self.open = False
        for portion in self.portions:
            portion.results = None
        self._owner.lost_touch()

    def close(self) -> list[Asker]:
        """The queue is gone: nothing is said any more. Returns who still waited."""
        self.open = False
        self.attempt += 1
        waiting: list[Asker] = [asker for portion in self.portions for asker in portion.askers if asker is not None]
        waiting += [op.asker for op in self._gathering if op.asker is not None]
        self.portions.clear()
        self._gathering.clear()
        self._settles.clear()
        self.sent = self.waiting_bytes = self.waiting_messages = 0
        return waiting


def _says_priority(content: bytes) -> bool:
    """Whether the first message has the property at all: without it, it is queued at the default priority."""
    return len(content) > _LENGTHS_BYTES and bool(content[_LENGTHS_BYTES] & _HAS_PRIORITY)
