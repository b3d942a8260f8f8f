"""How many messages the group may have out to each consumer of this node: as many as its prefetch and the limit of its channel
allow, which may change while it consumes.

What the limit of the channel keeps waiting here for too long goes back (broker/queues/held_back.py). First the group is told to
give the consumer nothing more, or it would give it the same again.

A group whose machine is of a version that knows no changes does nothing. Every group begins as one, and goes on to a later
version when its leader has heard what all members' nodes know, which takes seconds where one of them answers late. So
consumers' windows are told again then: by the member here at once, and on a node without a member after RETRY_S.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from broker.queues.queue_type import Queue, QueueHost
from quorum.fifo.commands import Window
from quorum.fifo.results import Result, ResultCode
from quorum.fifo.versions import WINDOWS_CHANGE
from quorum.session import QueueSession
from quorum.subscription import Subscription
from replicated.ports import QueueLoop

RETRY_S = 1.0  # an entry for each consumer whose window is another one, as long as the group is of an earlier version


class Windows:
    """Of one queue."""

    def __init__(
        self,
        queue: Queue,
        subscriptions: Mapping[int, Subscription],
        give_back: Callable[[Subscription], None],
        answered_at: Callable[[], int],
        session: QueueSession,
        host: QueueHost,
        loop: QueueLoop,
    ) -> None:
        """`give_back` returns to the group what waits for a consumer. `answered_at`: see quorum/local_consumers.py."""
        self.change = True  # as far as is known, the group is of version 6 or later
        self._queue = queue
        self._subscriptions = subscriptions
        self._give_back = give_back
        self._answered_at = answered_at
        self._session = session
        self._host = host
        self._loop = loop
        self._retries = False

    def moved(self, version: int) -> None:
        """The member here is of this version now."""
        if not self.change and version >= WINDOWS_CHANGE:
            self.try_again()

    def try_again(self) -> None:
        """The group may be of a later version."""
        self.change = True
        self._host.wake(self._queue)

    def _try_again_later(self) -> None:
        def try_again() -> None:
            self._retries = False
            self.try_again()

        if not self._retries:
            self._retries = True
            self._loop.call_later(RETRY_S, try_again)

    def keep(self, subscription: Subscription) -> None:
        """Tell the group when it is to be another one."""
        wanted = subscription.wanted_window()
        if wanted == subscription.window or not self.change or subscription.number not in self._subscriptions:
            return
        subscription.window = wanted
        subscription.stopped = False
        session = self._session
        session.say(Window(session.consumer_key(subscription.number), wanted), partial(self._kept, subscription))

    def _kept(self, subscription: Subscription, result: Result) -> None:
        if result is ResultCode.UNKNOWN:  # a machine of an earlier version: it has done nothing
            self.change = False
            subscription.window = subscription.first_window
            self._try_again_later()
            return
        self._session.ahead = subscription.ahead.messages > 0 and subscription.number in self._subscriptions
        if subscription.held_back.yes:
            subscription.stopped = True
            self._give_back(subscription)
        else:
            subscription.ahead.ended(self._answered_at())
            self._host.wake(self._queue)

    def full(self, subscription: Subscription) -> None:
        """Something waits that the consumer has no room for. It waits for its own settlements as long as it takes, and for
        those of its channel not for long."""
        if subscription.consumer.shared_left() or not self.change:
            return
        if subscription.stopped:
            self._give_back(subscription)
        elif not subscription.held_back.yes:
            subscription.held_back.keep_waiting()
