"""What a quorum queue does because it is time: quorum/fifo/movement.py moves the messages.

What is due is done with the first entry behind it. `QueueState.deadline` is when such an entry has to come at the latest; it
may be too early, never too late.
"""

from __future__ import annotations

from broker.queues.queue_type import DeathReason
from quorum.fifo import inspection
from quorum.fifo.consumers import ConsumerState, MachineConsumer
from quorum.fifo.effects import ActiveChanged, TimedOut, Unused
from quorum.fifo.movement import Movement
from quorum.fifo.returning import Fate


class Deadlines(Movement):
    """See the module."""

    __slots__ = ("_active_told",)

    def __init__(self) -> None:
        super().__init__()
        self._active_told: MachineConsumer | None = None  # whom the last ActiveChanged named

    def _meet_deadline(self) -> None:
        """Do everything that is due by now."""
        s = self.state
        self._deal_with_more()
        self._expire_ready()
        delayed = s.delayed.take(s.now, max(0, self._rows))
        self._rows -= len(delayed)
        for stored in delayed:
            if stored.expires_at <= s.now:
                self._die(DeathReason.EXPIRED, [stored])
            else:
                s.ready.put_back(stored)
        for consumer in list(s.consumers.all.values()):
            self._time_out(consumer)
            self._disconnect(consumer)
        expires_ms = s.rules.expires_ms
        if expires_ms is not None and s.used_at + expires_ms <= s.now and not s.consumers.count:
            s.used_at = s.now  # if no leader acts on it, it is emitted again
            self._effects.append(Unused())
        if s.consumers.active is not self._active_told:
            self._tell_active()
        if s.ready.count:
            self._hand_out()
        self._set_deadline()

    def _tell_active(self) -> None:
        self._active_told = active = self.state.consumers.active
        self._effects.append(ActiveChanged(active.key if active is not None else None))

    def _time_out(self, consumer: MachineConsumer) -> None:
        """Take away what it should have settled by now."""
        s = self.state
        timeout, oldest = self._timeout_of(consumer), consumer.checked_out.since
        if not timeout or oldest is None or oldest + timeout > s.now:
            return
        overdue = consumer.checked_out.take_until(s.now - timeout)
        self._deal_with(Fate.RETURNED, [held.stored for held in overdue])
        if consumer.state in (ConsumerState.UP, ConsumerState.QUIESCING, ConsumerState.TIMED_OUT):
            for held in overdue:
                consumer.overdue.add(held.first_id, held.first_id + held.stored.length)
            consumer.state = ConsumerState.TIMED_OUT
            self._effects.append(TimedOut(consumer.key))
        s.consumers.update(consumer)

    def _disconnect(self, consumer: MachineConsumer) -> None:
        """Take away everything, if its node is gone for too long."""
        s = self.state
        since = consumer.suspected_at
        if since is not None and since + s.rules.disconnected_timeout_ms <= s.now:
            self._deal_with(Fate.RETURNED, consumer.checked_out.take_all())
            s.consumers.update(consumer)

    def _set_deadline(self) -> None:
        """Find out when the next thing is due."""
        s = self.state
        s.deadline = min(s.ready.soonest, s.delayed.due)
        if inspection.is_unfinished(s):
            self._due(s.now)
        for consumer in s.consumers.all.values():
            timeout, oldest = self._timeout_of(consumer), consumer.checked_out.since
            if oldest is None:
                continue
            if timeout:
                self._due(oldest + timeout)
            if consumer.suspected_at is not None:
                self._due(consumer.suspected_at + s.rules.disconnected_timeout_ms)
        if s.rules.expires_ms is not None and not s.consumers.count:
            self._due(s.used_at + s.rules.expires_ms)
