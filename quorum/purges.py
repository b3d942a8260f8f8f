"""What a node's clients have asked of one quorum queue's purge, until the group has answered.

A purge is done once, however often it is said; groups of a version before 4 do not know that, and are asked the old way.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Any, Protocol

from broker.actors import LogActor
from broker.errors import ResourceExhausted
from broker.pending import Pending
from broker.queues.queue_type import Queue, QueueHost
from quorum.fifo.commands import Purge, PurgeOnce
from quorum.fifo.results import Purged, ResultCode
from quorum.session import QueueSession
from replicated.reply_timeout import ReplyTimeout


class PurgedQueue(Queue, Protocol):
    """The queue whose purges these are."""

    @property
    def session(self) -> QueueSession: ...

    def say_who(self, number: int, actor: LogActor | None) -> None: ...

    def took_too_long(self) -> ResourceExhausted: ...

    def not_heard(self) -> ResourceExhausted: ...


class Purges:
    """Of one queue."""

    def __init__(self, queue: PurgedQueue, host: QueueHost) -> None:
        self.once = True  # as far as is known the group does: it is of version 4 or later
        self._queue = queue
        self._host = host
        self._numbers: deque[int] = deque()  # of those that were said and not answered, ascending

    def purge(self, now: int, by: LogActor | None = None) -> Pending[int]:
        """One that takes too long may still be done."""
        session = self._queue.session
        waiting: ReplyTimeout[int] = ReplyTimeout(self._host, now, self._queue.took_too_long)
        if self.once:
            number = session.new_number()
            self._numbers.append(number)
            self._queue.say_who(number, by)
            once = PurgeOnce(session.consumer_key(number), answered=self._numbers[0])
            session.say(once, partial(self._purged_once, waiting, number))
        else:
            session.say(Purge(), partial(self._purged, waiting))
        session.flush()
        return waiting.answer

    def _purged_once(self, waiting: ReplyTimeout[int], number: int, result: Any) -> None:
        self._numbers.remove(number)
        if result is not ResultCode.UNKNOWN:
            self._purged(waiting, result)
            return
        self.once = False  # a machine of an earlier version: it has done nothing
        if not waiting.answer.answered:
            self._queue.session.say(Purge(), partial(self._purged, waiting))
            self._host.wake(self._queue)

    def _purged(self, waiting: ReplyTimeout[int], result: Any) -> None:
        if result is ResultCode.GONE:
            waiting.fail(self._queue.not_heard())
        else:
            waiting.resolve(result.messages if isinstance(result, Purged) else 0)
