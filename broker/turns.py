"""The end of a turn: what a batch of work has caused is passed on together, in three steps.

A *turn* is one batch of work on the event loop: the input of one socket, what one commit of the log made durable, the timers
that were due. At its end, in this order:

    pump      queues that were woken deliver what their consumers have room for, until the turn is full
    confirm   publishers are told what was answered
    flush     clients that have something to read are written to, once each; those of which input was held back go on with it
              first, and then queues and sessions have another go before anything is written

So a message is delivered, confirmed and written with all others of its batch. A front that reads a batch of input puts it
between `begin` and `end`, and what it caused leaves at once. Whatever else happens (a timer, an answer, a commit) requests
a turn, and its end comes in the next round of the loop.

A fault in one of them (a queue, a session, a client) is raised to whoever ended the turn; the others have their turn next.

The log's commit is no part of this: it starts when the round of the loop is over, so that all turns of the round share it.

A core: later turns come through `soon`, the time through `wall_ms`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from broker.background_work import Unsliced, Work
from broker.queues.queue_type import Queue

# In each turn, however long it takes to read them: a client that consumes from a short queue and cancels at once expects all of
# it, and a disk that is slow now must not decide.
DELIVERIES_MIN = 8


class ConfirmingPublisher(Protocol):
    """The publisher of a session whose client has asked for confirms."""

    def flush_confirms(self) -> None:
        """Tell the client what was answered."""


class ClientOutput(Protocol):
    """What a front writes to one client, gathered until the end of the turn."""

    def proceed(self, now: int) -> bool:
        """Go on with input that was held back. True: it gave the broker something to do."""

    def flush(self) -> bool:
        """Write what there is. True: that made room for more at once, and it wants the next turn, too."""


class Turns:
    """See the module. One for a broker and all its fronts."""

    def __init__(
        self,
        soon: Callable[[Callable[[], None]], object],
        wall_ms: Callable[[], int],
        work: Work | None = None,
    ) -> None:
        self.now = 0  # of the newest thing that happened
        self.work: Work = work if work is not None else Unsliced()
        self._soon = soon
        self.wall_ms = wall_ms
        self._woken: dict[Queue, None] = {}
        self._confirming: dict[ConfirmingPublisher, None] = {}
        self._writing: dict[ClientOutput, None] = {}
        self._is_near = False  # this turn is not over yet, or one was asked for
        self._comes = False  # what is being done ends its turn itself, if it causes any

    # ------------------------------------------------------------------------- what is to be done at the end

    def wake(self, queue: Queue) -> None:
        self._woken[queue] = None
        if not self._is_near:
            self.request()

    def forget_queue(self, queue: Queue) -> None:
        self._woken.pop(queue, None)

    def confirm(self, publisher: ConfirmingPublisher) -> None:
        self._confirming[publisher] = None
        if not self._is_near:
            self.request()

    def forget_publisher(self, publisher: ConfirmingPublisher) -> None:
        self._confirming.pop(publisher, None)

    def write(self, client: ClientOutput) -> None:
        self._writing[client] = None
        if not self._is_near:
            self.request()

    # ------------------------------------------------------------------------- when the end comes

    def request(self) -> None:
        """End a turn soon: something happened that no client's input will."""
        if not self._is_near:  # those above ask first, and need no call in most cases
            self._is_near = True
            if not self._comes:
                self._soon(self.end_requested)

    def begin(self) -> int:
        """A batch of input is taken up: the caller ends the turn. Returns what time it is for all of it."""
        self._is_near = True
        self.now = now = self.wall_ms()
        return now

    def end_behind_input(self) -> None:
        """End this turn when the loop has looked at its sockets once more: what is on its way to them belongs to it."""
        self._soon(self._end_next_round)

    def _end_next_round(self) -> None:
        self._soon(self.end_requested)

    def around(self, work: Callable[[], None]) -> None:
        """Do what may cause something: then the turn ends right behind it, and the loop need not be asked for that."""
        self._comes = True
        try:
            work()
        except BaseException:
            self._comes = False
            if self._is_near:
                self._soon(self.end_requested)
            raise
        self._comes = False
        self.end_requested()

    def behind(self, work: Callable[[], None]) -> None:
        """As `around`, unless a turn is to end anyway: then that one ends behind it."""
        if self._is_near or self._comes:
            work()
        else:
            self.around(work)

    def end_requested(self) -> None:
        """Now, if one was asked for and has not come yet."""
        if self._is_near:
            self.end()

    def end(self, now: int | None = None) -> None:
        """`now`: as `begin` has said."""
        if now is None:
            now = self.begin()
        again: dict[ClientOutput, None] = {}  # who could take more at once
        try:
            if self._woken or self._confirming:
                self._deliver(now)
            else:
                self.work.turn_ended()
            while self._writing:
                self._write(now, again)
        finally:
            self._is_near = False
            if again:
                self._writing.update(again)
            if self._woken or self._confirming or self._writing:  # other sockets come first
                self.request()

    def deliver_from(self, queue: Queue, now: int) -> None:
        """Deliver from one queue before the turn ends: whoever asks it for messages, or how many it has, comes behind the
        consumers that were waiting for them."""
        if queue in self._woken:
            del self._woken[queue]
            queue.pump(now)

    # ------------------------------------------------------------------------- steps

    def _deliver(self, now: int) -> None:
        """Pump, then confirm."""
        self.work.turn_ended()  # of what clients have sent: deliveries have a budget of their own
        if self._woken:
            while self._woken and self._pump(now):
                pass  # those that were woken by what was delivered
            self.work.turn_ended()
        if self._confirming:
            self._confirm()

    # Where one fails, that is a fault of ours and goes to whoever ended the turn; those behind it have their turn next.

    def _pump(self, now: int) -> bool:
        """Those for which this turn has no room stay woken (False). If they were pumped to find that out themselves, a thousand
        short queues would do so again in each turn, and that takes longer than to deliver from them."""
        woken, self._woken = self._woken, {}
        is_full, all_done = self.work.is_full, False
        behind = iter(woken)
        try:
            for queue in behind:
                queue.pump(now)
                if is_full(DELIVERIES_MIN):
                    return False
            all_done = True
            return True
        finally:
            if not all_done:
                self._woken = {**dict.fromkeys(behind), **self._woken}

    def _confirm(self) -> None:
        confirming, self._confirming = self._confirming, {}
        behind = iter(confirming)
        try:
            for publisher in behind:
                publisher.flush_confirms()
        except BaseException:
            self._confirming = {**dict.fromkeys(behind), **self._confirming}
            raise

    def _write(self, now: int, again: dict[ClientOutput, None]) -> None:
        clients, self._writing = self._writing, {}
        behind, failing = iter(clients), None
        try:
            moved = False
            for failing in clients:
                moved |= failing.proceed(now)
            failing = None
            if moved:
                self._deliver(now)
            for client in behind:
                if client.flush():
                    again[client] = None
        except BaseException:
            self._writing = {**{one: None for one in behind if one is not failing}, **self._writing}
            raise
