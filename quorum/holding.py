"""Quorum queues in which the messages of a delayed exchange or of a delaying queue wait (broker/exchanges/delayed_exchange.py,
delaying_queue.py).

A message waits as one with a time to live does, and dies when its time has come; as a dead letter that is kept until it has
arrived, it goes to the exchange, which routes it, or to the queue. So a machine of any version can hold delayed messages, and
what is promised of dead letters at least once is promised of them: nothing is lost, and what was on its way when a leader was
lost may arrive twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from broker.errors import BrokerError
from broker.exchanges.delaying_queue import wait_ms_of
from broker.messages.confirms import Receipt
from broker.messages.message import Run
from broker.messages.run_parts import one_by_one
from broker.names import held_for, is_holding
from broker.queues.queue_type import Queue, QueueHost
from broker.routing.sender_selected import decoded, raw_headers
from native.content import one
from quorum.fifo.rules import DeadLetters, Rules
from storage.interval import Interval

ORPHAN_MS = 10_000  # an exchange is declared behind its queue

# No policy changes them: a limit would lose what was confirmed, and a time to live would fire early.
HOLDING_RULES = Rules(
    delivery_limit=None, consumer_timeout_ms=None, dead_letters=DeadLetters.AT_LEAST_ONCE, reject_publish=True
)


class Orphanage:
    """Deletes a holding queue that nothing needs: what it was for has gone by itself, or was never declared. For the leader's
    node."""

    def __init__(self, queue: Queue, host: QueueHost, needed: Callable[[str, str], bool]) -> None:
        self._queue = queue
        self._host = host
        self._needed = needed
        self._grace = Interval(ORPHAN_MS)

    def check(self, now: int) -> None:
        """Called now and then."""
        record = self._queue.record
        if not is_holding(record.name) or self._needed(record.vhost, record.name):
            self._grace.end()
        elif not self._grace.begun:
            self._grace.begin(now)
        elif self._grace.due(now):
            self._host.delete_queue(self._queue, f"{held_for(record.name)}, whose messages it keeps, is gone")


def held(run: Run, receipt: Receipt | None, now_ms: int) -> Iterator[tuple[Run, Receipt | None]]:
    """The messages as they wait, each for as long as it says, whatever their own time to live and priority."""
    for message, owed in one_by_one(run, receipt, 1):
        yield replace(message, expiration_ms=_wait_ms(message, now_ms), priority=0), owed


def _wait_ms(run: Run, now_ms: int) -> int:
    """0: it is to go on at once, for nobody can read how long it is to wait."""
    try:
        headers = decoded(raw_headers(one(run.content, 0)[0]))
    except BrokerError:
        return 0
    return wait_ms_of(headers, now_ms)
