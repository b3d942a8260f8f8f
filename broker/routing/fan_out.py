"""Runs for more queues than one turn has room for: some queues get them in each turn.

What the session publishes meanwhile waits behind them, or it would overtake in queues that are still to get theirs; a front
holds the rest of the session's input until `over` is answered. A queue that is deleted before it got the run counts as one
that took it, as with any other publish. One that was converted by then refuses it: what it has become
does not have the message.

A core: the steps are a work of broker/background_work.py.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from broker.errors import BrokerError
from broker.messages.confirms import Receipt
from broker.messages.message import Run
from broker.pending import Pending
from broker.queues.queue_type import Queue
from broker.routing.targets import Group

QUEUES_PER_STEP = 500  # 10 us each; fewer would be more copies in the log, which has one for each step


@dataclass(slots=True, frozen=True)
class Handover:
    """One run, and who is to get it."""

    groups: Sequence[Group]
    run: Run
    receipt: Receipt | None


class FanOut:
    """See the module. Of one session, from the first such run until nothing waits."""

    def __init__(
        self,
        per_step: int,
        is_open: Callable[[Queue], bool],
        was_converted: Callable[[Queue], bool],
        now: Callable[[], int],
        on_over: Callable[[], None],
    ) -> None:
        self.over: Pending[None] = Pending()  # fails with what went wrong, if that was to be told with no receipt
        self._per_step = per_step
        self._is_open = is_open
        self._was_converted = was_converted
        self._now = now
        self._on_over = on_over
        self._waiting: deque[Handover] = deque()

    def add(self, handover: Handover) -> None:
        """Behind all that were added before."""
        self._waiting.append(handover)

    def steps(self) -> Iterator[None]:
        """The work."""
        unsaid: BrokerError | None = None
        while self._waiting:
            handover = self._waiting[0]
            try:
                yield from self._hand_over(handover)
            except BrokerError as error:
                if handover.receipt is None:
                    unsaid = error
                else:
                    handover.receipt.give_up()
            self._waiting.popleft()
        self._on_over()
        if unsaid is None:
            self.over.resolve(None)
        else:
            self.over.fail(unsaid)

    def _hand_over(self, handover: Handover) -> Iterator[None]:
        receipt = handover.receipt
        for kind, queues in handover.groups:
            for at in range(0, len(queues), self._per_step):
                some = queues[at : at + self._per_step]
                takers = [queue for queue in some if self._is_open(queue)]
                if receipt is not None and len(takers) < len(some):
                    self._answer_for_gone(some, receipt)
                if takers:
                    kind.publish(takers, handover.run, receipt, self._now())
                yield

    def _answer_for_gone(self, queues: Sequence[Queue], receipt: Receipt) -> None:
        for queue in queues:
            if self._was_converted(queue):
                receipt.refused()
            elif not self._is_open(queue):
                receipt.accepted()
