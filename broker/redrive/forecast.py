"""A dry run: what a redrive would move, and where to. It browses the queue in pages and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from broker.background_work import Work
from broker.errors import BrokerError
from broker.messages.browsed import COUNT_MAX, Browsed
from broker.pending import Pending
from broker.redrive.counts import RedriveCounts
from broker.redrive.order import RedriveFate, RedriveOrder, check_redrivable
from broker.session.session import Session

if TYPE_CHECKING:
    from broker.node_queues import NodeQueues

# What is skipped is walked over again for each page, on the event loop: 15 ms for as many runs of one message.
SEEN_MAX = 20_000


class Forecast:
    """See the module."""

    def __init__(self, order: RedriveOrder, broker: NodeQueues) -> None:
        self.counts = RedriveCounts()
        self._order = order
        self._work: Work = broker.work
        self._session: Session
        self._answer: Pending[RedriveCounts] = Pending()

    def begin(self, session: Session, now: int) -> Pending[RedriveCounts]:
        """Of the first SEEN_MAX messages at most. Raises and answers what the redrive would."""
        self._order.check()
        self._session = session
        check_redrivable(self._session.topology.existing(self._order.queue).queue)
        self._session.looks.count_ready(self._order.queue, now).then(
            lambda ready: self._counted(ready, now), self._answer.fail
        )
        return self._answer

    def _counted(self, ready: int, now: int) -> None:
        self.counts.ready = ready
        self._next_page(now)

    def _next_page(self, now: int) -> None:
        seen = self.counts.seen
        if self._is_over(seen):
            self._answer.resolve(self.counts)
            return
        try:
            page = self._session.looks.browse(self._order.queue, seen, min(COUNT_MAX, SEEN_MAX - seen), now)
        except BrokerError as error:
            self._answer.fail(error)
            return
        page.then(lambda found: self._found(found, now), self._answer.fail)

    def _is_over(self, seen: int) -> bool:
        limit = self._order.limit
        return seen >= SEEN_MAX or (bool(limit) and self.counts.by_fate[RedriveFate.MOVES] >= limit)

    def _found(self, page: Sequence[Browsed], now: int) -> None:
        if page:
            self._work.do(self._steps(page, now))
        else:
            self._answer.resolve(self.counts)

    def _steps(self, page: Sequence[Browsed], now: int) -> Iterator[None]:
        for message in page:
            if self._is_over(self.counts.seen):
                break
            try:
                self.counts.add(self._order.candidate(self._session.publisher, message.content, message.routing_key))
            except BrokerError as error:
                self._answer.fail(error)
                return
            yield
        self._next_page(now)
