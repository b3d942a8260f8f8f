"""Dead letters on their way to the queues that get them, some queues at a time.

One after the other, in the order in which they died: a dead letter may push another one out of its queue, and so on along a
chain of queues that may be longer than the stack is deep. Usually they have arrived when `bury` returns. Where they are for
very many queues, or very many of them, the rest follows in later turns, and whatever dies meanwhile waits behind them.

A core: the steps are a work of broker/background_work.py.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from broker.background_work import Work
from broker.catalog.catalog import Catalog
from broker.catalog.policy import EffectiveArguments
from broker.confirms import Receipt
from broker.errors import ResourceExhausted
from broker.message import Run
from broker.open_queue import OpenQueue
from broker.queue_type import Arrival, DeadMessage, DeathReason, Queue
from broker.routing.asked import Asked
from broker.routing.dead_letter import HistoryTooLong, dead_lettered
from broker.turns import Turns

QUEUES_PER_STEP = 50  # 10 us each


class Cemetery(Protocol):
    """What is needed of the broker."""

    catalog: Catalog
    turns: Turns
    work: Work
    queues_per_step: int

    def find_queue(self, vhost: str, name: str) -> OpenQueue | None: ...

    def asks(self, vhost: str, props: bytes | None) -> Asked: ...


@dataclass(slots=True, frozen=True)
class Burial:
    """What has died in one queue for one reason at one time."""

    queue: Queue
    effective: EffectiveArguments  # what the queue went by then
    reason: DeathReason
    messages: Sequence[DeadMessage]
    died_at: int
    on_answer: Callable[[Arrival], None] | None  # told whether the one message has arrived; None: nobody asks


class Burials:
    """See the module. Those of one broker."""

    def __init__(self, broker: Cemetery) -> None:
        self.too_large = 0  # messages that went, for their headers left no room for what had become of them
        self.counted: dict[DeathReason, int] = dict.fromkeys(DeathReason, 0)  # messages given to an exchange
        self._broker = broker
        self._waiting: deque[Burial] = deque()  # the first is under way

    def bury(self, burial: Burial) -> None:
        self._waiting.append(burial)
        if len(self._waiting) == 1:
            steps = self._all()
            if next(steps, self) is not self:  # the first step is taken whatever else this turn does
                self._broker.work.do(steps)

    def _all(self) -> Iterator[None]:
        """The work."""
        per_step = min(QUEUES_PER_STEP, self._broker.queues_per_step)
        room = per_step
        try:
            while self._waiting:
                for handed in self._each(self._waiting[0]):
                    room -= handed
                    if room <= 0:
                        room = per_step
                        yield
                self._waiting.popleft()
        except BaseException:
            self._waiting.clear()  # whatever stopped it is told; what dies from now on has a work of its own
            raise

    def _each(self, burial: Burial) -> Iterator[int]:
        """Tells how many queues were given something since it told that last."""
        record, broker = burial.queue.record, self._broker
        effective = burial.effective
        exchange = effective.dead_letter_exchange
        if exchange is None or (exchange and broker.catalog.exchange(record.vhost, exchange) is None):
            _answer(burial, Arrival.NOWHERE)
            return
        for message in burial.messages:
            try:
                run, targets = dead_lettered(
                    broker.catalog, record, effective, burial.reason, message, broker.asks, burial.died_at
                )
            except HistoryTooLong:
                self.too_large += 1
                _answer(burial, Arrival.NOWHERE)
                continue
            if burial.on_answer is None:
                self.counted[burial.reason] += 1
                yield from self._pass_on(record.vhost, targets, run)
            else:
                yield from self._pass_on_confirmed(burial, burial.on_answer, targets, run)

    def _pass_on(self, vhost: str, targets: Sequence[str], run: Run) -> Iterator[int]:
        for name in targets:
            found = self._broker.find_queue(vhost, name)
            if found is not None:
                with suppress(ResourceExhausted):  # the disk failed: after a restart it is where it died
                    found.kind.publish((found.queue,), run, None, self._broker.turns.now)
            yield 1

    def _pass_on_confirmed(
        self, burial: Burial, on_answer: Callable[[Arrival], None], targets: Sequence[str], run: Run
    ) -> Iterator[int]:
        vhost = burial.queue.record.vhost
        there = [name for name in targets if self._broker.find_queue(vhost, name) is not None]
        if not there:
            on_answer(Arrival.NOWHERE)
            return
        self.counted[burial.reason] += 1
        receipt = Receipt(DeadLetterReceipt(on_answer), 1, 1, len(there))
        for name in there:
            found = self._broker.find_queue(vhost, name)
            if found is None:
                receipt.accepted()  # it was deleted meanwhile, as with any other publish
                continue
            try:
                found.kind.publish((found.queue,), run, receipt, self._broker.turns.now)
            except ResourceExhausted:
                receipt.give_up()
                return
            yield 1


class DeadLetterReceipt:
    """Tells once what became of a message. Fulfils AnswersTo."""

    def __init__(self, on_answer: Callable[[Arrival], None]) -> None:
        self._on_answer: Callable[[Arrival], None] | None = on_answer

    def answered(self, receipt: Receipt) -> None:
        self._tell(Arrival.ARRIVED if receipt.taken else Arrival.REFUSED)

    def given_up(self, receipt: Receipt) -> None:
        self._tell(Arrival.REFUSED)

    def _tell(self, arrived: Arrival) -> None:
        on_answer, self._on_answer = self._on_answer, None
        if on_answer is not None:
            on_answer(arrived)


def _answer(burial: Burial, arrival: Arrival) -> None:
    if burial.on_answer is not None:
        burial.on_answer(arrival)
