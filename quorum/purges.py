"""What a node's clients have asked one quorum queue to drop, all or one, until the group has answered.

A purge is done once, however often it is said; groups of a version before 4 do not know that, and are asked the old way.
To take one message out, groups of a version before 10 cannot be asked.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Any, Protocol

from broker.actors import LogActor
from broker.errors import PreconditionFailed, ResourceExhausted
from broker.pending import Pending
from broker.queues.holding_contract import WaitingPlace
from broker.queues.queue_type import Queue, QueueHost
from quorum.fifo.commands import Purge, PurgeOnce, Withdraw
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
        waiting: ReplyTimeout[int] = ReplyTimeout(self._host, self._queue.took_too_long)
        if self.once:
            number = self._begun(by)
            once = PurgeOnce(session.consumer_key(number), answered=self._numbers[0])
            session.say(once, partial(self._purged_once, waiting, number))
        else:
            session.say(Purge(), partial(self._purged, waiting))
        session.flush()
        return waiting.answer

    def withdraw(self, place: WaitingPlace, now: int, by: LogActor | None = None) -> Pending[int]:
        """Answers 1, or 0 if the message does not wait there (any more)."""
        session = self._queue.session
        waiting: ReplyTimeout[int] = ReplyTimeout(self._host, self._queue.took_too_long)
        number = self._begun(by)
        asked = Withdraw(session.consumer_key(number), self._numbers[0], *place)
        session.say(asked, partial(self._withdrawn, waiting, number))
        session.flush()
        return waiting.answer

    def _begun(self, by: LogActor | None) -> int:
        number = self._queue.session.new_number()
        self._numbers.append(number)
        self._queue.say_who(number, by)
        return number

    def _withdrawn(self, waiting: ReplyTimeout[int], number: int, result: Any) -> None:
        self._numbers.remove(number)
        if result is ResultCode.UNKNOWN:
            waiting.fail(
                PreconditionFailed(
                    f"{self._queue.record.label} cannot have one message taken out as long as a node with a member of it is of "
                    "an earlier version, or has not said that it is none: update all nodes, or ask again in some seconds"
                )
            )
        else:
            self._purged(waiting, result)

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
