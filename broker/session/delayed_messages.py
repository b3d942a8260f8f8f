"""Delayed messages that wait in an exchange or for a queue: to look at, and to cancel one of them.

An id names a message for ever: the number of the queue in which it waits, and its place there.
"""

from __future__ import annotations

import re
from typing import NamedTuple, cast

from broker.catalog.catalog import Catalog
from broker.errors import InvalidRequest, NotFound, PreconditionFailed
from broker.exchanges.delayed_exchange import DELAYED_KIND
from broker.exchanges.delaying_queue import DELAYED_MESSAGES, delays
from broker.messages.browsed import Browsed
from broker.names import holding_queue, holding_queue_of, not_found
from broker.pending import Pending
from broker.queues.holding_contract import (
    FIRST_PLACE,
    LISTED_MAX,
    HoldingContract,
    ListOrder,
    WaitingMessage,
    WaitingPlace,
)
from broker.session.topology import Topology

_ID = re.compile(r"(\d{1,18})-(\d{1,18})-(\d{1,9})-(\d{1,9})", re.ASCII)


class Delayer(NamedTuple):
    """What delays messages."""

    kind: str  # exchange or queue
    name: str

    def __str__(self) -> str:
        return f"{self.kind} '{self.name}'"


class DelayedMessage(NamedTuple):
    """One that waits."""

    id: str
    due_ms: int  # by the queue's clock, which goes on steadily
    message: Browsed


class DelayedMessages:
    """Those that a session's user may read."""

    def __init__(self, catalog: Catalog, topology: Topology, vhost: str) -> None:
        self._catalog = catalog
        self._topology = topology
        self._vhost = vhost

    def next_due(self, delayer: Delayer, limit: int, now: int) -> Pending[list[DelayedMessage]]:
        """The messages that will be routed next, the soonest first."""
        return self._list(delayer, ListOrder.DUE, "", limit, now)

    def published_after(self, delayer: Delayer, after: str, limit: int, now: int) -> Pending[list[DelayedMessage]]:
        """Messages in the order in which they were published, from behind this id on; empty: from the first."""
        return self._list(delayer, ListOrder.PUBLISHED, after, limit, now)

    def cancel(self, delayer: Delayer, id_: str, now: int) -> Pending[None]:
        """Fails with NotFound for a message that does not wait: it may have been routed."""
        queue = self._holding(delayer)
        place = _place(queue, id_)

        def answer(taken: int) -> None:
            if not taken:
                raise NotFound(f"no message '{id_}' waits in {delayer} (any more)")

        return queue.withdraw(place, now, self._topology.actor).map(answer)

    def _list(
        self, delayer: Delayer, order: ListOrder, after: str, limit: int, now: int
    ) -> Pending[list[DelayedMessage]]:
        queue = self._holding(delayer)
        if not 0 < limit <= LISTED_MAX:
            raise PreconditionFailed(f"1 to {LISTED_MAX} delayed messages can be listed in one go, not {limit}")
        found = queue.waiting(order, _place(queue, after) if after else FIRST_PLACE, limit, now)
        return found.map(lambda some: [_shown(queue, one) for one in some])

    def _holding(self, delayer: Delayer) -> HoldingContract:
        name = self._of_exchange(delayer.name) if delayer.kind == "exchange" else self._of_queue(delayer.name)
        return cast(HoldingContract, self._topology.existing(name).queue)

    def _of_exchange(self, exchange: str) -> str:
        """Who may look at the queue, or purge it, may do so here."""
        name = holding_queue(exchange)
        self._topology.check_permission("read", "queue", name)
        record = self._catalog.exchange(self._vhost, exchange)
        if record is None:
            raise not_found("exchange", exchange, self._vhost)
        if record.kind != DELAYED_KIND:
            raise PreconditionFailed(f"messages do not wait in exchange '{exchange}': it is of the type {record.kind}")
        return name

    def _of_queue(self, queue: str) -> str:
        """Who may read the queue may see what is to come there."""
        self._topology.check_permission("read", "queue", queue)
        record = self._catalog.queue(self._vhost, queue)
        if record is None:
            raise not_found("queue", queue, self._vhost)
        if not delays(record):
            raise PreconditionFailed(
                f"messages do not wait for queue '{queue}': it was declared without {DELAYED_MESSAGES}"
            )
        return holding_queue_of(queue)


def _shown(queue: HoldingContract, one: WaitingMessage) -> DelayedMessage:
    return DelayedMessage("-".join(map(str, (queue.record.id, *one.place))), one.due_ms, one.message)


def _place(queue: HoldingContract, id_: str) -> WaitingPlace:
    found = _ID.fullmatch(id_)
    if found is None:
        raise InvalidRequest(f"'{id_}' is no id of a delayed message, such as a list of them has: 7-1204-9-0")
    number, *place = map(int, found.groups())
    if number != queue.record.id:
        raise NotFound(f"the message '{id_}' waited in another queue than is there now")
    return WaitingPlace(*place)
