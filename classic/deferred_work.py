"""Work of one queue that is deferred because it may be too much for one turn (broker/background_work.py), and who waits for it.

    settlements   those that came in a turn that was full already: of 40 000 messages settled by one method, most. In order;
                  later settlements queue behind them
    trimming      dropping at the head what has expired or exceeds a limit
    requests      that must not see it half done: a get while messages are being requeued would take the wrong one

Work that needs a content which is out of reach, because no file descriptor is left, is retried on the next tick. Until then
nothing of the queue is read, as every other read would fail too.

Nothing is delivered while messages are being requeued, since the first of them might still be missing, nor while an expired
head waits to be dropped. A request is made when all work is done, so its answer holds at that moment.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from broker.queues.queue_type import HeldSlice, Outcome, Queue, QueueHost, Slice
from classic.run_backing import ContentOutOfReach
from classic.store.backing import QueueBacking
from classic.store.stored_queue import StoredQueue

SETTLEMENTS_PER_STEP = 16
# Messages by which a queue may grow while it is trimmed. Dead-lettering one takes longer than publishing it, so without this a
# publisher that never pauses would outrun the steps, and fill memory and disk in spite of a limit on the length.
GROWTH_MAX = 10_000
Request = Callable[[int], None]


class DeferringQueue(Queue, StoredQueue, Protocol):
    """The queue whose work this is."""

    @property
    def backing(self) -> QueueBacking: ...

    @property
    def dead_letters(self) -> bool:
        """Whether it has a dead-letter exchange."""

    def settle_now(self, piece: Slice, outcome: Outcome, now: int) -> None: ...

    def trim_some(self, now: int) -> bool:
        """One step of letting go at the head; False when nothing is left to go. Raises ContentOutOfReach."""

    def look_again(self, now: int) -> None:
        """What could not be read may be in reach."""


class DeferredWork:
    """See the module. Of one queue, which it is given with each call: a deleted queue that ended as a cycle would stay in
    memory until the garbage collector comes."""

    def __init__(self, host: QueueHost) -> None:
        self.returning = 0  # messages that are to be requeued, and are not ready yet
        self.trimming = False
        self._began_now = False  # trimming began in this very step: its caller continues by itself
        self.has_finished = False  # the node stops
        self.settlements: deque[tuple[Slice | HeldSlice, Outcome]] = deque()
        self._host = host
        self._ready_before = 0  # when trimming began
        self._requests: deque[Request] = deque()
        self._settling = False
        self._pumping = False
        self._now = 0  # of the newest deferred work
        self.out_of_reach = False  # something could not be read: nothing is tried before the next tick
        self._reported = False  # that it is out of reach, since something could be read last

    def is_under_way(self, queue: DeferringQueue) -> bool:
        """Whether what is ready will change soon by deferred work."""
        return not queue.deleted and (self.trimming or self.returning > 0)

    def waits_for_reach(self, queue: DeferringQueue) -> bool:
        return self.out_of_reach and not queue.deleted

    def settle(self, queue: DeferringQueue, piece: Slice, outcome: Outcome, now: int) -> None:
        self.settlements.append((piece, outcome))
        if comes_back(outcome):
            self.returning += piece.count
        self._settle_soon(queue, now)

    def settle_all(self, queue: DeferringQueue, held: Sequence[HeldSlice], outcome: Outcome, now: int) -> None:
        """The slices, too, are made in steps: there may be very many."""
        self.settlements.extend([(one, outcome) for one in held])
        if comes_back(outcome):
            self.returning += sum([one.count for one in held])
        self._settle_soon(queue, now)

    def settle_first(self, queue: DeferringQueue, piece: Slice, outcome: Outcome, now: int) -> None:
        """Before all others: this is the rest of a settlement that was done in part."""
        self.settlements.appendleft((piece, outcome))
        if comes_back(outcome):
            self.returning += piece.count
        self._settle_soon(queue, now)

    def _settle_soon(self, queue: DeferringQueue, now: int) -> None:
        self._now = now
        if not self._settling:
            self._settling = True
            self._host.work.do(self._settle_all(queue))

    def _settle_all(self, queue: DeferringQueue) -> Iterator[None]:
        try:
            while self.settlements and not self.out_of_reach:
                for _ in range(min(SETTLEMENTS_PER_STEP, len(self.settlements))):
                    self._settle_next(queue)
                    if self.out_of_reach:
                        break
                yield
        finally:
            self._settling = False
        self.resume(queue, self._now)

    def _settle_next(self, queue: DeferringQueue) -> None:
        piece, outcome = self.settlements.popleft()
        if comes_back(outcome):
            self.returning -= piece.count
        queue.settle_now(slice_of(piece), outcome, self._now)

    def finish(self, queue: DeferringQueue) -> None:
        """The node stops: do all settlements now, however long that takes. Nothing is dead-lettered any more, as targets may be
        closed already: messages that were rejected and not passed on yet are requeued, and expired or excess ones stay, so
        the next start finds them."""
        self.has_finished = True
        settlements, self.settlements = self.settlements, deque()
        for piece, outcome in settlements:
            if outcome is Outcome.REJECTED and queue.dead_letters:
                outcome = Outcome.REQUEUED
            queue.settle_now(slice_of(piece), outcome, self._now)  # out of reach: it stays out

    def trim(self, queue: DeferringQueue, now: int) -> None:
        """Drop what has to leave at the head: as much as this turn has time for now, the rest later."""
        self._now = now
        if not self.trimming and not self.out_of_reach:
            self.trimming = self._began_now = True
            self._ready_before = queue.ready_count
            self._host.work.do(self._trim(queue))
            self._began_now = False

    def is_outrun(self, queue: DeferringQueue) -> bool:
        """Whether publishers should pause, for the queue grows faster than it is trimmed."""
        return self.trimming and queue.ready_count > self._ready_before + GROWTH_MAX

    def _trim(self, queue: DeferringQueue) -> Iterator[None]:
        try:
            while not self.has_finished and not queue.deleted and queue.trim_some(self._now):
                yield
        except ContentOutOfReach:
            self.wait_for_reach(queue)
        finally:
            self.trimming = False
        if not self._began_now or self._requests:
            self.resume(queue, self._now)

    def pump(self, queue: DeferringQueue) -> None:
        """Deliver more in another turn."""
        if not self._pumping:
            self._pumping = True
            self._host.work.do(self._pump_again(queue))

    def _pump_again(self, queue: DeferringQueue) -> Iterator[None]:
        yield  # this turn is full
        self._pumping = False
        self._host.wake(queue)

    # contents out of reach

    def wait_for_reach(self, queue: DeferringQueue) -> None:
        """Read nothing until the next tick."""
        self.out_of_reach = True
        queue.backing.active[queue] = None
        if not self._reported:
            self._reported = True
            queue.backing.tell_out_of_reach()

    def retry(self, queue: DeferringQueue, now: int) -> None:
        """Called on each tick: try again what was out of reach."""
        self._reported = self.out_of_reach
        if not self.out_of_reach:
            return
        self.out_of_reach = False
        if self.settlements:
            self._settle_soon(queue, now)
        queue.look_again(now)
        self.resume(queue, now)

    # requests

    def wait(self, request: Request) -> None:
        """Call it when no work is deferred any more, or the queue is deleted."""
        self._requests.append(request)

    def resume(self, queue: DeferringQueue, now: int) -> None:
        """Some work was done: if none is left, serve consumers, then requests; without requests consumers can wait for the end
        of the turn."""
        if self.is_under_way(queue) or self.waits_for_reach(queue):
            return
        if self._requests:
            queue.pump(now)
            requests, self._requests = self._requests, deque()
            for request in requests:
                request(now)
        if not queue.deleted:
            self._host.wake(queue)


def comes_back(outcome: Outcome) -> bool:
    """Whether this outcome makes messages ready again."""
    return outcome is not Outcome.ACKNOWLEDGED and outcome is not Outcome.REJECTED


def slice_of(piece: Slice | HeldSlice) -> Slice:
    return piece if isinstance(piece, Slice) else piece.slice()
