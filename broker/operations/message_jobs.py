"""Jobs of this node that move messages for an operator: who began them, how far they are, and the last that ended."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from broker.errors import BrokerError, NotFound, PreconditionFailed, ResourceExhausted
from broker.operations.operator import ADMINISTRATOR, MANAGEMENT, Operator
from broker.redrive.redrive import RedriveState

if TYPE_CHECKING:
    from broker.broker import Broker

RUNNING_MAX = 8  # on one node: each takes from the same turns of the event loop
ENDED_KEPT = 50
ID_BYTES = 8


class JobOrder(Protocol):
    """What is to be done."""

    @property
    def vhost(self) -> str: ...

    @property
    def queue(self) -> str: ...

    @property
    def target(self) -> str: ...


class MessageJob(Protocol):
    """What does it."""

    state: RedriveState
    error: str

    @property
    def order(self) -> JobOrder: ...

    @property
    def moved(self) -> int: ...

    def cancel(self) -> None: ...


J = TypeVar("J", bound=MessageJob)


@dataclass(slots=True)
class JobView(Generic[J]):
    """A job, and whose it is."""

    id: str
    owner: Operator
    began_at: int
    job: J
    ended_at: int = 0  # 0: it runs

    @property
    def user(self) -> str:
        return self.owner.name


class MessageJobs(Generic[J]):
    """Of one kind."""

    def __init__(self, broker: Broker, kind: str, running_max: int = RUNNING_MAX) -> None:
        """`kind`: as people call it, redrive or replay."""
        self._broker = broker
        self._kind = kind
        self._running_max = running_max
        self._views: dict[str, JobView[J]] = {}  # in the order in which they began

    def new_id(self) -> str:
        return self._broker.random_bytes(ID_BYTES).hex()

    def begun(self, id_: str, who: Operator, job: J, now: int) -> JobView[J]:
        """To be begun with a session of this operator, and then `ended`. Raises BrokerError."""
        running = [one for one in self._views.values() if not one.ended_at]
        order = job.order
        if any((one.job.order.vhost, one.job.order.queue) == (order.vhost, order.queue) for one in running):
            raise PreconditionFailed(
                f"a {self._kind} of queue '{order.queue}' runs already: wait until that ends, or cancel it"
            )
        if len(running) >= self._running_max:
            raise ResourceExhausted(
                f"{self._running_max} {self._kind}s run on this node, and no more may: wait until one ends"
            )
        self._views[id_] = view = JobView(id_, who, now, job)
        return view

    def ended(self, view: JobView[J], now: int) -> None:
        """However it did: its session is closed."""
        if view.job.state is RedriveState.RUNNING:
            view.job.state, view.job.error = RedriveState.FAILED, "it was given up"
        view.ended_at = now
        order, job = view.job.order, view.job
        what = (
            f"{self._kind} queue '{order.queue}' in vhost '{order.vhost}' to {order.target}: "
            f"{job.state}, {job.moved} moved"
        )
        self._broker.audit.changed(self._kind.capitalize(), what, BrokerError(job.error) if job.error else None)
        self._forget_oldest()

    def all(self, who: Operator) -> Iterator[JobView[J]]:
        """Those of vhosts that they may see, the newest first."""
        who.require_tag(MANAGEMENT)
        found = reversed(tuple(self._views.values()))
        return (one for one in found if who.may_see(self._broker.catalog, one.job.order.vhost))

    def cancel(self, who: Operator, id_: str) -> None:
        """Raises NotFound when there is none that they may cancel: their own; any, as an administrator."""
        who.require_tag(MANAGEMENT)
        found = self._views.get(id_)
        if found is None or not (who.has_tag(ADMINISTRATOR) or who.is_user(found.owner.login)):
            raise NotFound(f"no {self._kind} '{id_}' that user '{who.name}' may cancel")
        found.job.cancel()

    def _forget_oldest(self) -> None:
        ended = [one.id for one in self._views.values() if one.ended_at]
        for id_ in ended[:-ENDED_KEPT]:
            del self._views[id_]
