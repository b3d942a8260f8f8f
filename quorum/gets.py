"""What a node's clients have asked of one quorum queue's get, until the group has answered.

A message that is got is held by the group until this node has it, also where nobody will acknowledge it: it is not to be
lost on the way.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Protocol

from broker.errors import ResourceExhausted, ResourceLocked
from broker.queues.queue_type import Got, Outcome, Queue, QueueHost, QueueStatistics
from quorum.fifo.commands import Get
from quorum.fifo.results import ResultCode
from quorum.letters import Fetched
from quorum.session import QueueSession
from quorum.subscription import WaitingDelivery, slice_of
from replicated.reply_timeout import ReplyTimeout


class GotQueue(Queue, Protocol):
    """The queue whose gets these are."""

    @property
    def session(self) -> QueueSession: ...

    def not_heard(self) -> ResourceExhausted: ...


class Gets:
    """Of one queue; `figures` counts them."""

    def __init__(self, queue: GotQueue, host: QueueHost, figures: QueueStatistics) -> None:
        self._queue = queue
        self._host = host
        self._figures = figures

    def say(self, waiting: ReplyTimeout[Got | None], number: int, no_ack: bool) -> None:
        session = self._queue.session
        session.say(Get(session.consumer_key(number)), partial(self._got, waiting, number, no_ack))

    def not_active(self) -> ResourceLocked:
        return ResourceLocked(
            f"cannot obtain access to locked {self._queue.record.label}. basic.get operations are not supported by "
            "quorum queues with single active consumer"
        )

    def _got(self, waiting: ReplyTimeout[Got | None], number: int, no_ack: bool, result: Any) -> None:
        queue, session = self._queue, self._queue.session
        if not isinstance(result, Fetched):
            self._got_nothing(waiting, number, no_ack, result)
            return
        got, body = result.got, result.body
        if waiting.answer.answered:  # its client was told that it takes too long
            session.settle(number, got.message_id, 1, Outcome.RETURNED)
            self._host.wake(queue)
            return
        self._figures.got += 1
        if no_ack:
            session.settle(number, got.message_id, 1, Outcome.ACKNOWLEDGED)
            session.flush()
        piece = slice_of(
            queue, number, WaitingDelivery(got.message_id, 1, got.delivery_count, got.acquired_count, body), body
        )
        waiting.resolve(Got(piece, body.content, got.remaining))

    def _got_nothing(self, waiting: ReplyTimeout[Got | None], number: int, no_ack: bool, result: Any) -> None:
        if result is ResultCode.LATER:
            if not waiting.answer.answered:
                self.say(waiting, number, no_ack)
                self._host.wake(self._queue)
        elif result is ResultCode.NOT_ACTIVE:
            waiting.fail(self.not_active())
        elif result is ResultCode.GONE:
            waiting.fail(self._queue.not_heard())
        else:
            waiting.resolve(None)
