"""What a quorum queue has to do with its clients: who consumes and gets, whose node is not heard of, who is gone."""

from __future__ import annotations

from collections.abc import Sequence

from quorum.fifo import versions
from quorum.fifo.commands import FIRST_ID, Consume, ConsumerKey, SessionKey, UponCancel
from quorum.fifo.consumers import ConsumerState, MachineConsumer
from quorum.fifo.deadlines import Deadlines
from quorum.fifo.effects import Deliver
from quorum.fifo.movement import Unfinished
from quorum.fifo.results import Result, ResultCode, TakenMessage
from quorum.fifo.returning import Fate


class MachineClients(Deadlines):
    """See the module."""

    __slots__ = ()

    def checked_out(self, consumer: ConsumerKey, from_id: int = FIRST_ID) -> list[Deliver]:
        """What it holds of this id and above, as it was handed out."""
        found = self.state.consumers.all.get(consumer)
        if found is None:
            return []
        return [
            Deliver(consumer, first_id, stored.piece, stored.delivery_count, stored.acquired_count)
            for first_id, stored, _ in found.checked_out.from_id(from_id)
        ]

    def _consume(self, op: Consume) -> Result:
        s = self.state
        key = op.consumer
        session = s.sessions.of(key.node, key.incarnation)
        if session is None:
            return ResultCode.GONE
        if not session.begin(key.number):
            return self._consumed_before(key)
        if not s.consumers.accepts(op.exclusive):
            return ResultCode.IN_USE
        consumer = MachineConsumer(key, op.tag, op.prefetch, op.no_ack, op.exclusive, op.priority, op.timeout_ms)
        consumer.suspected_at = s.now if session.suspected else None
        s.consumers.add(consumer)
        s.used_at = s.now
        return None

    def _consumed_before(self, key: ConsumerKey) -> Result:
        """A consumer that is not known was refused the first time, or has left since and waits for no answer."""
        if self.state.version < versions.REFUSED_AGAIN or key in self.state.consumers.all:
            return None
        return ResultCode.IN_USE

    def _cancel(self, key: ConsumerKey, held: UponCancel) -> Result:
        consumer = self.state.consumers.all.get(key)
        if consumer is not None and consumer.state is not ConsumerState.GET:
            if held is not UponCancel.STAYS:
                fate = Fate.FAILED if held is UponCancel.REQUEUED else Fate.UNSEEN
                self._deal_with(fate, consumer.checked_out.take_all())
            self._remove(consumer)
        return None

    def _change_window(self, key: ConsumerKey, messages: int) -> Result:
        s = self.state
        if s.version < versions.WINDOWS_CHANGE:
            return ResultCode.UNKNOWN
        consumer = s.consumers.all.get(key)
        if consumer is not None and consumer.state is not ConsumerState.GET:
            s.consumers.change_window(consumer, messages)
            self._trail += messages
        return None

    def _remove(self, consumer: MachineConsumer) -> None:
        s = self.state
        s.consumers.remove(consumer)
        if s.rules.expires_ms is not None and not s.consumers.count:
            s.used_at = s.now
            self._due(s.now + s.rules.expires_ms)

    def _get(self, key: ConsumerKey, no_ack: bool) -> Result:
        s = self.state
        session = s.sessions.of(key.node, key.incarnation)
        if session is None:
            return ResultCode.GONE
        if not session.begin(key.number):
            return self._got_before(key)
        if s.rules.single_active:
            return ResultCode.NOT_ACTIVE
        s.used_at = s.now
        try:
            stored = self._take_ready()
        except Unfinished:  # "empty" would be wrong, and so would be one of those behind
            session.put_off(key.number)
            return ResultCode.LATER
        if stored is None:
            return None
        self.counters.got += 1
        self._trail += stored.entry + stored.first
        if not no_ack:
            consumer = MachineConsumer(key, state=ConsumerState.GET)
            if session.suspected:
                consumer.suspected_at = s.now
                self._due(s.now + s.rules.disconnected_timeout_ms)
            self._hold(consumer, stored)
            s.consumers.add(consumer)
        return TakenMessage(FIRST_ID, stored.piece, stored.delivery_count, stored.acquired_count, s.ready.count)

    def _got_before(self, key: ConsumerKey) -> Result:
        """A get that is heard for the second time has what it got the first time, as long as that is held."""
        consumer = self.state.consumers.all.get(key)
        if consumer is None or consumer.state is not ConsumerState.GET:
            return None
        for held in self.checked_out(key):
            return TakenMessage(
                held.first_id, held.piece, held.delivery_count, held.acquired_count, self.state.ready.count
            )
        return None

    def _suspect(self, key: SessionKey, suspected: bool) -> Result:
        """Its node seems to be down, or is back."""
        s = self.state
        session = s.sessions.all.get(key)
        if session is not None and session.suspected != suspected:
            session.suspected = suspected
            for consumer in self._consumers_of([key]):
                consumer.suspected_at = s.now if suspected else None
                s.consumers.update(consumer)
            self._due(s.now + s.rules.disconnected_timeout_ms)
        return None

    def _end_session(self, session: SessionKey) -> Result:
        for consumer in self._consumers_of(self.state.sessions.end(session)):
            self._deal_with(Fate.RETURNED, consumer.checked_out.take_all())
            self._remove(consumer)
        return None

    def _consumers_of(self, sessions: Sequence[SessionKey]) -> list[MachineConsumer]:
        return [consumer for consumer in self.state.consumers.all.values() if consumer.key[:2] in sessions]
