"""Dead letters on their way to the queues that get them, some queues at a time.

One after the other, in the order in which they died: a dead letter may push another one out of its queue, and so on along a
chain of queues that may be longer than the stack is deep. Usually they have arrived when `bury` returns. Where they are for
very many queues, or very many of them, the rest follows in later turns, and whatever dies meanwhile waits behind them.

A core: the steps are a work of broker/background_work.py.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from broker.background_work import Work
from broker.catalog.catalog import Catalog
from broker.catalog.policy import EffectiveArguments
from broker.errors import ResourceExhausted
from broker.messages.confirms import Receipt
from broker.messages.message import Run
from broker.names import is_holding
from broker.queues.open_queue import OpenQueue
from broker.queues.queue_type import DeadMessage, DeathReason, OnArrival, Queue
from broker.routing.arrivals import DeadLetterReceipt, QueueAnswer
from broker.routing.asked import Asked
from broker.routing.dead_letter import HistoryTooLong, dead_lettered
from broker.routing.release import Releases
from broker.turns import Turns
from broker.unlogged import Unlogged, UnloggedCounter

QUEUES_PER_STEP = 50  # 10 us each


class Cemetery(Protocol):
    """What is needed of the broker."""

    catalog: Catalog
    turns: Turns
    work: Work
    queues_per_step: int
    unlogged: UnloggedCounter | None

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
    receipt: DeadLetterReceipt | None = None  # of the one message, if its queue keeps it until it has arrived
    on_release: OnArrival | None = None  # of delayed messages that are due together


class Burials:
    """See the module. Those of one broker."""

    def __init__(self, broker: Cemetery) -> None:
        self.too_large = 0  # messages that went, for their headers left no room for what had become of them
        self.released = 0  # delayed messages that were routed
        self.counted: dict[DeathReason, int] = dict.fromkeys(DeathReason, 0)  # messages given to an exchange
        self._broker = broker
        self._releases = Releases(broker.catalog, broker.asks)
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
        """Tells how many queues were given something since it told that last, or what took as long."""
        record, broker = burial.queue.record, self._broker
        if is_holding(record.name):
            yield from self._release(burial)
            return
        effective = burial.effective
        exchange = effective.dead_letter_exchange
        if exchange is None or (exchange and broker.catalog.exchange(record.vhost, exchange) is None):
            _went_nowhere(burial)
            return
        for message in burial.messages:
            try:
                run, targets = dead_lettered(
                    broker.catalog, record, effective, burial.reason, message, broker.asks, burial.died_at
                )
            except HistoryTooLong:
                self.too_large += 1
                _went_nowhere(burial)
                continue
            if burial.receipt is None:
                self.counted[burial.reason] += 1
                yield from self._pass_on(record.vhost, targets, run)
            else:
                yield from self._pass_on_confirmed(burial, burial.receipt, targets, run)

    def _release(self, burial: Burial) -> Iterator[int]:
        """Delayed messages whose time has come."""
        record = burial.queue.record
        self.released += len(burial.messages)
        for group in self._releases.runs(record, burial.messages):
            if group is None:
                yield QUEUES_PER_STEP
                continue
            run, targets, members = group
            receipt = burial.receipt
            if receipt is None:
                assert burial.on_release is not None, f"{record.label} keeps messages until they have arrived"
                receipt = DeadLetterReceipt(members, set(), burial.on_release)
            if targets:
                yield from self._pass_on_confirmed(burial, receipt, targets, run)
            else:  # as with any other publish
                self._count_unlogged(Unlogged.UNROUTABLE, run)
                receipt.begin(0)
                yield 1

    def _count_unlogged(self, what: Unlogged, run: Run) -> None:
        if self._broker.unlogged is not None:
            self._broker.unlogged.count(what, None, run.exchange, run.routing_key, run.count, run.body_bytes)

    def _pass_on(self, vhost: str, targets: Sequence[str], run: Run) -> Iterator[int]:
        if not targets:
            self._count_unlogged(Unlogged.DEAD_UNROUTABLE, run)
        for name in targets:
            found = self._broker.find_queue(vhost, name)
            if found is not None:
                with suppress(ResourceExhausted):  # the disk failed: after a restart it is where it died
                    found.kind.publish((found.queue,), run, None, self._broker.turns.now)
            yield 1

    def _pass_on_confirmed(
        self, burial: Burial, receipt: DeadLetterReceipt, targets: Sequence[str], run: Run
    ) -> Iterator[int]:
        """To those that do not have it yet: who has taken it is not given it again for one that refuses."""
        vhost = burial.queue.record.vhost
        there = [found for name in targets if (found := self._broker.find_queue(vhost, name)) is not None]
        if not there and not receipt.reached:
            receipt.went_nowhere()
            return
        if not receipt.reached and not is_holding(burial.queue.record.name):
            self.counted[burial.reason] += 1
        owed = [found.queue.record for found in there if found.queue.record.id not in receipt.reached]
        receipt.begin(len(owed))
        for record in owed:
            found = self._broker.find_queue(vhost, record.name)
            if found is None or found.queue.record.id != record.id:
                receipt.told(record.id)  # it was deleted meanwhile, as with any other publish
                continue
            answer = Receipt(QueueAnswer(receipt, record.id), 0, run.count - 1, 1)
            try:
                found.kind.publish((found.queue,), run, answer, self._broker.turns.now)
            except ResourceExhausted:
                answer.give_up()
            yield 1


def _went_nowhere(burial: Burial) -> None:
    if burial.receipt is not None:
        burial.receipt.went_nowhere()
