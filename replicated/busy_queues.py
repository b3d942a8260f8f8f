"""The queues of one kind that something is to be done for: those that are led here, wait for a leader or its answers, or are
served by another node. All others cost no time, and of these no turn looks at all: ten thousand would hold a node up."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import Generic, TypeVar

from raft.core.messages import NodeId
from replicated.ports import QueueLoop, QueueTimer
from replicated.queue import ReplicatedQueue
from storage.interval import Rounds

CHECKED_AT_ONCE = 50  # in half a millisecond
CHECK_MS = 1_000  # how often leaders look after nodes and records, and others after who serves them
LOOK_S = 0.02  # how often queues without a leader look for one

Q = TypeVar("Q", bound=ReplicatedQueue)


class BusyQueues(Generic[Q]):
    """See the module. `tick` it ten times a second."""

    def __init__(self, loop: QueueLoop) -> None:
        self._loop = loop
        self._led: dict[Q, None] = {}
        self._looking: dict[Q, None] = {}  # for a leader
        self._look_timer: QueueTimer | None = None
        self._asking: dict[Q, None] = {}  # a leader, and its answer is not there
        self._served_remotely: dict[Q, None] = {}  # in use here, without a member here
        self._to_check: deque[Q] = deque()  # now
        self._checks_of_led = Rounds[Q](CHECK_MS)
        self._checks_of_served = Rounds[Q](CHECK_MS)

    @property
    def led(self) -> Collection[Q]:
        """Those that this node leads."""
        return self._led.keys()

    @property
    def asking(self) -> Collection[Q]:
        """Those that wait for answers."""
        return self._asking.keys()

    @property
    def looking(self) -> Collection[Q]:
        """Those that wait for a leader."""
        return self._looking.keys()

    def leading_changed(self, queue: Q) -> None:
        if queue.leading is not None:
            self._led[queue] = None
        else:
            self._led.pop(queue, None)

    def look_for_leader(self, queue: Q) -> None:
        """It has requests, and no leader to send them to."""
        self._looking[queue] = None
        if self._look_timer is None:
            self._look_timer = self._loop.call_later(LOOK_S, self._look)

    def ask(self, queue: Q) -> None:
        """It wants to be reminded, a tenth of a second later and on, until it says no (`still_asks`)."""
        self._asking[queue] = None

    def serve_remotely(self, queue: Q) -> None:
        """Its consumers here are to be asked for again about once a second."""
        self._served_remotely[queue] = None

    def forget(self, queue: Q) -> None:
        for some in (self._led, self._looking, self._asking, self._served_remotely):
            some.pop(queue, None)

    def tick(self, now: int) -> None:
        for queue in self._led:
            leading = queue.leading
            if leading is not None and leading.attendants:
                leading.tell_news()
        for queue in list(self._asking):
            if not queue.still_asks():
                del self._asking[queue]

        goes_on = bool(self._to_check)
        self._to_check += self._checks_of_led.due(now, self._led)
        self._to_check += self._checks_of_served.due(now, self._served_remotely)
        if not goes_on:
            self._check_some(now)

    def _check_some(self, now: int) -> None:
        """What comes in is served before the next of them. They are asked for first: whatever one raises, the others have their
        turn."""
        some = [self._to_check.popleft() for _ in range(min(CHECKED_AT_ONCE, len(self._to_check)))]
        if self._to_check:
            self._loop.call_soon(self._check_some, now)
        for queue in some:
            self._check(queue, now)

    def _check(self, queue: Q, now: int) -> None:
        if queue in self._led and queue.leading is not None:
            queue.leading.check(now)
        if queue in self._served_remotely and not (queue.remote_serving and queue.remote_serving.go_on(now)):
            del self._served_remotely[queue]

    def link_changed(self, node: NodeId, came: bool) -> None:
        if came:
            self._look()
            return
        for queue in list(self._led):
            if queue.leading is not None:
                queue.leading.link_went(node)
        for queue in list(self._served_remotely):
            if queue.remote_serving is not None:
                queue.remote_serving.lost(node)

    def writable(self, node: NodeId) -> None:
        for queue in list(self._led):
            if queue.leading is not None:
                queue.leading.writable(node)

    def _look(self) -> None:
        if self._look_timer is not None:
            self._look_timer.cancel()  # a link has come: this is before its time
            self._look_timer = None
        looking, self._looking = self._looking, {}
        for queue in looking:
            queue.try_again()
            if queue.finds_no_leader:
                self._looking[queue] = None
        if self._looking and self._look_timer is None:
            self._look_timer = self._loop.call_later(LOOK_S, self._look)
