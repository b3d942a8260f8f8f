"""Redrives of this node: who began them, how far they are, and the last that ended."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker.errors import BrokerError, NotFound, PreconditionFailed, ResourceExhausted
from broker.operations.operator import ADMINISTRATOR, MANAGEMENT, Operator
from broker.redrive.forecast import Forecast
from broker.redrive.order import RedriveOrder
from broker.redrive.redrive import Redrive, RedriveState

if TYPE_CHECKING:
    from broker.broker import Broker

RUNNING_MAX = 8  # on one node: each takes from the same turns of the event loop
ENDED_KEPT = 50
ID_BYTES = 8


@dataclass(slots=True)
class RedriveView:
    """A redrive, and whose it is."""

    id: str
    owner: Operator
    began_at: int
    job: Redrive
    ended_at: int = 0  # 0: it runs

    @property
    def user(self) -> str:
        return self.owner.name


class Redrives:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._views: dict[str, RedriveView] = {}  # in the order in which they began

    def admit(self, who: Operator, order: RedriveOrder, now: int) -> RedriveView:
        """A redrive to be begun with a session of this operator, and then `ended`. Raises BrokerError."""
        who.require_tag(MANAGEMENT)
        job = Redrive(order, self._broker)
        running = self._running()
        if any((one.job.order.vhost, one.job.order.queue) == (order.vhost, order.queue) for one in running):
            raise PreconditionFailed(
                f"queue '{order.queue}' is being redriven already: wait until that ends, or cancel it"
            )
        if len(running) >= RUNNING_MAX:
            raise ResourceExhausted(f"{RUNNING_MAX} redrives run on this node, and no more may: wait until one ends")
        view = RedriveView(self._broker.random_bytes(ID_BYTES).hex(), who, now, job)
        self._views[view.id] = view
        return view

    def forecast(self, who: Operator, order: RedriveOrder) -> Forecast:
        """A dry run, to be begun with a session of this operator."""
        who.require_tag(MANAGEMENT)
        return Forecast(order, self._broker)

    def ended(self, view: RedriveView, now: int) -> None:
        """However it did: its session is closed."""
        if view.job.state is RedriveState.RUNNING:
            view.job.state, view.job.error = RedriveState.FAILED, "it was given up"
        view.ended_at = now
        order, job = view.job.order, view.job
        what = (
            f"redrive queue '{order.queue}' in vhost '{order.vhost}' to {order.target}: {job.state}, {job.moved} moved"
        )
        self._broker.audit.changed("Redrive", what, BrokerError(job.error) if job.error else None)
        self._forget_oldest()

    def all(self, who: Operator) -> Iterator[RedriveView]:
        """Those of vhosts that they may see, the newest first."""
        who.require_tag(MANAGEMENT)
        found = reversed(tuple(self._views.values()))
        return (one for one in found if who.may_see(self._broker.catalog, one.job.order.vhost))

    def cancel(self, who: Operator, id_: str) -> None:
        """Raises NotFound when there is none that they may cancel: their own; any, as an administrator."""
        who.require_tag(MANAGEMENT)
        found = self._views.get(id_)
        if found is None or not (who.has_tag(ADMINISTRATOR) or who.is_user(found.owner.login)):
            raise NotFound(f"no redrive '{id_}' that user '{who.name}' may cancel")
        found.job.cancel()

    def _running(self) -> list[RedriveView]:
        return [one for one in self._views.values() if not one.ended_at]

    def _forget_oldest(self) -> None:
        ended = [one.id for one in self._views.values() if one.ended_at]
        for id_ in ended[:-ENDED_KEPT]:
            del self._views[id_]
