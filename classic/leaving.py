"""How messages leave a queue otherwise than to a consumer: too old, too many, rejected. With a dead-letter exchange they go
there before they are forgotten, one after the other.

Each call does no more than a step of work in slices has room for (classic/deferred_work.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from broker.actors import LogActor
from broker.catalog.policy import EffectiveArguments
from broker.messages.message import Run
from broker.queues.queue_type import POSITION_UNKNOWN, DeadMessage, DeathReason, Queue, QueueHost, Slice
from classic.limits import excess
from classic.run_backing import ContentLost
from classic.store.backing import QueueBacking
from classic.store.log_records import DoneReason
from classic.stored_run import StoredRun, is_too_old
from classic.variable_queue import VariableQueue
from native.content import skip, take

ALL_BYTES = ALL_COUNT = 1 << 62
# Units of a step: to drop a run is one, and takes 6 us; to dead-letter a message takes ten times that.
STEP_UNITS = 64
DEAD_LETTER_UNITS = 8
DONE_REASONS = {DeathReason.EXPIRED: DoneReason.EXPIRED, DeathReason.MAXLEN: DoneReason.MAXLEN}
PIECE_MAX = STEP_UNITS // DEAD_LETTER_UNITS  # messages that are dead-lettered in one step

Content = tuple[bytes, int]  # of a run, and where in it the messages begin


class LeftQueue(Queue, Protocol):
    """The queue that they leave."""

    @property
    def backing(self) -> QueueBacking: ...

    @property
    def levels(self) -> Sequence[VariableQueue]: ...

    @property
    def ready_bytes(self) -> int: ...

    def forget(self, run: StoredRun, first: int, count: int, reason: DoneReason, by: LogActor | None = None) -> None:
        """Messages that are neither ready nor out any more."""


class Leaving:
    """See the module. Of one queue, which it is given with each call: they would be a cycle."""

    def __init__(self, host: QueueHost) -> None:
        self._host = host
        # The content that was read for a rejected message last, and where in it the next one begins: others of its run follow.
        self._read: tuple[StoredRun, bytes, int, int] | None = None

    def tick(self) -> None:
        """A content that was read long ago is not used any more."""
        self._read = None

    def trim_some(self, queue: LeftQueue, effective: EffectiveArguments, now: int) -> bool:
        """At the head; False when nothing is left to go. Raises ContentOutOfReach."""
        units = STEP_UNITS
        while units > 0:
            cost = self._drop_next(queue, units, effective, now)
            if not cost:
                return False
            units -= cost
        return True

    def _drop_next(self, queue: LeftQueue, units: int, effective: EffectiveArguments, now: int) -> int:
        """Messages of one run; what that cost."""
        buries = effective.dead_letter_exchange is not None
        count_max = max(1, units // DEAD_LETTER_UNITS) if buries else ALL_COUNT
        for level in queue.levels:
            run = level.head()
            if run is not None and is_too_old(run, now):
                count = self._die(queue, level, buries, min(run.ready, count_max), DeathReason.EXPIRED, now)
                return count * DEAD_LETTER_UNITS if buries else 1
        if (count := excess(effective, queue.ready_count, queue.ready_bytes)) > 0:
            lowest = next(level for level in queue.levels if level.ready)
            count = self._die(queue, lowest, buries, min(count, count_max), DeathReason.MAXLEN, now)
            return count * DEAD_LETTER_UNITS if buries else 1
        return 0

    def _die(
        self, queue: LeftQueue, level: VariableQueue, buries: bool, count_max: int, reason: DeathReason, now: int
    ) -> int:
        """Up to this many messages from the head: to the dead-letter exchange, if there is one, before they are forgotten.
        Returns how many."""
        if not buries:
            run, first, count = level.drop(count_max)
        else:
            try:
                run, first, count, content, position = level.take(count_max, ALL_BYTES)
            except ContentLost:
                return 1  # it has left, too
            self._dead_letter(queue, run, content, position, count, reason, now, first)
        queue.forget(run, first, count, DONE_REASONS[reason])
        return count

    def bury_run(self, queue: LeftQueue, run: Run, now: int) -> None:
        """One that was never taken."""
        self._dead_letter(queue, run, run.content, 0, run.count, DeathReason.MAXLEN, now, None)

    def content_of(self, queue: LeftQueue, piece: Slice, effective: EffectiveArguments) -> Content | None:
        """What is to be dead-lettered of messages that a consumer rejected. Raises ContentOutOfReach."""
        if effective.dead_letter_exchange is None:
            return None
        run: StoredRun = piece.handle
        if run.content is not None:
            return run.content, run.position_of(piece.sequence, run.content)
        try:
            return self._read_content(queue, run, piece)
        except ContentLost:
            return None

    def bury(self, queue: LeftQueue, piece: Slice, content_and_position: Content, now: int) -> None:
        """Messages that a consumer rejected."""
        run: StoredRun = piece.handle
        content, position = content_and_position
        self._dead_letter(queue, run, content, position, piece.count, DeathReason.REJECTED, now, piece.sequence)

    def _read_content(self, queue: LeftQueue, run: StoredRun, piece: Slice) -> Content:
        """The content of a run that is not in memory, and where the piece begins in it. Raises ContentLost and
        ContentOutOfReach."""
        read = self._read
        if read is None or read[0] is not run or read[2] > piece.sequence:
            content, first = queue.backing.read(run)
            read = run, content, first, 0
        _, content, sequence, at = read
        position = skip(content, at, piece.sequence - sequence)
        ends = piece.sequence + piece.count == run.end
        self._read = None if ends else (run, content, piece.sequence, position)
        return content, position

    def _dead_letter(
        self,
        queue: LeftQueue,
        run: Run | StoredRun,
        content: bytes,
        position: int,
        count: int,
        reason: DeathReason,
        now: int,
        first: int | None,
    ) -> None:
        """So many messages from a position in the content on, of which the first has this sequence."""
        dead = []
        for passed in range(count):
            _, end, _ = take(content, position, 1, ALL_BYTES)
            place = None if first is None else (first + passed, 0, 0)
            dead.append(DeadMessage(run.exchange, run.routing_key, content[position:end], run.persistent, place))
            position = end
        self._host.dead_letter(queue, reason, dead, now)


def parted(piece: Slice, count: int) -> tuple[Slice, Slice | None]:
    """So many messages of it, and those behind them."""
    if piece.count <= count:
        return piece, None
    rest = replace(piece, sequence=piece.sequence + count, count=piece.count - count, position=POSITION_UNKNOWN)
    return replace(piece, count=count), rest
