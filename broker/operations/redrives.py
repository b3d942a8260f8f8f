"""Redrives of this node."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from broker.operations.message_jobs import JobView, MessageJobs
from broker.operations.operator import MANAGEMENT, Operator
from broker.redrive.forecast import Forecast
from broker.redrive.order import RedriveOrder
from broker.redrive.redrive import Redrive

if TYPE_CHECKING:
    from broker.broker import Broker

RedriveView: TypeAlias = JobView[Redrive]


class Redrives(MessageJobs[Redrive]):
    def __init__(self, broker: Broker) -> None:
        super().__init__(broker, "redrive")

    def admit(self, who: Operator, order: RedriveOrder, now: int) -> RedriveView:
        """To be begun with a session of this operator, and then `ended`. Raises BrokerError."""
        who.require_tag(MANAGEMENT)
        return self.begun(self.new_id(), who, Redrive(order, self._broker), now)

    def forecast(self, who: Operator, order: RedriveOrder) -> Forecast:
        """A dry run, to be begun with a session of this operator."""
        who.require_tag(MANAGEMENT)
        return Forecast(order, self._broker)
