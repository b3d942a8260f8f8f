"""Publishes messages of a log again, and knows up to which place all of them were answered.

    publish   the next one; it is counted when its targets have confirmed it
    may_go_on whether another one may follow now; `woken` is called when that may have changed

Up to IN_FLIGHT_MAX are under way. It stops at the first refusal, an alarm among them. A core: who reads the log, and at which
rate, is whose sink this is not. Fulfils SessionSink.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from broker.errors import BrokerError, ResourceExhausted
from broker.messages.message import Run
from broker.redrive.redrive import RedriveState
from broker.replay.logged import LoggedMessage, marked
from broker.replay.replay_order import ReplayOrder, ReplayPlace
from broker.session.session import Session
from broker.session.silent_sink import SilentSink

if TYPE_CHECKING:
    from broker.node_queues import NodeQueues

IN_FLIGHT_MAX = 256
IN_FLIGHT_BYTES_MAX = 8 << 20  # of contents; one message is published whatever its size


class ReplayFate(StrEnum):
    """What became of a message that was chosen."""

    PUBLISHED = "published"  # and confirmed
    UNROUTABLE = "unroutable"  # no queue would get it
    IS_REPLAY = "is_replay"  # it was published by a replay itself
    GONE = "gone"  # the log has its content no more
    UNREADABLE = "unreadable"  # its headers cannot be read, or have no room for the marks


@dataclass(slots=True)
class BegunMessage:
    """Taken from the log. One that was refused never has a fate."""

    place: ReplayPlace
    size: int = 0
    is_unroutable: bool = False
    has_fate: bool = False


class MessageReplay(SilentSink):
    """See the module."""

    def __init__(self, order: ReplayOrder, broker: NodeQueues, id_: str) -> None:
        order.check()
        self.order = order
        self.id = id_
        self.state = RedriveState.RUNNING
        self.error = ""  # why it failed
        self.chosen = 0  # messages that the log has
        self.fates: Counter[ReplayFate] = Counter(dict.fromkeys(ReplayFate, 0))
        self.answered_to: ReplayPlace = order.after  # all up to here have a fate
        self.woken: Callable[[], None] = lambda: None
        self._broker = broker
        self._session: Session
        self._begun: deque[BegunMessage] = deque()  # from the first on that has no fate
        self._in_flight: dict[int, BegunMessage] = {}  # by the number of the publish
        self._bytes = 0  # of these
        self._published = 0
        self._is_unroutable = False  # what is being published came back
        self._fans_out = False  # a publish goes to very many queues

    def begin(self, session: Session) -> None:
        """`session` is its own, and has it as its sink."""
        self._session = session
        session.publisher.select_confirms()

    def cancel(self) -> None:
        """What is under way is finished first."""
        self._stop(RedriveState.CANCELLED)

    def fail(self, error: BrokerError) -> None:
        self.error = self.error or error.text
        self._stop(RedriveState.FAILED)

    def done(self) -> None:
        """Nothing more comes from the log, and nothing is under way."""
        self._stop(RedriveState.DONE)

    def _stop(self, state: RedriveState) -> None:
        if self.state is RedriveState.RUNNING:
            self.state = state
        self.woken()

    @property
    def is_running(self) -> bool:
        return self.state is RedriveState.RUNNING

    @property
    def under_way(self) -> int:
        return len(self._in_flight)

    @property
    def moved(self) -> int:
        return self.fates[ReplayFate.PUBLISHED]

    @property
    def seen(self) -> int:
        """Messages that were taken from the log and have a fate."""
        return self.fates.total()

    @property
    def may_go_on(self) -> bool:
        return len(self._in_flight) < IN_FLIGHT_MAX and self._bytes < IN_FLIGHT_BYTES_MAX and not self._fans_out

    # publishing

    def publish(self, message: LoggedMessage, now: int) -> None:
        begun = BegunMessage(message.place)
        self._begun.append(begun)
        run, why_not = self._run_of(message)
        if run is None:
            self._note(begun, why_not)
            return
        blocked = self._broker.alarms.blocked_reason
        if blocked is not None:
            self.fail(ResourceExhausted(f"publishers are held: {blocked}. Go on with the replay when that is over"))
            return
        try:
            self._publish(run, begun, now)
        except BrokerError as error:
            self.fail(error)

    def _run_of(self, message: LoggedMessage) -> tuple[Run | None, ReplayFate]:
        if not message.content:
            return None, ReplayFate.GONE
        made = marked(self.order, self.id, message)
        return made.run, ReplayFate.IS_REPLAY if made.is_replay else ReplayFate.UNREADABLE

    def _publish(self, run: Run, begun: BegunMessage, now: int) -> None:
        """Its confirm comes at the end of this turn at the earliest."""
        self._is_unroutable = False
        fan_out = self._session.publisher.publish(run, now)
        self._published += 1
        begun.size, begun.is_unroutable = len(run.content), self._is_unroutable
        self._in_flight[self._published] = begun
        self._bytes += begun.size
        if fan_out is not None and not self._fans_out:
            self._fans_out = True
            fan_out.then(self._fanned_out, self._not_fanned_out)

    def _fanned_out(self, _: None) -> None:
        self._fans_out = False
        self.woken()

    def _not_fanned_out(self, error: BrokerError) -> None:
        self._fans_out = False
        self.fail(error)

    def _note(self, begun: BegunMessage, fate: ReplayFate) -> None:
        """Confirms come in any order: who goes on begins behind the last place before which all have a fate."""
        self.fates[fate] += 1
        begun.has_fate = True
        while self._begun and self._begun[0].has_fate:
            self.answered_to = self._begun.popleft().place

    # what the session says

    def confirm(self, first: int, last: int, multiple: bool, ok: bool) -> None:
        for number in range(first, last + 1):
            begun = self._in_flight.pop(number)
            self._bytes -= begun.size
            if ok:
                self._note(begun, ReplayFate.UNROUTABLE if begun.is_unroutable else ReplayFate.PUBLISHED)
            else:
                self.fail(ResourceExhausted(f"a queue refused a message: {self.order.target}"))
        self.woken()

    def returned(self, run: Run, code: int, text: str) -> None:
        self._is_unroutable = True
