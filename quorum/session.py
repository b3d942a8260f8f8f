"""What this node says to one queue's group: gathered into portions, one entry each, and said again until it is answered.

    gathering    what was said since the last portion was cut; grows while the pipeline is full
    portions     cut and not answered yet, in order; the first `sent` of them are on their way, the rest will be (again)

Runs that agree on all that the machine looks at become one operation, whichever channels they come from.

Nothing waits for a portion to grow: `flush` at the end of a turn sends what there is, a lone message at once. While a portion
is on its way the next one gathers, so portions grow with the load. Only what is AMPLE does not wait for the one before it, and
what consumers settle does not wait for the like: it is small, and brings them the messages that they have room for.

An answer counts only if everything before it was answered too. When one portion fails (its leader is gone, its fate unknown),
all from the first unanswered one on are said again, in the old order: the first alone, the rest once that is answered. Said
together, a leader that has room for the first but not for both would refuse the second each time, and each time the answer to
the first would be that of an attempt that is over. What was applied already is recognised by the machine: by
the sequences of messages, the numbers of consumers, gets and purges, the ids of deliveries. So a channel's order holds whatever
happens to leaders, and nothing said later takes effect for good before what was said earlier.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from broker.confirms import Receipt
from broker.message import Run
from broker.queue_type import Outcome
from quorum.fifo import commands
from quorum.fifo.commands import ConsumerKey, Gap, SessionKey

PORTION_BYTES_MAX = 512 << 10  # of one entry; a single operation may be larger
IN_FLIGHT_MAX = 4
# A portion costs each node a record, two messages and its share of an fsync, whatever it holds. Three nodes on two cores, one
# publisher with 1000 unconfirmed and one consumer: 79,000 messages a second with one portion on its way, 55,000 with two,
# 57,000 with three, 43,000 with eight. With 100 unconfirmed: 19,000, 15,000, 17,000, 13,000.
AMPLE_BYTES = 128 << 10
SETTLE_RANGES_MAX = 10_000  # of one operation
JOINED_BYTES_MAX = 128 << 10  # of an operation that several runs were joined to

_LENGTHS_BYTES = 8  # of a message in a content, see native/content.py; its properties follow and begin with their flags
_HAS_PRIORITY = 0x08  # in the first byte of these

Asker = Callable[[Any], None] | list[Receipt] | None
"""Who waits for an operation's result: receipts of publishers, a function that is given the result, or nobody."""


class Portion:
    """What one entry holds."""

    __slots__ = ("askers", "ops", "publishes", "results", "sequence_end", "size")

    def __init__(self, ops: list[bytes], askers: list[Asker], size: int, sequence_end: int, *, publishes: bool) -> None:
        self.ops = ops  # their bytes, one behind the other; an operation may be several of these
        self.askers = askers  # one for each operation
        self.size = size
        self.sequence_end = sequence_end  # of the first message that is not in it, nor in one before it
        self.publishes = publishes  # and is not only what consumers say
        self.results: Sequence[Any] | None = None  # known, while those of a portion before it are not


class Owner:
    """Whose session it is: the queue."""

    def send(self, portion: Portion, attempt: int) -> None:
        """Bring it to the leader; then call `answered` or `failed` with this attempt, once."""
        raise NotImplementedError

    def enqueued(self, receipts: list[Receipt], result: Any) -> None:
        """What became of runs; these are the receipts of those whose publishers wait for it."""
        raise NotImplementedError

    def lost_touch(self) -> None:
        """What was sent will not be answered. Set `open` again when there is somebody to say it to."""
        raise NotImplementedError


class _Op:
    """One operation that waits to be cut into a portion. Not an ENQUEUE."""

    __slots__ = ("asker", "data", "size")

    def __init__(self, data: bytes, asker: Asker) -> None:
        self.data = data
        self.size = len(data)
        self.asker = asker


class _Publishes:
    """Runs that agree, in order: one ENQUEUE."""

    __slots__ = ("alike", "asker", "body_bytes", "contents", "count", "producer", "sequence", "size")

    def __init__(self, alike: tuple[Any, ...], sequence: int, producer: commands.Producer | None) -> None:
        self.alike = alike  # what they agree on
        self.sequence = sequence
        self.producer = producer
        self.count = self.body_bytes = 0
        self.size = 0
        self.contents: list[bytes] = []
        self.asker: list[Receipt] = []

    def add(self, run: Run, receipt: Receipt | None) -> None:
        self.count += run.count
        self.body_bytes += run.body_bytes
        self.size += len(run.content)
        self.contents.append(run.content)
        if receipt is not None:
            self.asker.append(receipt)

    def encode(self, key: SessionKey, answered: int) -> tuple[bytes, bytes]:
        exchange, routing_key, expiration_ms, flags, priority = self.alike
        content = self.contents[0] if len(self.contents) == 1 else b"".join(self.contents)
        return commands.encode_enqueue(
            key, self.sequence, self.count, self.body_bytes, exchange, routing_key, content,
            answered=answered, expiration_ms=expiration_ms, flags=flags, priority=priority, producer=self.producer,
        )  # fmt: skip


class QueueSession:
    """This node's, of one queue, in one life of the process."""

    __slots__ = (
        "_answered",
        "_cut_to",
        "_doubts",
        "_gathering",
        "_gathering_bytes",
        "_gathering_runs",
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
        self._doubts = False  # since the last failure nothing was answered
        self._gathering: deque[_Op | _Publishes] = deque()
        self._gathering_bytes = 0
        self._gathering_runs = 0
        self._settles: dict[tuple[int, Outcome], list[tuple[int, int]]] = {}
        self._next_sequence = 1
        self._answered = 1  # sequence of the first message that has no answer
        self._cut_to = 1  # sequence of the first message that is in no portion yet
        self._next_number = 1

    # what is said

    def enqueue(
        self, run: Run, receipt: Receipt | None, *, joined: bool, producer: commands.Producer | None = None
    ) -> None:
        """`joined`: it may stand or fall together with others; not where a limit is to refuse single messages, or counts
        their bytes. A message with a producer stands alone."""
        priority = run.priority
        alike = (
            run.exchange,
            run.routing_key,
            run.expiration_ms,
            (commands.PERSISTENT * run.persistent) | (commands.REDELIVERED * run.redelivered),
            commands.level(priority if priority or _says_priority(run.content) else None),
        )
        last = self._gathering[-1] if self._gathering else None
        if not (
            joined
            and type(last) is _Publishes
            and producer is None
            and last.producer is None
            and last.alike == alike
            and last.size + len(run.content) <= JOINED_BYTES_MAX
        ):
            last = _Publishes(alike, self._next_sequence, producer)
            self._gathering.append(last)
            self._gathering_runs += 1
        last.add(run, receipt)
        self._next_sequence += run.count
        self.waiting_messages += run.count
        self.waiting_bytes += len(run.content)
        self._gathering_bytes += len(run.content)

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
        """For a consumer, a get or a purge; they ascend in the order in which they are said."""
        self._next_number += 1
        return self._next_number - 1

    def consumer_key(self, number: int) -> ConsumerKey:
        return ConsumerKey(*self.key, number)

    def say(self, op: commands.Op, asker: Callable[[Any], None] | None = None) -> None:
        """Anything else, behind everything said before."""
        self._say_settles()
        self._add(commands.encode(op), asker)

    def _say_settles(self) -> None:
        if self._settles:
            settles, self._settles = self._settles, {}
            for (number, outcome), ranges in settles.items():
                self._add(commands.encode_settle(self.consumer_key(number), outcome, ranges), None)

    def _add(self, data: bytes, asker: Asker) -> None:
        self._gathering.append(_Op(data, asker))
        self.waiting_bytes += len(data)
        self._gathering_bytes += len(data)

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
        while self.open and self.sent < (1 if self._doubts else IN_FLIGHT_MAX):
            if self.sent == len(self.portions):
                if not self._gathering or not self._may_overlap():
                    return
                self.portions.append(self._cut())
            self.sent += 1
            self._owner.send(self.portions[self.sent - 1], self.attempt)

    def _may_overlap(self) -> bool:
        """Whether what gathers need not wait until what was sent is answered."""
        if not self.sent or self._gathering_bytes >= AMPLE_BYTES:
            return True
        return not self._gathering_runs and not self.portions[-1].publishes

    def _cut(self) -> Portion:
        gathering = self._gathering
        ops: list[bytes] = []
        askers: list[Asker] = []
        size, sequence_end, runs = 0, self._cut_to, 0
        while gathering and (not ops or size + gathering[0].size <= PORTION_BYTES_MAX):
            op = gathering.popleft()
            if type(op) is _Publishes:
                ops += op.encode(self.key, self._answered)
                sequence_end = op.sequence + op.count
                runs += 1
            else:
                assert type(op) is _Op, f"{op!r} gathers among operations"
                ops.append(op.data)
            askers.append(op.asker)
            size += op.size
        self._cut_to = sequence_end
        self._gathering_bytes -= size
        self._gathering_runs -= runs
        return Portion(ops, askers, size, sequence_end, publishes=runs > 0)

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
        self._doubts = False
        self.waiting_bytes -= portion.size
        self.waiting_messages -= portion.sequence_end - self._answered
        self._answered = portion.sequence_end
        assert portion.results is not None, "a portion is told its results before they are known"
        for asker, result in zip(portion.askers, portion.results, strict=True):
            if type(asker) is list:
                self._owner.enqueued(asker, result)
            elif asker is not None:
                assert callable(asker), f"{asker!r} waits for a result"
                asker(result)

    def failed(self, attempt: int) -> None:
        """A portion of this attempt was not applied, or nobody knows."""
        if attempt != self.attempt:
            return
        self.attempt += 1
        self.sent = 0
        self.open = False
        self._doubts = True
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
        self.sent = self.waiting_bytes = self.waiting_messages = self._gathering_bytes = self._gathering_runs = 0
        return waiting


def _says_priority(content: bytes) -> bool:
    """Whether the first message has the property at all: without it, it is queued at the default priority."""
    return len(content) > _LENGTHS_BYTES and bool(content[_LENGTHS_BYTES] & _HAS_PRIORITY)
