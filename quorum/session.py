"""What this node says to one queue's group: gathered into portions, one entry each (replicated/portions.py).

    gathering    what was said since the last portion was cut; grows while the pipeline is full

Runs that agree on all that the machine looks at become one operation, whichever channels they come from.

Only what is AMPLE does not wait for the portion before it, and what consumers settle does not wait for the like: it is small,
and brings them the messages that they have room for; unless those are on this node already (quorum/ahead.py). What was
applied already is recognised by the machine: by the sequences of messages, the numbers of consumers, gets and purges, the ids
of deliveries.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from broker.actors import LogActor
from broker.messages.confirms import Receipt
from broker.messages.message import Run
from broker.queues.queue_type import Outcome
from quorum.fifo import commands
from quorum.fifo.commands import ConsumerKey, SessionKey
from quorum.fifo.origins import DEATH, ORIGIN, encode_lone, encode_part
from quorum.fifo.results import Gap
from replicated.portions import AMPLE_BYTES, PORTION_BYTES_MAX, Asker, Owner, Pipeline, Portion

SETTLE_RANGES_MAX = 10_000  # of one operation
JOINED_BYTES_MAX = 128 << 10  # of an operation that several runs were joined to

_ORIGINS = int(commands.CommandKind.ORIGINS)
_LENGTHS_BYTES = 8  # of a message in a content, see native/content.py; its properties follow and begin with their flags
_HAS_PRIORITY = 0x08  # in the first byte of these


class _Op:
    """One operation that waits to be cut into a portion. Not an ENQUEUE."""

    __slots__ = ("asker", "data", "size")

    def __init__(self, data: bytes, asker: Asker) -> None:
        self.data = data
        self.size = len(data)
        self.asker = asker


class _Part:
    """Neighbours in an ENQUEUE that have one origin."""

    __slots__ = ("count", "died_in", "number", "publisher", "size", "waited_for")

    def __init__(self, run: Run, waited_for: bool, died_nth: int | None = None) -> None:
        """`died_nth`: only this message of the run, each of which has died in a place of its own."""
        self.publisher = run.publisher
        self.number = run.number
        self.count = run.count if died_nth is None else 1
        self.waited_for = waited_for
        self.died_in = run.died_in if run.died_in is None or died_nth is None else run.died_in.of_message(died_nth)
        self.size = ORIGIN.size if run.died_in is None else ORIGIN.size + DEATH.size

    def goes_on(self, run: Run, waited_for: bool) -> bool:
        """Whether the run is the next that the same channel published, and can be told with this one."""
        return (
            run.publisher is self.publisher
            and run.number == self.number + self.count
            and waited_for is self.waited_for
            and run.died_in is None is self.died_in
        )

    def actor(self, number_of: Callable[[LogActor], int]) -> int:
        return 0 if self.publisher is None else number_of(self.publisher)

    def encode(self, actor: int) -> bytes:
        died_in = self.died_in
        death = None if died_in is None else (died_in.queue_id, *died_in.position, died_in.reason)
        return encode_part(actor, self.number, self.count, self.waited_for, death)


class _Publishes:
    """Runs that agree, in order: one ENQUEUE."""

    __slots__ = ("alike", "asker", "body_bytes", "contents", "count", "parts", "producer", "sequence", "size")

    def __init__(self, alike: tuple[Any, ...], sequence: int, producer: commands.Producer | None) -> None:
        self.alike = alike  # what they agree on
        self.sequence = sequence
        self.producer = producer
        self.count = self.body_bytes = 0
        self.size = 0
        self.contents: list[bytes] = []
        self.asker: list[Receipt] = []
        self.parts: list[_Part] = []

    def add(self, run: Run, receipt: Receipt | None, *, says_who: bool) -> int:
        """Returns how many bytes that makes it longer."""
        added = len(run.content)
        self.count += run.count
        self.body_bytes += run.body_bytes
        self.contents.append(run.content)
        if receipt is not None:
            self.asker.append(receipt)
        if says_who:
            added += self._add_origin(run, receipt is not None)
        self.size += added
        return added

    def _add_origin(self, run: Run, waited_for: bool) -> int:
        if self.parts and self.parts[-1].goes_on(run, waited_for):
            self.parts[-1].count += run.count
            return 0
        if run.died_in is not None and run.died_in.further:
            parts = [_Part(run, waited_for, nth) for nth in range(run.count)]
            self.parts += parts
            return sum([part.size for part in parts])
        part = _Part(run, waited_for)
        self.parts.append(part)
        return part.size

    def encode(self, key: SessionKey, answered: int) -> list[bytes]:
        exchange, routing_key, expiration_ms, flags, priority = self.alike
        return commands.encode_enqueue(
            key, self.sequence, self.count, self.body_bytes, exchange, routing_key, *self.contents,
            answered=answered, expiration_ms=expiration_ms, flags=flags, priority=priority, producer=self.producer,
        )  # fmt: skip


class QueueSession(Pipeline):
    """This node's, of one queue, in one life of the process."""

    __slots__ = (
        "_actor_number", "_cut_to", "_gathering", "_gathering_bytes", "_gathering_runs", "_next_number", "_next_sequence",
        "_settles", "ahead", "key",
    )  # fmt: skip

    def __init__(self, key: SessionKey, owner: Owner, actor_number: Callable[[LogActor], int] | None = None) -> None:
        """`actor_number`: of those who publish, as the log of this node names them; None: it names nobody."""
        super().__init__(owner)
        self._actor_number = actor_number
        self.key = key
        self._gathering: deque[_Op | _Publishes] = deque()
        self._gathering_bytes = 0
        self._gathering_runs = 0
        self._settles: dict[tuple[int, Outcome], list[tuple[int, int]]] = {}
        self._next_sequence = 1
        self._cut_to = 1  # sequence of the first message that is in no portion yet
        self._next_number = 1
        self.ahead = False  # the queue's consumer is: what it settles does not bring it anything soon

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
        added = last.add(run, receipt, says_who=self._actor_number is not None)
        self._next_sequence += run.count
        self.waiting_messages += run.count
        self.waiting_bytes += added
        self._gathering_bytes += added

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

    def _gather(self) -> None:
        if self._settles:
            self._say_settles()

    def _may_cut(self) -> bool:
        if not self._gathering:
            return False
        if not self.sent or self._gathering_bytes >= AMPLE_BYTES:
            return True
        return not (self._gathering_runs or self.portions[-1].publishes or self.ahead)

    def _cut(self) -> Portion:
        gathering = self._gathering
        ops: list[bytes] = []
        askers: list[Asker] = []
        parts: list[_Part] = []
        size, sequence_end, runs = 0, self._cut_to, 0
        while gathering and (not ops or size + gathering[0].size <= PORTION_BYTES_MAX):
            op = gathering.popleft()
            if type(op) is _Publishes:
                ops += op.encode(self.key, self._answered)
                sequence_end = op.sequence + op.count
                runs += 1
                parts += op.parts
            else:
                assert type(op) is _Op, f"{op!r} gathers among operations"
                ops.append(op.data)
            askers.append(op.asker)
            size += op.size
        if parts and self._actor_number is not None:
            ops = [_origins(parts, self._actor_number), *ops]
            askers = [None, *askers]
        self._cut_to = sequence_end
        self._gathering_bytes -= size
        self._gathering_runs -= runs
        return Portion(ops, askers, size, sequence_end, publishes=runs > 0)

    def _has_gap(self, results: Sequence[Any]) -> bool:
        return Gap in map(type, results)

    def _forget(self) -> list[Asker]:
        waiting = [op.asker for op in self._gathering]
        self._gathering.clear()
        self._settles.clear()
        self._gathering_bytes = self._gathering_runs = 0
        return waiting


def _origins(parts: list[_Part], number_of: Callable[[LogActor], int]) -> bytes:
    one = parts[0]
    if len(parts) == 1 and one.died_in is None:
        return encode_lone(_ORIGINS, one.actor(number_of), one.number, one.count, one.waited_for)
    return commands.encode_origins([part.encode(part.actor(number_of)) for part in parts])


def _says_priority(content: bytes) -> bool:
    """Whether the first message has the property at all: without it, it is queued at the default priority."""
    return len(content) > _LENGTHS_BYTES and bool(content[_LENGTHS_BYTES] & _HAS_PRIORITY)
