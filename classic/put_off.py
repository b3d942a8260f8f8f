"""What a queue does in slices (broker/background_work.py), because it may be too much for one turn, and who waits for it.

    settlements   what clients gave back in a turn that was full already: of 40 000 messages settled by one method, most.
                  In order; what is given back later comes behind them
    trimming      what is too old or too much leaves at the head
    requests      that must not see half of it: a get while messages come back would take the wrong one

What needs a content that is out of reach, because no file descriptor is left, is put off until the next tick, and until then
nothing of the queue is read: all the others would only ask in vain, too.

Nothing is delivered while messages come back: the first of them might still be missing. While the head is too old and has not
left yet nothing is delivered either. Whatever a request answers holds when it is answered: it is asked when all is done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from broker.queue_type import HeldSlice, Outcome, QueueHost, Slice
from classic.variable_queue import ContentOutOfReach

if TYPE_CHECKING:
    from classic.queue import ClassicQueue

SETTLEMENTS_PER_STEP = 16
# Messages by which a queue may grow while it is trimmed. To dead-letter one takes longer than to publish it, so without a limit
# a publisher who never pauses would outrun the slices, and fill memory and disk behind a limit on the length.
GROWTH_MAX = 10_000
Request = Callable[[int], None]


class PutOff:
    """See the module. Of one queue."""

    def __init__(self, queue: ClassicQueue, host: QueueHost) -> None:
        self.returning = 0  # messages that were given back to be ready again, and are not yet
        self.trimming = False
        self._began_now = False  # trimming, in the step that is under way: who asked for it goes on by itself
        self._stopped = False
        self.settlements: deque[tuple[Slice | HeldSlice, Outcome]] = deque()
        self._queue = queue
        self._host = host
        self._ready_before = 0  # when trimming began
        self._requests: deque[Request] = deque()
        self._settling = False
        self._pumping = False
        self._now = 0  # of the newest thing that was put off
        self.out_of_reach = False  # something could not be read: nothing is tried before the next tick
        self._told_of_it = False  # since something could be read last

    @property
    def is_under_way(self) -> bool:
        """Whether what is ready will be something else soon, without anybody's doing."""
        return not self._queue.deleted and (self.trimming or self.returning > 0)

    @property
    def waits_for_reach(self) -> bool:
        return self.out_of_reach and not self._queue.deleted

    def settle(self, piece: Slice, outcome: Outcome, now: int) -> None:
        self.settlements.append((piece, outcome))
        if comes_back(outcome):
            self.returning += piece.count
        self._settle_soon(now)

    def settle_all(self, held: Sequence[HeldSlice], outcome: Outcome, now: int) -> None:
        """Of very many even the slices are made in steps."""
        self.settlements.extend([(one, outcome) for one in held])
        if comes_back(outcome):
            self.returning += sum([one.count for one in held])
        self._settle_soon(now)

    def settle_first(self, piece: Slice, outcome: Outcome, now: int) -> None:
        """The same before all others: it is what is left of one that was done in part."""
        self.settlements.appendleft((piece, outcome))
        if comes_back(outcome):
            self.returning += piece.count
        self._settle_soon(now)

    def _settle_soon(self, now: int) -> None:
        self._now = now
        if not self._settling:
            self._settling = True
            self._host.work.do(self._settle_all())

    def _settle_all(self) -> Iterator[None]:
        try:
            while self.settlements and not self.out_of_reach:
                for _ in range(min(SETTLEMENTS_PER_STEP, len(self.settlements))):
                    self._settle_next()
                    if self.out_of_reach:
                        break
                yield
        finally:
            self._settling = False
        self.go_on(self._now)

    def _settle_next(self) -> None:
        piece, outcome = self.settlements.popleft()
        if comes_back(outcome):
            self.returning -= piece.count
        self._queue.settle_now(slice_of(piece), outcome, self._now)

    def finish(self) -> None:
        """The node stops: what was given back is noted, however long it takes. Nothing is dead-lettered any more, for the
        targets may be closed already: what was rejected and not passed on yet comes back, and what is too old or too much
        stays, so the next start finds it."""
        self._stopped = True
        settlements, self.settlements = self.settlements, deque()
        for piece, outcome in settlements:
            if outcome is Outcome.REJECTED and self._queue.dead_letters:
                outcome = Outcome.REQUEUED
            self._queue.settle_now(slice_of(piece), outcome, self._now)  # or it stays out, when it is out of reach

    def trim(self, now: int) -> None:
        """Let go at the head of what has to, as far as this turn goes, and of the rest later."""
        self._now = now
        if not self.trimming and not self.out_of_reach:
            self.trimming = self._began_now = True
            self._ready_before = self._queue.ready_count
            self._host.work.do(self._trim())
            self._began_now = False

    @property
    def is_outrun(self) -> bool:
        """Whether publishers should pause, for the queue grows faster than it is trimmed."""
        return self.trimming and self._queue.ready_count > self._ready_before + GROWTH_MAX

    def _trim(self) -> Iterator[None]:
        try:
            while not self._stopped and not self._queue.deleted and self._queue.trim_some(self._now):
                yield
        except ContentOutOfReach:
            self.wait_for_reach()
        finally:
            self.trimming = False
        if not self._began_now or self._requests:
            self.go_on(self._now)

    def pump(self) -> None:
        """Deliver more in another turn."""
        if not self._pumping:
            self._pumping = True
            self._host.work.do(self._pump_again())

    def _pump_again(self) -> Iterator[None]:
        yield  # in this turn there is no room
        self._pumping = False
        self._host.wake(self._queue)

    # what is out of reach

    def wait_for_reach(self) -> None:
        """Until the next tick."""
        self.out_of_reach = True
        self._queue.backing.active[self._queue] = None
        if not self._told_of_it:
            self._told_of_it = True
            self._queue.backing.tell_out_of_reach()

    def try_again(self, now: int) -> None:
        """Whatever waits for what was out of reach."""
        self._told_of_it = self.out_of_reach
        if not self.out_of_reach:
            return
        self.out_of_reach = False
        if self.settlements:
            self._settle_soon(now)
        self._queue.look_again(now)
        self.go_on(now)

    # requests

    def wait(self, request: Request) -> None:
        """It is called when nothing is put off any more, or the queue is deleted."""
        self._requests.append(request)

    def go_on(self, now: int) -> None:
        """Something is done."""
        queue = self._queue
        if self.is_under_way or self.waits_for_reach:
            return
        queue.pump(now)  # those who wait come behind the consumers
        requests, self._requests = self._requests, deque()
        for request in requests:
            request(now)
        if not queue.deleted:
            self._host.wake(queue)


def comes_back(outcome: Outcome) -> bool:
    """Whether messages that are settled so are ready again."""
    return outcome is not Outcome.ACKNOWLEDGED and outcome is not Outcome.REJECTED


def slice_of(piece: Slice | HeldSlice) -> Slice:
    return piece if isinstance(piece, Slice) else piece.slice()
