"""Moves messages: gets one, publishes it, and acknowledges it when every queue that it goes to has confirmed.

    get ──> candidate ──> publish, mandatory ──> confirm ──> acknowledge
               └ not to be moved: held until the end, then back to its place

Some dozens are under way at a time. It ends when everything that was ready at its begin was looked at, and not before messages
that dead-letter again come round: so it always ends. It stops at the first refusal, with what it has moved until then; what is
not acknowledged returns to the queue when the session closes.

A core: its steps are a work of broker/background_work.py. Fulfils SessionSink.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from broker.errors import BrokerError, ResourceExhausted
from broker.messages.message import Run
from broker.pending import Pending
from broker.redrive.counts import RedriveCounts
from broker.redrive.order import RedriveCandidate, RedriveFate, RedriveOrder, check_redrivable
from broker.session.session import GotMessage, Session
from broker.session.silent_sink import SilentSink
from native.content import skip

if TYPE_CHECKING:
    from broker.node_queues import NodeQueues

IN_FLIGHT_MAX = 64  # messages that were asked for, or published and not confirmed
IN_FLIGHT_BYTES_MAX = 8 << 20  # of contents; one message is moved whatever its size
HELD_MAX = 50_000  # messages that are not to be moved and stay out until the end
STALL_MS = 30_000  # without an answer of any queue


class RedriveState(StrEnum):
    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(slots=True)
class InFlight:
    """Published and not confirmed yet."""

    tag: int
    size: int
    candidate: RedriveCandidate


class Redrive(SilentSink):
    """See the module."""

    def __init__(self, order: RedriveOrder, broker: NodeQueues) -> None:
        order.check()
        self.order = order
        self.counts = RedriveCounts()
        self.state = RedriveState.RUNNING
        self.error = ""  # why it failed
        self.moved = 0  # confirmed and acknowledged
        self.over: Pending[None] = Pending()
        self._broker = broker
        self._session: Session
        self._asked = 0  # gets, ever
        self._getting = 0  # gets without an answer
        self._in_flight: dict[int, InFlight] = {}  # by the number of the publish
        self._bytes = 0  # of these
        self._published = 0
        self._held = 0
        self._is_unroutable = False  # what is being published came back
        self._fans_out = False  # a publish goes to very many queues
        self._is_counted = False
        self._is_working = False
        self._answers = 0  # of queues: it stalls when they stop
        self._answers_before = 0
        self._stop_watching: Callable[[], None] = lambda: None

    def begin(self, session: Session, now: int) -> Pending[None]:
        """`session` is its own, and has it as its sink. Answered when it is over, however it ended. Raises BrokerError when it
        cannot begin."""
        self._session = session
        check_redrivable(session.topology.existing(self.order.queue).queue)
        session.publisher.select_confirms()
        self._watch()
        session.looks.count_ready(self.order.queue, now).then(self._counted, self._fail_and_end)
        return self.over

    def cancel(self) -> None:
        """What is under way is finished first."""
        self._stop(RedriveState.CANCELLED)

    def fail(self, error: BrokerError) -> None:
        self.error = self.error or error.text
        self._stop(RedriveState.FAILED)

    def _stop(self, state: RedriveState) -> None:
        if self.state is RedriveState.RUNNING:
            self.state = state
            self._go_on()

    # getting

    def _counted(self, ready: int) -> None:
        self.counts.ready, self._is_counted = ready, True
        self._go_on()

    def _go_on(self) -> None:
        if self._is_counted and not self._is_working and not self.over.answered:
            self._is_working = True
            self._broker.work.do(self._steps())

    def _steps(self) -> Iterator[None]:
        while self._may_get():
            self._get()
            yield
        self._is_working = False
        if not self._getting and not self._in_flight and not self._fans_out:
            self._end()

    def _may_get(self) -> bool:
        limit, under_way = self.order.limit, self._getting + len(self._in_flight)
        return (
            self.state is RedriveState.RUNNING
            and self._asked < self.counts.ready
            and under_way < IN_FLIGHT_MAX
            and self._bytes < IN_FLIGHT_BYTES_MAX
            and not self._fans_out
            and (not limit or self.moved + under_way < limit)
        )

    def _get(self) -> None:
        blocked = self._broker.alarms.blocked_reason
        if blocked is not None:
            self.fail(ResourceExhausted(f"publishers are held: {blocked}. Redrive again when that is over"))
            return
        self._asked += 1
        self._getting += 1
        try:
            asked = self._session.get(self.order.queue, False, self._broker.turns.now)
        except BrokerError as error:
            self._not_got(error)
        else:
            asked.then(self._got, self._not_got)

    def _not_got(self, error: BrokerError) -> None:
        self._getting -= 1
        self.fail(error)
        self._go_on()

    def _got(self, message: GotMessage | None) -> None:
        self._getting -= 1
        self._answers += 1
        if message is None:
            self._asked = self.counts.ready  # others have taken the rest
        elif self.state is RedriveState.RUNNING:
            self._move(message)
        self._go_on()

    # publishing

    def _move(self, message: GotMessage) -> None:
        piece = message.piece
        content = message.content[piece.position : skip(message.content, piece.position, 1)]
        try:
            candidate = self.order.candidate(self._session.publisher, content, piece.routing_key)
            if candidate.fate is RedriveFate.MOVES:
                self._publish(message.tag, candidate)
            else:
                self._hold(candidate)
        except BrokerError as error:
            self.fail(error)

    def _hold(self, candidate: RedriveCandidate) -> None:
        self.counts.add(candidate)
        self._held += 1
        if self._held >= HELD_MAX:
            self.fail(
                ResourceExhausted(
                    f"{HELD_MAX} messages were passed over, and no more can be held: filter less, or purge"
                )
            )

    def _publish(self, tag: int, candidate: RedriveCandidate) -> None:
        """Its confirm comes at the end of this turn at the earliest."""
        self._is_unroutable = False
        fan_out = self._session.publisher.publish(candidate.run, self._broker.turns.now)
        self._published += 1
        if self._is_unroutable:
            candidate = candidate._replace(fate=RedriveFate.UNROUTABLE)
        size = len(candidate.run.content)
        self._in_flight[self._published] = InFlight(tag, size, candidate)
        self._bytes += size
        if fan_out is not None and not self._fans_out:
            self._fans_out = True
            fan_out.then(self._fanned_out, self._not_fanned_out)

    def _fanned_out(self, _: None) -> None:
        self._fans_out = False
        self._go_on()

    def _not_fanned_out(self, error: BrokerError) -> None:
        self._fans_out = False
        self.fail(error)
        self._go_on()

    # what the session says

    def confirm(self, first: int, last: int, multiple: bool, ok: bool) -> None:
        for number in range(first, last + 1):
            self._confirmed(self._in_flight.pop(number), ok)
        self._go_on()

    def _confirmed(self, one: InFlight, ok: bool) -> None:
        self._answers += 1
        self._bytes -= one.size
        if one.candidate.fate is not RedriveFate.MOVES:
            self._hold(one.candidate)
        elif ok:
            self.counts.add(one.candidate)
            self.moved += 1
            self._session.acknowledge(one.tag, one.tag, False, self._broker.turns.now)
        else:
            run = one.candidate.run
            self.fail(
                ResourceExhausted(f"a queue refused a message: exchange '{run.exchange}', key '{run.routing_key}'")
            )

    def returned(self, run: Run, code: int, text: str) -> None:
        self._is_unroutable = True

    # the end

    def _watch(self) -> None:
        self._stop_watching = self._broker.call_after(STALL_MS, self._look)

    def _look(self, _: int) -> None:
        """Who waits in vain tells so; what is unconfirmed returns, and may have arrived all the same."""
        if self._answers == self._answers_before:
            unanswered = f"{self._getting} gets and {len(self._in_flight)} publishes"
            self._fail_and_end(
                ResourceExhausted(f"no queue has answered for {STALL_MS // 1000} s: {unanswered} are open")
            )
            return
        self._answers_before = self._answers
        self._watch()

    def _fail_and_end(self, error: BrokerError) -> None:
        self.fail(error)
        self._end()

    def _end(self) -> None:
        if self.over.answered:
            return
        self._stop_watching()
        if self.state is RedriveState.RUNNING:
            self.state = RedriveState.DONE
        if not self._session.closed:
            self._session.put_back(self._broker.turns.now)
        self.over.resolve(None)
