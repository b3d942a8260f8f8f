"""Replays of this node: what the log has of messages that are gone is for administrators only."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from broker.operations.message_jobs import JobView, MessageJobs
from broker.operations.operator import ADMINISTRATOR, Operator
from broker.replay.message_replay import MessageReplay
from broker.replay.replay_order import ReplayOrder

if TYPE_CHECKING:
    from broker.broker import Broker

REPLAYS_MAX = 2  # at a time on one node: each has a process beside it that reads the log

ReplayView: TypeAlias = JobView[MessageReplay]


class Replays(MessageJobs[MessageReplay]):
    def __init__(self, broker: Broker) -> None:
        super().__init__(broker, "replay", REPLAYS_MAX)

    def admit(self, who: Operator, order: ReplayOrder, now: int) -> ReplayView:
        """To be begun with a session of this operator, and then `ended`. Raises BrokerError."""
        who.require_tag(ADMINISTRATOR)
        id_ = self.new_id()
        return self.begun(id_, who, MessageReplay(order, self._broker, id_), now)

    def forecast(self, who: Operator, order: ReplayOrder) -> None:
        """Whether they may have a dry run. Raises BrokerError."""
        who.require_tag(ADMINISTRATOR)
        order.check()
